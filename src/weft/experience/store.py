"""The experience store: streams of steps go in, items of tables come out. One object, in a process or in a node.

    store = Store(layout, [TableSettings("replay", capacity=100_000, sampler=Prioritised(0.6))], streams=8, reach=4)
    store.extend(steps)                                  # leaves [T, 8, ...]
    store.insert("replay", span=4)                       # an item of the newest 4 steps of each stream
    sample = store.sample("replay", 256, pattern)        # sample.items: what the pattern serves, [256, ...]
    store.update("replay", sample.drawn.keys, priorities)

Threads may share it; whoever inserts or samples waits until the table's limiter lets it go ahead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from time import monotonic
from typing import Any, NamedTuple, Protocol

import numpy as np

from weft.errors import WeftError, unknown
from weft.experience.chunks import Chunks
from weft.experience.columns import Compression
from weft.experience.streams import Streams
from weft.experience.table import Drawn, Table, TableSettings
from weft.types import EVERY, Ids, Tree


class NothingInTime(WeftError):
    """A table had nothing to sample, or no room, for as long as was to be waited."""


class Items:
    """Items [N] whose steps can be read where they are stored; steps are numbered from an item's oldest one."""

    def __init__(self, chunks: Chunks, begins: np.ndarray, spans: np.ndarray) -> None:
        self._chunks, self.begins, self.spans = chunks, begins, spans
        self._windows: dict[tuple[int, int], np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.begins)

    def take(self, path: tuple[str | int, ...], begin: int, stop: int) -> Tree:
        """Return the steps ``begin`` to ``stop`` of a column, [N, stop - begin, ...]."""
        return self._chunks.take(self.window(begin, stop), *path)

    def window(self, begin: int, stop: int) -> np.ndarray:
        """Return the places [N, stop - begin] of the steps ``begin`` to ``stop``."""
        if (begin, stop) not in self._windows:
            first = self._chunks.later(self.begins, begin) if begin else self.begins
            self._windows[begin, stop] = self._chunks.window(first, stop - begin)
        return self._windows[begin, stop]


class Reading(Protocol):
    """What is made of the steps of items; patterns are one."""

    def read_items(self, items: Items) -> Tree:
        """Return what is served of items [N], leaves [N, ...] or as it likes."""


class Sample(NamedTuple):
    """What was sampled."""

    items: Tree
    drawn: Drawn
    size: int
    """items in the table"""


