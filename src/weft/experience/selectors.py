"""Which item of a table is sampled next, and which one is removed when the table is full.

A selector knows of an item only its slot and its priority. It works on whole batches: ``slots`` are int64 [n]
without repetitions (save for ``update``), ``priorities`` are float64 [n], finite and not negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.experience.orders import Heap, NewestFirst, OldestFirst
from weft.trees import place_of
from weft.types import Tree


class Selector(Protocol):
    """Decides which of the items of a table comes next."""

    @property
    def ordered(self) -> bool:
        """Whether nothing is left to chance."""

    @property
    def mass(self) -> float:
        """What its probabilities are relative to: the number of items, unless the selector says otherwise."""

    def insert(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Take up these slots, none of which is held."""

    def remove(self, slots: np.ndarray) -> None:
        """Forget these slots, all of which are held."""

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Change the priorities of slots that are held. Of a slot that is named several times the last one counts."""

    def sample(self, number: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw slots [number] independently of each other, and the probability [number] of each of these draws.

        Something must be held. Where nothing is left to chance, it is the same slot every time, with probability 1.
        """

    def first(self, number: int) -> np.ndarray:
        """Return the next slots [number] in their order, without removing them; only if it is ``ordered``.

        As many must be held.
        """

    def save(self) -> Tree:
        """Everything as a dict of arrays and numbers."""

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned, in a new selector: the same results, given the same random numbers."""


class Selecting(Protocol):
    """How a table selects: a choice of one of the classes below, or of those in ``priorities``."""

    def build(self, capacity: int) -> Selector:
        """Return a new selector over the slots 0 .. ``capacity`` - 1."""


@dataclass(frozen=True)
class Uniform:
    """Every item is equally likely."""

    def build(self, capacity: int) -> UniformSelector:
        """Return a new selector over the slots 0 .. ``capacity`` - 1."""
        return UniformSelector(capacity)


@dataclass(frozen=True)
class Fifo:
    """The item inserted first comes first."""

    def build(self, capacity: int) -> OldestFirst:
        """Return a new selector over the slots 0 .. ``capacity`` - 1."""
        return OldestFirst(capacity)


@dataclass(frozen=True)
class Lifo:
    """The item inserted last comes first."""

    def build(self, capacity: int) -> NewestFirst:
        """Return a new selector over the slots 0 .. ``capacity`` - 1."""
        return NewestFirst(capacity)


@dataclass(frozen=True)
class MinHeap:
    """The item of the lowest priority comes first; of several, the one inserted first."""

    def build(self, capacity: int) -> Heap:
        """Return a new selector over the slots 0 .. ``capacity`` - 1."""
        return Heap(sign=1.0)


@dataclass(frozen=True)
class MaxHeap:
    """The item of the highest priority comes first; of several, the one inserted first."""

    def build(self, capacity: int) -> Heap:
        """Return a new selector over the slots 0 .. ``capacity`` - 1."""
        return Heap(sign=-1.0)


class ByChance:
    """What selectors that draw at random have in common."""

    ordered = False

    def first(self, number: int) -> np.ndarray:
        """Fail: there is no order."""
        raise AssertionError("first is for selectors that are ordered")


class UniformSelector(ByChance):
    """Keeps the slots held in one dense array: what is removed is replaced by slots from its end."""

    def __init__(self, capacity: int) -> None:
        self._slots = np.zeros(capacity, np.int64)
        """Of which the first ``_held`` are in use."""
        self._places = np.full(capacity, -1)
        """Where in ``_slots`` a slot is; -1 for those not held."""
        self._held = 0

    @property
    def mass(self) -> float:
        """The number of items."""
        return float(self._held)

    @property
    def slots(self) -> np.ndarray:
        """The slots held [held], in no particular order; not a copy."""
        return self._slots[: self._held]

    def holds(self, slots: np.ndarray) -> np.ndarray:
        """Whether each of the slots [n] is held."""
        held: np.ndarray = self._places[slots] >= 0
        return held

    def insert(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Take up these slots, none of which is held."""
        at, held = place_of(slots), self._held + len(slots)
        assert not np.count_nonzero(self._places[at] >= 0)
        self._slots[self._held : held] = slots
        self._places[at] = np.arange(self._held, held)
        self._held = held

    def remove(self, slots: np.ndarray) -> None:
        """Forget these slots, all of which are held."""
        holes = self._places[slots]
        assert (holes >= 0).all()
        held = self._held - len(slots)
        self._places[slots] = -1
        tail = self._slots[held : self._held]
        moved = tail[self._places[tail] >= 0]
        holes = holes[holes < held]
        self._slots[holes] = moved
        self._places[moved] = holes
        self._held = held

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Do nothing: priorities do not matter here."""

    def sample(self, number: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw slots [number] and their probability [number], all the same."""
        drawn = self._slots[random.integers(0, self._held, number)]
        return drawn, np.full(number, 1 / self._held)

    def save(self) -> Tree:
        """Everything as a dict of arrays."""
        return {"slots": self.slots.copy()}

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned, in a new selector."""
        self.insert(saved["slots"], np.zeros(0))
