"""Other places that metrics go: TensorBoard, Weights & Biases, MLflow. None of them can slow or stop a training."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.errors import require, unknown
from weft.runs.files import write_atomically
from weft.runs.metrics import Sink

_log = logging.getLogger("weft")


class TensorBoard:
    """Scalars in TensorBoard's event files; rows after ``steps`` of an earlier writer are hidden."""

    def __init__(self, folder: Path, config: Mapping[str, Any], steps: int) -> None:
        self._folder, self._steps = folder / "tensorboard", steps
        self._writer: Any = None

    def write(self, steps: int, metrics: Mapping[str, Any]) -> None:
        """Write each scalar under its own name."""
        if self._writer is None:
            self._writer = self._open()
        for name, value in metrics.items():
            self._writer.add_scalar(name, float(value), steps)

    def close(self) -> None:
        """Flush the event file."""
        if self._writer is not None:
            self._writer.close()

    def _open(self) -> Any:
        from tensorboardX import SummaryWriter

        first = self._steps + 1 if self._steps else None
        return SummaryWriter(str(self._folder), purge_step=first, filename_suffix=f".{self._steps}")


class WeightsAndBiases:
    """A run of the project ``weft`` at Weights & Biases; a resumed run continues its own."""

    def __init__(self, folder: Path, config: Mapping[str, Any], steps: int) -> None:
        import wandb

        name = folder.resolve().name
        self._run = wandb.init(project="weft", name=name, id=name, dir=str(folder), config=dict(config), resume="allow")

    def write(self, steps: int, metrics: Mapping[str, Any]) -> None:
        """Log one row."""
        self._run.log({name: float(value) for name, value in metrics.items()}, step=steps)

    def close(self) -> None:
        """Upload what is left."""
        self._run.finish()


class MLflow:
    """A run of the experiment ``weft`` at MLflow; a resumed run continues its own, whose name is in ``mlflow.id``."""

    def __init__(self, folder: Path, config: Mapping[str, Any], steps: int) -> None:
        import mlflow

        self._mlflow = mlflow
        self._mlflow.set_experiment("weft")
        stored = folder / "mlflow.id"
        if stored.exists():
            self._id = self._mlflow.start_run(run_id=stored.read_text().strip()).info.run_id
        else:
            self._id = self._mlflow.start_run(run_name=folder.resolve().name).info.run_id
            self._mlflow.log_params(dict(_flat(config)))
            write_atomically(stored, f"{self._id}\n")

    def write(self, steps: int, metrics: Mapping[str, Any]) -> None:
        """Log one row, from whatever thread."""
        self._mlflow.log_metrics({name: float(value) for name, value in metrics.items()}, step=steps, run_id=self._id)

    def close(self) -> None:
        """Mark the run as finished."""
        self._mlflow.end_run()


class Background:
    """Writes to sinks from a thread of its own. One that fails is reported once and left out from then on."""

    def __init__(self, sinks: Sequence[Sink], warn: Callable[[str], None] = _log.warning) -> None:
        self._sinks = list(sinks)
        self._warn = warn
        self._rows: queue.SimpleQueue[tuple[int, Mapping[str, Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="weft-sinks", daemon=True)
        self._thread.start()

    def write(self, steps: int, metrics: Mapping[str, Any]) -> None:
        """Hand the row over and return at once."""
        self._rows.put((steps, dict(metrics)))

    def close(self) -> None:
        """Write what was handed over, then close every sink."""
        self._rows.put(None)
        self._thread.join()
        for sink in list(self._sinks):
            self._attempt(sink, sink.close)

    def _work(self) -> None:
        while (row := self._rows.get()) is not None:
            for sink in list(self._sinks):
                self._attempt(sink, sink.write, *row)

    def _attempt(self, sink: Sink, action: Callable[..., None], *arguments: Any) -> None:
        try:
            action(*arguments)
        except Exception as error:
            self._sinks.remove(sink)
            self._warn(f"{type(sink).__name__} failed and is left out: {error}")


SINKS: dict[str, type] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


def check_sinks(names: Sequence[str]) -> None:
    """Refuse a name that does not exist or whose extra is missing."""
    for name in names:
        if name not in SINKS:
            raise unknown("logger", name, SINKS)
        if name != "tensorboard":
            require(name, name, f"Logging to {SINKS[name].__name__}")


def open_sinks(
    names: Sequence[str],
    folder: str | Path,
    config: Mapping[str, Any],
    steps: int = 0,
    warn: Callable[[str], None] = _log.warning,
) -> Background:
    """Open the named sinks for a run that is at ``steps``."""
    check_sinks(names)
    return Background([SINKS[name](Path(folder), config, steps) for name in names], warn)


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings under dotted names."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
