"""The run's side of a program: when to report, to save and to stop, and where all that goes."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from types import FrameType
from typing import Any, Protocol

from weft.runs.checkpoint import Checkpoints
from weft.runs.metrics import Sink
from weft.runs.progress import Progress
from weft.types import Tree

Callback = Callable[[Mapping[str, Any]], bool | None]
"""Called with each row of metrics; returning False ends the training, saved and resumable."""

ROWS = 200
"""A run reports this many rows over its length, at the same steps whatever its seed, so that seeds can be compared."""
LONGEST_SILENCE = 10.0
"""Seconds after which a row is written all the same."""
LONGEST_UNSAVED = 300.0
"""Seconds after which a checkpoint is written all the same."""


class Reporter(Protocol):
    """What a program shows of itself; see ``weft.topologies.job``."""

    @property
    def steps(self) -> int: ...  # noqa: D102

    @property
    def learning(self) -> bool: ...  # noqa: D102

    def report(self) -> dict[str, float]: ...  # noqa: D102

    async def save(self) -> dict[str, Tree]: ...  # noqa: D102


_log = logging.getLogger("weft")


class RunMonitor:
    """Reports rows to sinks, saves checkpoints, shows progress, and ends the program when told to."""

    def __init__(
        self,
        steps: int,
        checkpoints: Checkpoints,
        checkpoint_every: int,
        sinks: Sequence[Sink],
        progress: Progress | None,
        callbacks: Sequence[Callback],
        write_summary: Callable[[Mapping[str, Any]], None],
        earlier: Mapping[str, Any] | None = None,
    ) -> None:
        """``earlier`` is the part ``run`` of the checkpoint that the run continues from."""
        self._total = steps
        self._checkpoints = checkpoints
        self._checkpoint_every = checkpoint_every
        self._sinks = sinks
        self._progress = progress
        self._callbacks = callbacks
        self._write_summary = write_summary
        self._earlier = earlier or {"steps": 0, "seconds": 0.0, "steps_per_second": None, "row": {}}
        self._row_every = max(steps // ROWS, 1)
        self._row: Mapping[str, Any] = self._earlier["row"]
        self._row_at = self._saved_at = self._learning_at = self._began = perf_counter()
        self._row_steps = self._saved_steps = self._earlier["steps"]
        self._learning_steps: int | None = None
        self._stopping = False
        self.flow: Callable[[], Mapping[str, float]] = dict
        """Returns the metrics of what travels between the parts since it was last called."""
        self.interrupted: int | None = None
        """The signal that ended the run, if one did."""

    async def tick(self, reporter: Reporter) -> bool:
        """Do what is due; returns False once the program shall come to an end."""
        steps, now = reporter.steps, perf_counter()
        if self._learning_steps is None and reporter.learning:
            self._learning_steps, self._learning_at = steps, now
        if steps // self._row_every > self._row_steps // self._row_every or now - self._row_at > LONGEST_SILENCE:
            self._write_row(reporter)
        elif self._progress is not None:
            self._show(steps)
        if (
            steps // self._checkpoint_every > self._saved_steps // self._checkpoint_every
            or now - self._saved_at > LONGEST_UNSAVED
        ):
            await self._save(reporter)
        return not self._stopping

    async def finish(self, reporter: Reporter) -> None:
        """Write the last row and the last checkpoint."""
        if reporter.steps > self._row_steps:
            self._write_row(reporter)
        if reporter.steps > self._saved_steps:
            await self._save(reporter)

    def note(self, text: str) -> None:
        """Tell the user something they should know."""
        if self._progress is not None:
            self._progress.note(text)
        else:
            _log.warning(text)

    def summary(self) -> dict[str, Any]:
        """How the run stands, for its summary."""
        return {
            "steps": self._row_steps,
            "seconds": self._seconds(self._row_at),
            "steps_per_second": self._steps_per_second(),
            "mean_return": self._row.get("mean_return"),
            "episodes": self._row.get("episodes", 0),
            "finished": self._row_steps >= self._total,
        }

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM end the program at its next tick; a second one interrupts it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, self._interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self._stopping, self.interrupted = True, number

    def _seconds(self, now: float) -> float:
        return round(self._earlier["seconds"] + now - self._began, 3)

    def _steps_per_second(self) -> float | None:
        """Return the speed since the first update of this session, which came after compilation."""
        if self._learning_steps is None or self._row_steps <= self._learning_steps:
            return self._earlier["steps_per_second"]
        return round((self._row_steps - self._learning_steps) / (self._row_at - self._learning_at), 1)

    def _write_row(self, reporter: Reporter) -> None:
        steps, now = reporter.steps, perf_counter()
        rate = (steps - self._row_steps) / max(now - self._row_at, 1e-9)
        self._row = {
            "seconds": self._seconds(now),
            "steps_per_second": round(rate, 1),
            **reporter.report(),
            **self.flow(),
        }
        self._row_steps, self._row_at = steps, now
        for sink in self._sinks:
            sink.write(steps, self._row)
        if self._progress is not None:
            self._show(steps)
        for callback in self._callbacks:
            if callback({"steps": steps, **self._row}) is False:
                self._stopping = True

    def _show(self, steps: int) -> None:
        assert self._progress is not None
        shares = {name[6:]: value for name, value in self._row.items() if name.startswith("share_")}
        self._progress.update(steps, self._row, shares)

    async def _save(self, reporter: Reporter) -> None:
        if self._row_steps < reporter.steps:
            self._write_row(reporter)
        summary = self.summary()
        parts = {**await reporter.save(), "run": {**summary, "row": self._row}}
        self._checkpoints.save(parts, reporter.steps, self._row.get("mean_return"))
        self._saved_steps, self._saved_at = reporter.steps, perf_counter()
        self._write_summary(summary)
