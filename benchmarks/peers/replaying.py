"""What every library's replay script shares: its arguments, the data, the order of the measurements and the clock.

A script is called ``NAME_replay.py CASE CAPACITY``, describes the ways of its library to hold the data as ``Row``s, and
prints one line of JSON. Each row is measured in a process of its own, so that its memory is its own as well:

    {"peer": ..., "version": ..., "case": ..., "rows": {ROW: {"held": ..., "insert": ..., "sample": ..., ...}}}

Speeds are items a second (``sequences``: steps a second); ``bytes`` is how much the resident memory grew for each item
(step) held, priorities left out. What a library does not have is null.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

BATCH = 256
SEQUENCES, LENGTH = 32, 80
OPERATIONS = ("insert", "sample", "prioritised_sample", "prioritised_update")
BLOCKS, BLOCK_SECONDS, WARM_UP = 5, 0.25, 10
PERIODS = {"small": 64 * BATCH, "images": 8 * BATCH, "sequences": 16 * LENGTH}
"""Steps after which the data begin again."""

Columns = dict[str, np.ndarray]
Figures = dict[str, float | None]


class Side(Protocol):
    """A buffer of one library, made with the batches that are inserted again and again."""

    held: int
    """Items (``sequences``: steps) in the full buffer"""

    def insert(self, number: int) -> None:
        """Insert batch ``number``, modulo how many there are; batches follow one another in time."""

    def sample(self) -> Any:
        """Draw a batch as arrays in host memory."""

    def columns(self, sample: Any) -> Columns:
        """Return what was sampled under the names of ``Work.batches``."""

    def update(self, sample: Any, priorities: np.ndarray) -> None:
        """Give the items of ``sample`` new priorities [256]."""


class Row(NamedTuple):
    """One way to hold the data in a library."""

    make: Callable[[list[Columns], int, bool], Side]
    """Takes the batches, the capacity and whether the items have priorities"""
    cases: tuple[str, ...] = ("small", "images")
    streams: int = 1
    """1 if an inserted batch is 256 steps of one stream, 256 if it is one step of each of 256 streams"""
    prioritised: bool = True


class Work:
    """The data of a case, which know the right answer: the reward of a step is its number, which tells the observation.

    ``small`` and ``images``: batches of ``observation`` [256, 17] (or [256, 84, 84, 4] of bytes), ``action`` [256, 6]
    (or [256] of integers), ``reward``, ``discount`` [256] and ``next_observation``. ``sequences``: the same columns but
    the last, [32, 80, ...], each of the 32 streams going on where its previous 80 steps ended.
    """

    def __init__(self, case: str, streams: int = 1) -> None:
        self.case = case
        self.streams = streams
        self.period = PERIODS[case]
        self.random = np.random.default_rng(0)
        self.steps = self._steps()
        self.batches = self._sequences() if case == "sequences" else self._transitions()
        self.items = SEQUENCES * LENGTH if case == "sequences" else BATCH
        self.priorities = itertools.cycle(self.random.uniform(0.1, 1.1, (16, BATCH)).astype(np.float32))

    def _transitions(self) -> list[Columns]:
        steps = self.steps
        circle = np.concatenate([steps["observation"], steps["observation"][:BATCH]])
        batches = []
        for at in range(0, self.period, BATCH):
            batch = {name: column[at : at + BATCH] for name, column in steps.items()}
            batches.append(batch | {"next_observation": circle[at + self.streams :][:BATCH]})
        return batches

    def _sequences(self) -> list[Columns]:
        number = (np.arange(self.period) + 500 * np.arange(SEQUENCES)[:, None]) % self.period
        return [
            {name: column[number[:, at : at + LENGTH]] for name, column in self.steps.items()}
            for at in range(0, self.period, LENGTH)
        ]

    def _steps(self) -> Columns:
        normal = self.random.normal(size=(self.period, 17 + 6)).astype(np.float32)
        discrete = self.random.integers(18, size=self.period, dtype=np.int32)
        small = self.case != "images"
        return {
            "observation": np.ascontiguousarray(normal[:, :17]) if small else images(self.period),
            "action": np.ascontiguousarray(normal[:, 17:]) if small else discrete,
            "reward": np.arange(self.period, dtype=np.float32),
            "discount": np.ones(self.period, np.float32),
        }

    def check(self, sampled: Columns) -> None:
        """Stop if what was sampled is not what was inserted."""
        columns = {name: np.asarray(column) for name, column in sampled.items()}
        number = columns["reward"].astype(int).reshape((SEQUENCES, LENGTH) if self.case == "sequences" else (BATCH,))
        known = self.steps["observation"]
        right = len(np.unique(number)) > BATCH // 8 and np.array_equal(columns["observation"], known[number])
        if self.case == "sequences":
            right &= np.array_equal(number[:, 1:], (number[:, :-1] + 1) % self.period)
        else:
            right &= np.array_equal(columns["next_observation"], known[(number + self.streams) % self.period])
        if not right:
            raise SystemExit(f"The sample of {self.case} is not what was inserted: {number}")


def images(period: int) -> np.ndarray:
    """Stacks of 4 frames [period, 84, 84, 4] as of a game: squares that stay and a patch of noise that moves on."""
    random = np.random.default_rng(0)
    background = random.integers(256, size=(21, 21), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
    frames = np.repeat(background[None], period, 0)
    for number, frame in enumerate(frames):
        row, column = number % 68, number % 61
        frame[row : row + 16, column : column + 16] = random.integers(256, size=(16, 16), dtype=np.uint8)
    return np.stack([np.roll(frames, age, 0) for age in (3, 2, 1, 0)], -1)


def resident() -> int:
    """Return the bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def speed(operation: Callable[[], Any], items: int) -> float:
    """Return how many items a second an operation on so many of them makes: the median of a few blocks."""
    for _ in range(WARM_UP):
        operation()
    rates = []
    for _ in range(BLOCKS):
        calls, began = 0, time.perf_counter()
        while (seconds := time.perf_counter() - began) < BLOCK_SECONDS:
            operation()
            calls += 1
        rates.append(calls * items / seconds)
    return statistics.median(rates)


