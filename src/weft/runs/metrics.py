"""The metrics of a run: ``metrics.jsonl``, one JSON object a line, which pandas reads and a killed writer cannot spoil.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> with Metrics(folder) as metrics:
...     metrics.write(128, {"mean_return": 21.5})
...     metrics.write(256, {"mean_return": float("nan"), "loss": 0.25})
>>> read(folder)
{'steps': array([128, 256]), 'mean_return': array([21.5,  nan]), 'loss': array([ nan, 0.25])}
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from weft.runs.files import disk_errors, to_json, write_atomically

NAME = "metrics.jsonl"


class Sink(Protocol):
    """Somewhere that metrics go."""

    def write(self, steps: int, metrics: Mapping[str, Any]) -> None:
        """Take the scalars that describe the run at ``steps``."""

    def close(self) -> None:
        """Finish writing."""


class Metrics:
    """The ``Sink`` that appends to the run's own file; each row is with the operating system when ``write`` returns."""

    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder) / NAME
        with disk_errors(self._path):
            self._file = open(self._path, "ab+", buffering=0)  # noqa: SIM115
        self._file.truncate(_whole(self._path.read_bytes()))

    def write(self, steps: int, metrics: Mapping[str, Any]) -> None:
        """Append a row: ``steps`` and then ``metrics``."""
        row = (to_json({"steps": steps, **metrics}) + "\n").encode()
        with disk_errors(self._path):
            while row:
                row = row[self._file.write(row) :]

    def close(self) -> None:
        """Make the rows durable."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(folder: str | Path) -> dict[str, np.ndarray]:
    """Return the columns of a run's metrics, all of one length, NaN where a row has no value; {} before the first row.

    ``pandas.DataFrame(read(folder))`` is the table.
    """
    rows = _rows(Path(folder) / NAME)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _column([row.get(name) for row in rows]) for name in names}


def truncate(folder: str | Path, after_steps: int) -> None:
    """Drop the rows of more than ``after_steps``, which a run resumed from there is about to write again."""
    path = Path(folder) / NAME
    kept = [row for row in _rows(path) if row["steps"] <= after_steps]
    if path.exists():
        write_atomically(path, "".join(f"{to_json(row)}\n" for row in kept))


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    content = path.read_bytes()
    return [json.loads(line) for line in content[: _whole(content)].splitlines()]


def _whole(content: bytes) -> int:
    """Return the length of the whole lines: a killed writer can have left a torn one at the end."""
    return content.rfind(b"\n") + 1


def _column(values: list[Any]) -> np.ndarray:
    if all(type(value) is int for value in values):
        return np.array(values)
    return np.array([np.nan if value is None else value for value in values], np.float64)