class Store:
    """Tables of items over the same chunks of steps."""

    def __init__(
        self,
        layout: Tree,
        tables: Iterable[TableSettings],
        streams: int = 1,
        reach: int = 1,
        chunk: int = 16,
        chunks: int = 64,
        compression: Compression | None = None,
        seed: np.random.SeedSequence | int = 0,
    ) -> None:
        """Take a step's layout, a tree of ``Leaf``, and the tables.

        ``reach`` is how many of a stream's newest steps an item may refer to, ``chunk`` how many steps are stored as
        one, ``chunks`` how many of these there is room for at first.
        """
        seeds = np.random.SeedSequence(seed) if isinstance(seed, int) else seed
        settings = list(tables)
        self.chunks = Chunks(layout, chunk, max(chunks, streams), compression)
        self.streams = Streams(self.chunks, streams, reach)
        self.reach = reach
        self.tables = {
            table.name: Table(table, own) for table, own in zip(settings, seeds.spawn(len(settings)), strict=True)
        }
        self._changed = threading.Condition(threading.RLock())

    def table(self, name: str) -> Table:
        """Return the table of this name."""
        if name not in self.tables:
            raise unknown("table", name, self.tables)
        return self.tables[name]

    def extend(self, steps: Tree, ids: Ids = EVERY, length: int | None = None) -> None:
        """Write ``length`` steps, leaves [length, B, ...], into streams; if it is None, one step, leaves [B, ...]."""
        with self._changed:
            streams = self.streams.resolve(ids)
            leaves = self.chunks.leaves(steps, (len(streams),) if length is None else (length, len(streams)))
            if length is None:
                self.streams.extend(streams, leaves, None)
                return
            for begin in range(0, length, self.chunks.length):
                stop = min(begin + self.chunks.length, length)
                self.streams.extend(streams, [leaf[begin:stop] for leaf in leaves], stop - begin)

    def insert(
        self,
        name: str,
        span: int,
        ids: Ids = EVERY,
        before: int = 0,
        number: int = 1,
        priorities: np.ndarray | None = None,
        timeout: float | None = 0.0,
    ) -> None:
        """Insert an item of ``span`` steps of each of the streams ``ids``, of which ``before`` newer ones are no part.

        With ``number`` there are so many of each stream, every one a step later than the one before it; priorities
        are [number * B] then, those of all streams one after the other. Waits for the table's limiter, at most
        ``timeout`` seconds (None: for ever).
        """
        table = self.table(name)
        with self._changed:
            streams = self.streams.resolve(ids)
            if not len(streams):
                return
            self._check_reach(streams, span, before + number - 1)
            if priorities is None:
                priorities = np.full(number * len(streams), table.highest)
            else:
                priorities = _checked(priorities, number * len(streams))
            first = self.streams.count[streams] - before - span
            begins = self.streams.places(streams, first - np.arange(number)[::-1, None]).reshape(-1)
            self._insert(table, begins, np.full(len(begins), span), priorities, timeout)

    def sample(self, name: str, number: int, reading: Reading, timeout: float | None = 0.0) -> Sample:
        """Sample ``number`` items once the table's limiter lets it, within ``timeout`` seconds (None: whenever)."""
        table = self.table(name)
        with self._changed:
            self._wait(table, lambda: table.may_sample(number), timeout, "to sample")
            drawn = table.sample(number)
            served = reading.read_items(Items(self.chunks, drawn.begins, drawn.spans))
            self.chunks.drop_items(*table.expired(drawn))
            self._changed.notify_all()
            return Sample(served, drawn, table.size)

    def update(self, name: str, keys: np.ndarray, priorities: np.ndarray) -> int:
        """Change the priorities of items, by their keys; returns how many of them are still there."""
        with self._changed:
            return self.table(name).update(np.asarray(keys), _checked(priorities, len(keys)))

    def remove(self, name: str, keys: np.ndarray) -> None:
        """Remove items, by their keys."""
        with self._changed:
            self.chunks.drop_items(*self.table(name).remove(np.asarray(keys)))
            self._changed.notify_all()

    def reset(self, ids: Ids = EVERY) -> None:
        """Begin streams anew: no item will have steps from before and after."""
        with self._changed:
            self.streams.reset(ids)

    def save(self) -> Tree:
        """Everything as a tree of arrays."""
        with self._changed:
            return {
                "chunks": self.chunks.save(),
                "streams": self.streams.save(),
                "tables": {name: table.save() for name, table in self.tables.items()},
            }

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned, with exactly the same next samples."""
        with self._changed:
            self.chunks.restore(saved["chunks"])
            self.streams.restore(saved["streams"])
            for name, table in self.tables.items():
                table.restore(saved["tables"][name])

    def _insert(
        self, table: Table, begins: np.ndarray, spans: np.ndarray, priorities: np.ndarray, timeout: float | None
    ) -> None:
        if table.may_insert(len(begins)) and len(begins) <= table.settings.capacity:
            self._insert_now(table, begins, spans, priorities)
            return
        done = 0
        while done < len(begins):
            most = min(len(begins) - done, table.settings.capacity)
            self._wait(table, lambda: table.may_insert(1), timeout, "to insert")
            part = slice(done, done + table.flow.may_insert(table.size, most))
            self._insert_now(table, begins[part], spans[part], priorities[part])
            done = part.stop

    def _insert_now(self, table: Table, begins: np.ndarray, spans: np.ndarray, priorities: np.ndarray) -> None:
        self.chunks.hold_items(begins, spans)
        self.chunks.drop_items(*table.insert(begins, spans, priorities))
        self._changed.notify_all()

    def _check_reach(self, streams: np.ndarray, span: int, before: int) -> None:
        if span < 1 or before < 0:
            raise WeftError(f"An item has at least one step, not {span}, and leaves out none or more, not {before}.")
        if span + before > self.reach:
            raise WeftError(
                f"An item of {span} steps that ends {before} steps ago begins {span + before} steps ago, but the "
                f"store was made for items that reach back {self.reach}."
            )
        shortest = int(self.streams.count[streams].min())
        if span + before > shortest:
            raise WeftError(
                f"An item of {span} steps that ends {before} steps ago goes beyond the stream, "
                f"which has {shortest} steps."
            )

    def _wait(self, table: Table, free: Any, timeout: float | None, purpose: str) -> None:
        if free():
            return
        until = None if timeout is None else monotonic() + timeout
        while not free():
            left = None if until is None else until - monotonic()
            if left is not None and left <= 0:
                raise NothingInTime(
                    f"Table {table.settings.name} was not ready {purpose} within {timeout} s: it holds {table.size} "
                    f"items, after {table.flow.inserts} inserts and {table.flow.samples} samples, and its limiter is "
                    f"{table.settings.limiter}."
                )
            self._changed.wait(left)


def _checked(priorities: np.ndarray, number: int) -> np.ndarray:
    priorities = np.asarray(priorities, np.float64)
    if priorities.shape != (number,):
        raise WeftError(f"There are {number} items, but priorities of shape {priorities.shape}.")
    if not (np.isfinite(priorities).all() and (priorities >= 0).all()):
        wrong = priorities[~(np.isfinite(priorities) & (priorities >= 0))][0]
        raise WeftError(f"A priority has to be a finite number of at least 0, not {wrong}.")
    return priorities
