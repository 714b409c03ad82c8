"""Replay buffers of weft and of other libraries in one process: items a second in and out, and memory.

Cases: ``small`` (transitions of 17 + 6 + 17 floats), ``images`` (pairs of 84x84x4 bytes) and ``sequences`` (80 steps of
the small ones without the next observation; speeds are steps a second). Batches of 256 (``sequences``: 32 x 80) are
inserted into a full buffer, drawn uniformly, drawn by priority, and drawn by priority with the priorities updated. A
library that can hold the data in several ways has a row for each; a dash is what it cannot do (TorchRL's priorities:
see ``peers/torchrl_replay.py``). Reverb compresses what it holds, so its memory depends on the data. The data, the
clock and what must come back are in ``peers/replaying.py``. The libraries take turns; the figure is the median over the
rounds. Peers get virtual environments of their own, in ``$WEFT_PEERS`` or ``.cache/peers``.

    python benchmarks/replay.py [--rounds 3] [--cases small ...] [--peers cpprb ...]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import measuring

SCRIPTS = measuring.HERE / "peers"
CASES = {"small": 1_000_000, "images": 20_000, "sequences": 1_000_000}
"""Items (``sequences``: steps) that a buffer of each case holds."""
OPERATIONS = ("insert", "sample", "prioritised_sample", "prioritised_update")
BYTES = "bytes"

Figures = dict[str, float | None]
"""What one row measured, by operation."""


class Peer(NamedTuple):
    """How to install a library, and where it holds less than ``CASES``."""

    stages: Sequence[Sequence[str]]
    """Arguments of each ``pip install``."""
    capacities: Mapping[str, int] = {}


PEERS = {
    "cpprb": Peer([["cpprb>=11"]]),
    "stable-baselines3": Peer([measuring.TORCH, ["stable-baselines3>=2.4"]]),
    "flashbax": Peer([["flashbax>=0.1.3"]]),
    "torchrl": Peer([measuring.TORCH, ["torchrl>=0.10"]]),
    # Filling it takes many times as long as the others; neither speed depends on the capacity much.
    "reverb": Peer([["dm-reverb[tensorflow]>=0.14"]], {"small": 100_000, "sequences": 100_000}),
}


def measure(python: Path, library: str, case: str) -> dict[str, Any]:
    """Run one library's script once and return what it prints."""
    capacity = PEERS[library].capacities.get(case, CASES[case]) if library in PEERS else CASES[case]
    command = [python, SCRIPTS / f"{library.replace('-', '_')}_replay.py", case, str(capacity)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{library} failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def medians(runs: Sequence[Figures]) -> Figures:
    """Return the median of each figure over the rounds."""
    return {
        name: None if first is None else statistics.median(run[name] for run in runs) for name, first in runs[0].items()
    }


def ratios(mine: Figures, theirs: Sequence[Figures]) -> Figures:
    """Return the figures of weft by those of the best peer: above 1 is faster, and for the memory below 1 is less."""
    ratio: Figures = {}
    for name in (*OPERATIONS, BYTES):
        best = (min if name == BYTES else max)((row[name] for row in theirs if row[name] is not None), default=None)
        ratio[name] = None if best is None or mine[name] is None else mine[name] / best
    return ratio


def compare(pythons: Mapping[str, Path], case: str, rounds: int) -> dict[str, Any]:
    """Run all libraries in turn, ``rounds`` times, and return their figures."""
    runs: dict[str, list[Figures]] = {}
    versions, owner = {}, {}
    for _ in range(rounds):
        for library, python in pythons.items():
            result = measure(python, library, case)
            versions[library] = result["version"]
            for row, figures in result["rows"].items():
                runs.setdefault(row, []).append(figures)
                owner[row] = library
                print(case, row, figures, file=sys.stderr)
    median = {row: medians(figures) for row, figures in runs.items()}
    theirs = [median[row] for row, library in owner.items() if library != "weft"]
    ratio = {row: ratios(median[row], theirs) for row, library in owner.items() if library == "weft"}
    return {"versions": versions, "median": median, "all": runs, "weft_to_best_peer": ratio}


def show(case: str, result: dict[str, Any]) -> None:
    """Print the figures of a case, and below them how weft compares with the best of the others."""

    def cells(figures: Figures, form: str) -> list[str]:
        shown = (figures[name] for name in (*OPERATIONS, BYTES))
        return ["-" if figure is None else format(figure, form) for figure in shown]

    def held(figures: Figures) -> str:
        return "-" if figures["held"] is None else f"{figures['held']:,.0f}"

    rows = [(row, held(figures), *cells(figures, ",.0f")) for row, figures in result["median"].items()]
    rows += [
        (f"{row} to the best peer", "", *cells(ratio, ".2f")) for row, ratio in result["weft_to_best_peer"].items()
    ]
    unit = "step" if case == "sequences" else "item"
    header = (f"{case}, {unit}s/s", "held", *(name.replace("_", " ") for name in OPERATIONS), f"bytes/{unit}")
    print()
    measuring.table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    options = parser.parse_args()
    pythons = {"weft": Path(sys.executable)}
    pythons |= {name: measuring.python_of(name, PEERS[name].stages) for name in options.peers}
    results = {case: compare(pythons, case, options.rounds) for case in options.cases}
    for case, result in results.items():
        show(case, result)
    measuring.save("replay", "Replay buffers in one process by library, items a second and bytes an item", results)


if __name__ == "__main__":
    main()
