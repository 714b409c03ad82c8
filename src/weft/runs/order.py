"""The order of events of an asynchronous run, kept so that it can be repeated bit for bit."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from weft.errors import WeftError
from weft.runs.files import disk_errors

FILE = "order.jsonl"


class OrderFile:
    """``order.jsonl``: a line for each stretch of choices at one reading end, in the order in which they were made."""

    def __init__(self, folder: Path, resumed: bool = False) -> None:
        self._path = folder / FILE
        self._given_up = False
        if resumed:
            self.give_up("the run was resumed, and what was on its way when it stopped is lost")

    def write(self, edge: str, choices: Sequence[int]) -> None:
        """Append the choices of one reading end."""
        self._append({"edge": edge, "choices": list(choices)})

    def give_up(self, why: str) -> None:
        """Say that the run cannot be repeated from here on."""
        self._append({"given_up": why})
        self._given_up = True

    def _append(self, line: dict[str, object]) -> None:
        if self._given_up:
            return
        with disk_errors(self._path), open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_order(folder: Path) -> dict[str, list[int]]:
    """Return the choices at each reading end, or say why the run cannot be repeated."""
    path = folder / FILE
    if not path.exists():
        raise WeftError(f"{folder} has no {FILE}: the order of its events was not recorded, or there was none.")
    order: dict[str, list[int]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if "given_up" in entry:
            raise WeftError(f"{folder} cannot be repeated: {entry['given_up']}.")
        order[entry["edge"]] += entry["choices"]
    return dict(order)