def filled(row: Row, work: Work, capacity: int, prioritised: bool) -> tuple[Side, Callable[[], None]]:
    """Return a full buffer, and a function that inserts the next batch."""
    side, numbers = row.make(work.batches, capacity, prioritised), itertools.count()
    for _ in range(-(-side.held // work.items)):
        side.insert(next(numbers))
    return side, lambda: side.insert(next(numbers))


def uniform(row: Row, work: Work, capacity: int) -> Figures:
    before = resident()
    side, insert = filled(row, work, capacity, prioritised=False)
    figures: Figures = {"held": side.held, "bytes": (resident() - before) / side.held}
    work.check(side.columns(side.sample()))
    figures["insert"] = speed(insert, work.items)
    figures["sample"] = speed(side.sample, work.items)
    work.check(side.columns(side.sample()))
    return figures


def prioritised(row: Row, work: Work, capacity: int) -> Figures:
    side, _ = filled(row, work, capacity, prioritised=True)

    def sample_and_update() -> None:
        side.update(side.sample(), next(work.priorities))

    figures: Figures = {"prioritised_update": speed(sample_and_update, work.items)}
    figures["prioritised_sample"] = speed(side.sample, work.items)
    work.check(side.columns(side.sample()))
    return figures


def measure(row: Row, case: str, capacity: int) -> Figures:
    """Measure everything about one row."""
    work = Work(case, row.streams)
    figures: Figures = dict.fromkeys(OPERATIONS) | uniform(row, work, capacity)
    if row.prioritised and case != "sequences":
        figures |= prioritised(row, work, capacity)
    return figures


def apart(name: str) -> Figures:
    """Run this script again in a process of its own, for one row."""
    done = subprocess.run([sys.executable, *sys.argv, "--row", name], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{name} failed")
    return json.loads(done.stdout.splitlines()[-1])


def run(package: str, rows: Mapping[str, Row]) -> None:
    """Measure the rows of a library that the case of the command line has, and print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=PERIODS)
    parser.add_argument("capacity", type=int)
    parser.add_argument("--row", choices=rows)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(measure(rows[options.row], options.case, options.capacity)))
        return
    figures = {name: apart(name) for name, row in rows.items() if options.case in row.cases}
    nothing: Figures = dict.fromkeys(("held", "bytes", *OPERATIONS))
    record = {"peer": package, "version": version(package), "case": options.case, "rows": figures or {package: nothing}}
    print(json.dumps(record))
