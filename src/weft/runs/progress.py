"""What a person sees while a run trains: one calm picture in a terminal, plain lines everywhere else.

The picture is redrawn from ``update`` a few times a second at most, without a thread of its own, so that showing
progress costs training nothing that can be measured.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_REDRAW_SECONDS = 0.25
_LINE_SECONDS = 5.0
_RATE_SECONDS = 15.0
_WIDTH = 84
_GAP = "   "


class Progress:
    """The display of one run, a context manager that leaves the terminal as it found it."""

    def __init__(self, total_steps: int, title: str, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._total = total_steps
        self._title = title
        self._console = console or Console(highlight=False)
        self._steps = 0
        self._mean_return: float | None = None
        self._best: float | None = None
        self._shares: Mapping[str, float] = {}
        self._began = time.perf_counter()
        self._shown = -math.inf
        self._recent: deque[tuple[float, int]] = deque()
        self._finished = False
        self._live: Live | None = None
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(self._picture(), console=self._console, auto_refresh=False)
            self._live.start(refresh=True)
        else:
            self._print(title)

    def update(self, steps: int, metrics: Mapping[str, Any], shares: Mapping[str, float]) -> None:
        """Take the state of the run, and show it if the last time was long enough ago.

        ``metrics`` is the newest row, of which ``mean_return`` is shown; ``shares`` maps the parts of the loop to the
        share of the time that each takes, in [0, 1]; what is missing from 1 is shown as other.
        """
        self._steps, self._shares = steps, shares
        mean_return = metrics.get("mean_return")
        if mean_return is not None and math.isfinite(mean_return):
            self._mean_return = mean_return
            self._best = mean_return if self._best is None else max(self._best, mean_return)
        now = time.perf_counter()
        if now - self._shown >= (_REDRAW_SECONDS if self._live else _LINE_SECONDS):
            self._shown = now
            self._recent.append((now, steps))
            while now - self._recent[0][0] > _RATE_SECONDS and len(self._recent) > 2:
                self._recent.popleft()
            self._show()

    def note(self, text: str) -> None:
        """Print something that stays above the picture: a warning, or what was done."""
        if self._live:
            self._print(f"• {text}", "yellow")
        else:
            self._print(text)

    def finish(self, lines: Sequence[str]) -> None:
        """Show the last state, give the terminal back, and print what to know and do next."""
        self._finished = True
        self._show()
        self.close()
        self._print("")
        for line in lines:
            self._print(line)

    def close(self) -> None:
        """Give the terminal back; the last picture stays in it."""
        if self._live:
            self._live.stop()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def _show(self) -> None:
        if self._live:
            self._live.update(self._picture(), refresh=True)
        else:
            shares = ", ".join(f"{part} {_percent(share)}" for part, share in self._parts())
            figures = ", ".join([f"{self._steps:,} of {self._total:,} steps", *self._figures(), self._time()])
            self._print(f"{figures}; {shares}" if shares else figures)

    def _picture(self) -> RenderableType:
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        width = min(self._console.width - 2, _WIDTH)
        done = min(self._steps / self._total, 1.0)
        bar = ProgressBar(1.0, done, width - 7, complete_style="cyan", finished_style="green")
        lines = (
            _ends(Text(self._title, "bold"), Text(f"{self._steps:,} of {self._total:,} steps", "dim"), width),
            _ends(bar, Text(_percent(done)), width),
            _ends(Text(_GAP.join(self._figures())), Text(self._time(), "dim"), width),
            self._share_text(),
        )
        return Padding(Group(*lines), (1, 1, 0, 1), expand=False)

    def _figures(self) -> list[str]:
        figures = []
        if self._mean_return is not None and self._best is not None:
            figures += [f"return {self._mean_return:,.1f}", f"best {self._best:,.1f}"]
        if rate := self._rate():
            figures.append(f"{rate:,.0f} steps/s")
        return figures

    def _rate(self) -> float:
        """Return the steps in a second over the last while; 0 when it is not known yet."""
        if len(self._recent) < 2:
            return 0.0
        (began, first), (ended, last) = self._recent[0], self._recent[-1]
        return (last - first) / (ended - began)

    def _time(self) -> str:
        if self._finished:
            return f"took {_duration(time.perf_counter() - self._began)}"
        if rate := self._rate():
            return f"{_duration(max(self._total - self._steps, 0) / rate)} left"
        return "starting"

    def _parts(self) -> list[tuple[str, float]]:
        other = max(1 - sum(self._shares.values()), 0.0)
        return [*self._shares.items(), ("other", other)] if self._shares else []

    def _share_text(self) -> Text:
        """Return where the time goes, with the part that takes most of it standing out."""
        from rich.text import Text

        parts = self._parts()
        most = max((share for _, share in parts), default=0.0)
        texts = (Text(f"{part} {_percent(share)}", "" if share == most else "dim") for part, share in parts)
        return Text(" · ", "dim").join(texts)


def _ends(left: RenderableType, right: RenderableType, width: int) -> RenderableType:
    """Return a line with something at either end."""
    from rich.table import Table

    line = Table.grid(expand=False, pad_edge=False)
    line.width = width
    line.add_column(ratio=1, no_wrap=True)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(left, right)
    return line


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _duration(seconds: float) -> str:
    """Return hours, minutes and seconds.

    >>> _duration(75), _duration(3_600 * 27 + 62)
    ('1:15', '27:01:02')
    """
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
