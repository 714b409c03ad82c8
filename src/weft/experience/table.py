"""Tables of items: which there are, in what order they are sampled and removed, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from weft.errors import WeftError
from weft.experience.limiters import Flow, Limiter, minimum_size
from weft.experience.selectors import Fifo, Selecting, Uniform
from weft.trees import place_of
from weft.types import Tree


@dataclass(frozen=True)
class TableSettings:
    """What a table is to do."""

    name: str
    capacity: int
    """Items; when there is one more, the ``remover`` says which one goes."""
    sampler: Selecting = field(default_factory=Uniform)
    remover: Selecting = field(default_factory=Fifo)
    limiter: Limiter = field(default_factory=lambda: minimum_size(1))
    max_times_sampled: int = 0
    """After so many times an item is removed; 0 for never."""

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise WeftError(f"Table {self.name} has to hold at least one item, not {self.capacity}.")
        if self.max_times_sampled < 0:
            raise WeftError(f"Table {self.name}: max_times_sampled is {self.max_times_sampled}, but cannot be below 0.")


class Drawn(NamedTuple):
    """Items [N] that were sampled."""

    keys: np.ndarray
    """int64, of the items: what priorities are sent back for"""
    probability: np.ndarray
    """float64, with which each was drawn"""
    priority: np.ndarray
    """float64"""
    times_sampled: np.ndarray
    """int64, this time included"""
    begins: np.ndarray
    """int64, the place of an item's first step"""
    spans: np.ndarray
    """int64, how many steps it has"""


