"""Selectors that leave nothing to chance: by order of insertion, and by priority."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod

import numpy as np

from weft.trees import place_of
from weft.types import Tree


class Ordered(ABC):
    """What selectors that leave nothing to chance have in common."""

    ordered = True

    @abstractmethod
    def first(self, number: int) -> np.ndarray:
        """Return the next slots [number] in their order, without removing them. As many must be held."""

    def sample(self, number: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return the first slot [number] times, with probability 1."""
        return np.full(number, self.first(1)[0]), np.ones(number)


class InsertionOrder(Ordered):
    """The slots held, in the order of their insertion: a ring with room for twice as many as can be held.

    What is removed stays in the ring as a stale entry until that place is needed or passed, so that removing costs
    the same wherever it happens. An entry is stale if its slot has another place by now, or none.
    """

    def __init__(self, capacity: int) -> None:
        self._ring = np.zeros(2 * capacity, np.int64)
        """The slot at place p is entry p % length; places are counted on for ever."""
        self._places = np.full(capacity, -1)
        """Where in the ring a slot is; -1 for those not held."""
        self._front = 0
        self._back = 0
        self._held = 0

    @property
    def mass(self) -> float:
        """The number of items."""
        return float(self._held)

    def insert(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Take up these slots, none of which is held, as the newest ones."""
        assert not np.count_nonzero(self._places[place_of(slots)] >= 0)
        if self._back + len(slots) - self._front > len(self._ring):
            held = self._between(self._front, self._back)
            self._put(held, self._front)
            self._back = self._front + len(held)
        self._put(slots, self._back)
        self._back += len(slots)
        self._held += len(slots)

    def remove(self, slots: np.ndarray) -> None:
        """Forget these slots, all of which are held."""
        if not len(slots):
            return
        places = self._places[slots]
        lowest, highest = places.min(), places.max()
        assert lowest >= 0
        self._places[slots] = -1
        self._held -= len(slots)
        if highest < self._front + len(slots):
            self._front += len(slots)
        elif lowest >= self._back - len(slots):
            self._back -= len(slots)

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Do nothing: priorities do not matter here."""

    def save(self) -> Tree:
        """Everything as a dict of arrays."""
        return {"slots": self._between(self._front, self._back)}

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned, in a new selector."""
        self.insert(saved["slots"], np.zeros(0))

    def _oldest(self, number: int) -> np.ndarray:
        """Return the oldest slots [number], the oldest first; stale entries among them are passed for good."""
        assert number <= self._held
        reach = number
        while len(found := self._between(self._front, self._front + reach)) < number:
            reach = min(2 * reach, self._back - self._front)
        self._front += reach - len(found)
        if reach > len(found):
            self._put(found, self._front)
        return found[:number]

    def _newest(self, number: int) -> np.ndarray:
        """Return the newest slots [number], the newest first; stale entries among them are passed for good."""
        assert number <= self._held
        reach = number
        while len(found := self._between(self._back - reach, self._back)) < number:
            reach = min(2 * reach, self._back - self._front)
        if reach > len(found):
            self._put(found, self._back - reach)
        self._back -= reach - len(found)
        return found[::-1][:number]

    def _between(self, begin: int, end: int) -> np.ndarray:
        """Return the slots held in these places, in their order."""
        places = np.arange(begin, end)
        slots = self._ring[places % len(self._ring)]
        held: np.ndarray = slots[self._places[slots] == places]
        return held

    def _put(self, slots: np.ndarray, begin: int) -> None:
        """Write slots into the places from ``begin`` on."""
        places = np.arange(begin, begin + len(slots))
        self._ring[place_of(places % len(self._ring))] = slots
        self._places[place_of(slots)] = places


class OldestFirst(InsertionOrder):
    """The item inserted first comes first."""

    def first(self, number: int) -> np.ndarray:
        """Return the oldest slots [number], the oldest first. As many must be held."""
        return self._oldest(number)


class NewestFirst(InsertionOrder):
    """The item inserted last comes first."""

    def first(self, number: int) -> np.ndarray:
        """Return the newest slots [number], the newest first. As many must be held."""
        return self._newest(number)


Entry = tuple[float, int, int]
"""Signed priority, age and slot of an item, in a heap."""


class Heap(Ordered):
    """A binary heap; entries that were removed or have another priority by now are dropped when they come up."""

    def __init__(self, sign: float) -> None:
        self._sign = sign
        self._heap: list[Entry] = []
        self._entries: dict[int, Entry] = {}
        """The entry of each slot held, in the order of insertion; any other entry in the heap is stale."""
        self._age = 0

    @property
    def mass(self) -> float:
        """The number of items."""
        return float(len(self._entries))

    def insert(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Take up these slots, none of which is held."""
        for slot, key in zip(slots.tolist(), (self._sign * priorities).tolist(), strict=True):
            assert slot not in self._entries
            self._push((key, self._age, slot))
            self._age += 1
        self._tidy()

    def remove(self, slots: np.ndarray) -> None:
        """Forget these slots, all of which are held."""
        for slot in slots.tolist():
            del self._entries[slot]
        self._tidy()

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Change the priorities of slots that are held; that does not make them younger."""
        for slot, key in zip(slots.tolist(), (self._sign * priorities).tolist(), strict=True):
            former, age, _ = self._entries[slot]
            if key != former:
                self._push((key, age, slot))
        self._tidy()

    def first(self, number: int) -> np.ndarray:
        """Return the next slots [number] in their order, without removing them. As many must be held."""
        assert number <= len(self._entries)
        found: list[Entry] = []
        while len(found) < number:
            entry = heapq.heappop(self._heap)
            if self._entries.get(entry[2]) is entry:
                found.append(entry)
        for entry in found:
            heapq.heappush(self._heap, entry)
        return np.array([slot for _, _, slot in found], np.int64)

    def save(self) -> Tree:
        """Everything as a dict of arrays."""
        keys = np.array([key for key, _, _ in self._entries.values()], np.float64)
        return {"slots": np.array(list(self._entries), np.int64), "priorities": self._sign * keys}

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned, in a new selector."""
        self.insert(saved["slots"], saved["priorities"])

    def _push(self, entry: Entry) -> None:
        heapq.heappush(self._heap, entry)
        self._entries[entry[2]] = entry

    def _tidy(self) -> None:
        """Keep stale entries fewer than those held, or few."""
        if len(self._heap) > 2 * len(self._entries) + 100:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)
