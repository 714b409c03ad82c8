"""Selectors that draw by priority (Schaul et al. 2016, 'Prioritized Experience Replay', arXiv:1511.05952)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weft.errors import WeftError
from weft.experience.selectors import ByChance, UniformSelector
from weft.types import Tree

SMALLEST, LARGEST = 1e-290, 1e290
"""Bounds of the mass of an item whose priority is not zero: so it stays above zero, and the sum of all stays finite."""


@dataclass(frozen=True)
class Prioritised:
    """The probability of an item is proportional to a power of its priority (the paper's 'proportional' variant).

    Items of priority 0 are never drawn, unless all are of priority 0: then all are equally likely.
    """

    exponent: float = 0.6

    def __post_init__(self) -> None:
        _check(self)

    def build(self, capacity: int) -> ProportionalSelector:
        """Return a new selector over the slots 0 .. ``capacity`` - 1."""
        return ProportionalSelector(capacity, self.exponent)


@dataclass(frozen=True)
class RankBased:
    """The probability of an item is proportional to 1 / rank ^ exponent (the paper's 'rank-based' variant).

    Rank 1 is the highest priority. Ranks follow the priorities with a delay: they are sorted again when a tenth of the
    items have changed. Until then an item keeps its place in the order, whatever its new priority, a new one goes
    before all others, and a removed one leaves its rank to the next.
    """

    exponent: float = 0.7

    def __post_init__(self) -> None:
        _check(self)

    def build(self, capacity: int) -> RankSelector:
        """Return a new selector over the slots 0 .. ``capacity`` - 1."""
        return RankSelector(capacity, self.exponent)


def _check(selection: Prioritised | RankBased) -> None:
    if not 0 <= selection.exponent < math.inf:
        raise WeftError(
            f"The exponent of {type(selection).__name__} must be a finite number of at least 0, "
            f"not {selection.exponent}."
        )


class ProportionalSelector(ByChance):
    """Draws from a sum tree."""

    def __init__(self, capacity: int, exponent: float) -> None:
        from weft.experience.sum_tree import SumTree  # compiles, which only those who need it should pay for

        self._exponent = exponent
        self._items = UniformSelector(capacity)
        self._tree = SumTree(capacity)

    @property
    def mass(self) -> float:
        """The sum of all priorities to the power of the exponent."""
        return self._tree.total

    def insert(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Take up these slots, none of which is held."""
        self._items.insert(slots, priorities)
        self._tree.write(slots, self._powers(priorities))

    def remove(self, slots: np.ndarray) -> None:
        """Forget these slots, all of which are held."""
        self._items.remove(slots)
        self._tree.write(slots, 0.0)

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Change the priorities of slots that are held. Of a slot that is named several times the last one counts."""
        assert self._items.holds(slots).all()
        self._tree.write(slots, self._powers(priorities))

    def sample(self, number: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw slots [number] independently of each other, and the probability [number] of each of these draws."""
        total = self._tree.total
        if total == 0:
            return self._items.sample(number, random)
        drawn = self._tree.draw(random.random(number))
        return drawn, self._tree.masses(drawn) / total

    def save(self) -> Tree:
        """Everything as a dict of arrays."""
        return {**self._items.save(), "masses": self._tree.masses(self._items.slots)}

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned, in a new selector."""
        self._items.restore(saved)
        self._tree.write(saved["slots"], saved["masses"])

    def _powers(self, priorities: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            powers = np.maximum(np.minimum(priorities**self._exponent, LARGEST), SMALLEST)
        return powers * (priorities > 0)


class RankSelector(ByChance):
    """Keeps the slots held in the order of their priorities at the last sort, and draws ranks in that order.

    What was removed since leaves a gap in the order, which is stepped over when counting ranks. So the ranks of what
    is held are always 1, 2, 3 ... and the probabilities that are returned are exact.
    """

    def __init__(self, capacity: int, exponent: float) -> None:
        self._exponent = exponent
        self._sums = np.cumsum(np.arange(1, capacity + 1, dtype=np.float64) ** -exponent)
        """The sum of rank ^ -exponent over the first ranks."""
        self._items = UniformSelector(capacity)
        self._priorities = np.zeros(capacity)
        self._order = np.zeros(capacity + capacity // 10 + 2, np.int64)
        """Slots in their order, filled from the end, so that there is room for new ones before all others."""
        self._begin = len(self._order)
        self._places = np.zeros(capacity, np.int64)
        """Where in the order a slot is, for those held."""
        self._gaps = np.zeros(0, np.int64)
        """Where in the order slots were removed, in any order."""
        self._changes = 0
        """Insertions, removals and updates since the last sort."""
        self._outdated = False
        """Whether there were so many of them that the order is not kept up any more until the next sort."""

    @property
    def mass(self) -> float:
        """The number of items."""
        return self._items.mass

    def insert(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Take up these slots, none of which is held."""
        self._items.insert(slots, priorities)
        self._priorities[slots] = priorities
        if self._keeps_up(len(slots)):
            end, self._begin = self._begin, self._begin - len(slots)
            self._order[self._begin : end] = slots
            self._places[slots] = np.arange(self._begin, end)

    def remove(self, slots: np.ndarray) -> None:
        """Forget these slots, all of which are held."""
        self._items.remove(slots)
        if self._keeps_up(len(slots)):
            self._gaps = np.concatenate([self._gaps, self._places[slots]])

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Change the priorities of slots that are held. Of a slot that is named several times the last one counts."""
        assert self._items.holds(slots).all()
        self._priorities[slots] = priorities
        self._keeps_up(len(slots))

    def sample(self, number: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw slots [number] independently of each other, and the probability [number] of each of these draws."""
        if self._outdated:
            self._sort()
        sums = self._sums[: int(self._items.mass)]
        before = np.searchsorted(sums, random.random(number) * sums[-1], side="right")
        return self._order[self._place(before)], (before + 1.0) ** -self._exponent / sums[-1]

    def save(self) -> Tree:
        """Everything as a dict of arrays and numbers."""
        saved = {**self._items.save(), "changes": self._changes, "outdated": self._outdated}
        order = np.zeros(0, np.int64) if self._outdated else self._order[self._place(np.arange(int(self.mass)))]
        return {**saved, "priorities": self._priorities[saved["slots"]], "order": order}

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned, in a new selector."""
        self._items.restore(saved)
        self._priorities[saved["slots"]] = saved["priorities"]
        self._arrange(saved["order"])
        self._changes, self._outdated = int(saved["changes"]), bool(saved["outdated"])

    def _keeps_up(self, number: int) -> bool:
        """Count so many changes; return whether the order is still kept up."""
        self._changes += number
        self._outdated |= self._changes > max(1, int(self._items.mass) // 10)
        return not self._outdated

    def _sort(self) -> None:
        slots = self._items.slots
        self._arrange(slots[np.argsort(-self._priorities[slots], kind="stable")])
        self._changes, self._outdated = 0, False

    def _arrange(self, slots: np.ndarray) -> None:
        """Begin a new order without gaps."""
        self._begin = len(self._order) - len(slots)
        self._order[self._begin :] = slots
        self._places[slots] = np.arange(self._begin, len(self._order))
        self._gaps = np.zeros(0, np.int64)

    def _place(self, before: np.ndarray) -> np.ndarray:
        """Return where in the order the items [n] are that have so many others before them.

        Of the gaps, those before an item are the ones that have at most as many items before them.
        """
        self._gaps.sort(kind="stable")
        items_before = self._gaps - np.arange(len(self._gaps)) - self._begin
        places: np.ndarray = self._begin + before + np.searchsorted(items_before, before, side="right")
        return places