class Table:
    """Items in slots; an item's key is its slot and the generation of what the slot held, so that keys never return."""

    def __init__(self, settings: TableSettings, seed: np.random.SeedSequence) -> None:
        self.settings = settings
        capacity = settings.capacity
        self.flow = Flow(settings.limiter)
        self._sampler, self._remover = settings.sampler.build(capacity), settings.remover.build(capacity)
        self._random = np.random.Generator(np.random.Philox(seed))
        self._begins, self._spans = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
        self._priorities = np.zeros(capacity)
        self._times = np.zeros(capacity, np.int64)
        self._generations = np.zeros(capacity, np.int64)
        self._live = np.zeros(capacity, bool)
        self._free = np.arange(capacity)[::-1].copy()
        """A stack of the slots that hold nothing; the first ``capacity - size`` of it."""
        self.size = 0
        self.highest = 1.0
        """The highest priority that was seen, which new items have unless they are told theirs."""

    @property
    def mass(self) -> float:
        """What the sampler's probabilities are relative to."""
        return self._sampler.mass

    def may_insert(self, number: int) -> bool:
        """Return whether ``number`` items may be inserted now."""
        return self.flow.may_insert(self.size, number) >= number

    def may_sample(self, number: int) -> bool:
        """Return whether ``number`` items may be sampled now."""
        return self.flow.may_sample(self.size, number) >= number

    def insert(self, begins: np.ndarray, spans: np.ndarray, priorities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Insert items [n]; returns (begins, spans) of those that had to go for them."""
        number, capacity = len(begins), self.settings.capacity
        assert number <= capacity
        removed = self._remove(self._victims(self.size + number - capacity))
        slots = self._free[capacity - self.size - number : capacity - self.size][::-1]
        at = place_of(slots)
        self._begins[at], self._spans[at] = begins, spans
        self._priorities[at] = priorities
        self._times[at] = 0
        self._live[at] = True
        self._sampler.insert(slots, priorities)
        self._remover.insert(slots, priorities)
        self.size += number
        self.flow.inserted(number)
        return removed

    def sample(self, number: int) -> Drawn:
        """Draw ``number`` items, or as many as their times allow; ``expired`` has to be called once they were read."""
        if self.settings.max_times_sampled:
            return self._sample_some(number)
        slots, probability = self._sampler.sample(number, self._random)
        np.add.at(self._times, slots, 1)
        self.flow.sampled(number)
        return self._drawn(slots, probability)

    def expired(self, drawn: Drawn) -> tuple[np.ndarray, np.ndarray]:
        """Remove what was sampled as often as is allowed; returns (begins, spans)."""
        most = self.settings.max_times_sampled
        if not most:
            return _NOTHING
        slots = np.unique(drawn.keys % self.settings.capacity)
        return self._free_slots(slots[self._times[slots] >= most])

    def update(self, keys: np.ndarray, priorities: np.ndarray) -> int:
        """Change priorities of items; those that are no longer there are left out. Returns how many were changed."""
        slots, there = self._slots(keys)
        priorities = priorities[there]
        if len(slots):
            self._priorities[slots] = priorities
            self.highest = max(self.highest, float(priorities.max()))
            self._sampler.update(slots, priorities)
            self._remover.update(slots, priorities)
        return len(slots)

    def remove(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Remove items; returns (begins, spans) of those that were there."""
        return self._remove(np.unique(self._slots(keys)[0]))

    def keys(self) -> np.ndarray:
        """Return the keys of all items."""
        return self._keys(np.flatnonzero(self._live))

    def save(self) -> Tree:
        """Everything as a tree of arrays."""
        live = np.flatnonzero(self._live)
        return {
            "capacity": self.settings.capacity,
            "live": live,
            "begins": self._begins[live],
            "spans": self._spans[live],
            "priorities": self._priorities[live],
            "times": self._times[live],
            "generations": self._generations,
            "free": self._free[: self.settings.capacity - self.size],
            "highest": self.highest,
            "sampler": self._sampler.save(),
            "remover": self._remover.save(),
            "flow": self.flow.save(),
            "limiter": str(self.settings.limiter),
            "random": self._random.bit_generator.state,
        }

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned, with exactly the same next samples."""
        if int(saved["capacity"]) != self.settings.capacity:
            raise WeftError(
                f"Table {self.settings.name} was saved with a capacity of {int(saved['capacity'])} items "
                f"and cannot be restored with one of {self.settings.capacity}."
            )
        live = np.asarray(saved["live"])
        self._live[:] = False
        self._live[live] = True
        self.size = len(live)
        for held, name in (
            (self._begins, "begins"),
            (self._spans, "spans"),
            (self._priorities, "priorities"),
            (self._times, "times"),
        ):
            held[live] = saved[name]
        self._generations = np.array(saved["generations"])
        self._free[: self.settings.capacity - self.size] = saved["free"]
        self.highest = float(saved["highest"])
        self._sampler.restore(saved["sampler"])
        self._remover.restore(saved["remover"])
        self.flow.restore(saved["flow"], self.size, same=str(saved["limiter"]) == str(self.settings.limiter))
        self._random.bit_generator.state = saved["random"]

    def _victims(self, number: int) -> np.ndarray:
        """Choose ``number`` different items that have to go."""
        if number <= 0:
            return _NO_SLOTS
        if self._remover.ordered:
            return self._remover.first(number)
        chosen = _NO_SLOTS
        while len(chosen) < number:
            slots, _ = self._remover.sample(number - len(chosen), self._random)
            slots = np.unique(slots)
            self._remover.remove(slots)
            chosen = np.concatenate([chosen, slots])
        self._remover.insert(chosen, self._priorities[chosen])
        return chosen

    def _sample_some(self, number: int) -> Drawn:
        """Draw one after the other, as each draw may be an item's last."""
        most = self.settings.max_times_sampled
        drawn: list[np.ndarray] = []
        probabilities: list[np.ndarray] = []
        if most == 1 and self._sampler.ordered:
            slots = self._sampler.first(min(number, self.size))
            self._times[slots] += 1
            self._leave(slots)
            self.flow.sampled(len(slots))
            return self._drawn(slots, np.ones(len(slots)))
        while len(drawn) < number and self.size:
            slot, probability = self._sampler.sample(1, self._random)
            self._times[slot] += 1
            drawn.append(slot)
            probabilities.append(probability)
            if self._times[slot[0]] >= most:
                self._leave(slot)
        self.flow.sampled(len(drawn))
        return self._drawn(np.concatenate([_NO_SLOTS, *drawn]), np.concatenate([np.zeros(0), *probabilities]))

    def _leave(self, slots: np.ndarray) -> None:
        """Take items out of the selectors, while what they hold is still to be read."""
        self._sampler.remove(slots)
        self._remover.remove(slots)
        self.size -= len(slots)

    def _free_slots(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Make the slots of items that left usable again; returns (begins, spans) of the items."""
        self._live[slots] = False
        self._generations[slots] += 1
        unused = self.settings.capacity - self.size
        self._free[unused - len(slots) : unused] = slots[::-1]
        return self._begins[slots], self._spans[slots]

    def _remove(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(slots):
            return _NOTHING
        self._leave(slots)
        return self._free_slots(slots)

    def _slots(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the slots of those items that are still there, and which [N] of the keys these are."""
        slots, generations = keys % self.settings.capacity, keys // self.settings.capacity
        there = (generations == self._generations[slots]) & self._live[slots]
        return slots[there], there

    def _keys(self, slots: np.ndarray) -> np.ndarray:
        return self._generations[slots] * self.settings.capacity + slots

    def _drawn(self, slots: np.ndarray, probability: np.ndarray) -> Drawn:
        return Drawn(
            keys=self._keys(slots),
            probability=probability,
            priority=self._priorities[slots],
            times_sampled=self._times[slots],
            begins=self._begins[slots],
            spans=self._spans[slots],
        )


_NO_SLOTS = np.zeros(0, np.int64)
_NOTHING = (_NO_SLOTS, _NO_SLOTS)
