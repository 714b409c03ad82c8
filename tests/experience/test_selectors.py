"""Selectors against plain Python: a dict of the items held, in the order of their insertion."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.experience.priorities import Prioritised, RankBased
from weft.experience.selectors import Fifo, Lifo, MaxHeap, MinHeap, Selecting, Selector, Uniform

PROPERTY = settings(deadline=None, max_examples=60, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)
CAPACITIES = st.integers(1, 12)
Items = dict[int, float]
"""Slot -> priority, the item inserted first before the others."""

ORDERS: dict[Selecting, Callable[[Items], list[int]]] = {
    Fifo(): lambda items: list(items),
    Lifo(): lambda items: list(items)[::-1],
    MinHeap(): lambda items: sorted(items, key=lambda slot: items[slot]),
    MaxHeap(): lambda items: sorted(items, key=lambda slot: -items[slot]),
}
"""Python's sort is stable: of several items of the same priority the oldest stays first."""
ORDERED = pytest.mark.parametrize("selecting", ORDERS, ids=str)
ALL = pytest.mark.parametrize("selecting", [*ORDERS, Uniform(), Prioritised(), RankBased()], ids=str)


class Operation(NamedTuple):
    """One change of what is held."""

    name: str
    slots: np.ndarray
    priorities: np.ndarray

    def on(self, selector: Selector) -> None:
        if self.name == "insert":
            selector.insert(self.slots, self.priorities)
        elif self.name == "remove":
            selector.remove(self.slots)
        else:
            selector.update(self.slots, self.priorities)


def operations(
    capacity: int, items: Items, random: np.random.Generator, number: int, most: int = 100, ties: bool = True
):
    """Random operations on up to ``most`` slots each, with their effect on ``items``."""
    for _ in range(number):
        free, held = np.setdiff1d(np.arange(capacity), list(items)), np.array(list(items), np.int64)
        name = str(random.choice(["insert", "insert", "remove", "remove_oldest", "remove_newest", "update"]))
        if name == "insert":
            slots = random.permutation(free)[: random.integers(0, len(free) + 1)][:most]
        elif name == "update":
            slots = random.choice(held, random.integers(0, 2 * len(held) + 1))[:most] if len(held) else held
        elif name == "remove":
            slots = random.permutation(held)[: random.integers(0, 4)]
        else:
            end = random.integers(0, 4)
            slots = random.permutation(held[:end] if name == "remove_oldest" else held[::-1][:end])
            name = "remove"
        priorities = random.integers(0, 4, len(slots)).astype(float) if ties else random.random(len(slots))
        for slot, priority in zip(slots.tolist(), priorities.tolist(), strict=True):
            if name == "remove":
                del items[slot]
            else:
                items[slot] = priority
        yield Operation(name, slots, priorities)


def again(selecting: Selecting, capacity: int, selector: Selector) -> Selector:
    """A new selector, restored from what this one saved."""
    restored = selecting.build(capacity)
    restored.restore(pickle.loads(pickle.dumps(selector.save())))
    return restored


@ORDERED
@PROPERTY
@given(capacity=CAPACITIES, seed=SEEDS)
def test_the_first_ones_are_those_that_come_first(selecting, capacity, seed):
    random, items, selector = np.random.default_rng(seed), {}, selecting.build(capacity)
    for operation in operations(capacity, items, random, 80):
        operation.on(selector)
        assert selector.mass == len(items)
        if random.integers(8) == 0:
            selector = again(selecting, capacity, selector)
        if random.integers(3) == 0:
            number = random.integers(0, len(items) + 1)
            assert selector.first(number).tolist() == ORDERS[selecting](items)[:number]
        if items and random.integers(3) == 0:
            slots, probabilities = selector.sample(3, random)
            assert slots.tolist() == ORDERS[selecting](items)[:1] * 3
            assert probabilities.tolist() == [1.0] * 3
    assert selector.ordered and selector.first(len(items)).tolist() == ORDERS[selecting](items)


@PROPERTY
@given(capacity=CAPACITIES, seed=SEEDS)
def test_uniform_draws_only_what_is_held_and_all_of_it(capacity, seed):
    random, items, selector = np.random.default_rng(seed), {}, Uniform().build(capacity)
    for operation in operations(capacity, items, random, 40):
        operation.on(selector)
        assert selector.mass == len(items)
        assert sorted(selector.slots.tolist()) == sorted(items)
        if items:
            slots, probabilities = selector.sample(20 * capacity, random)
            assert set(slots.tolist()) == set(items)
            assert (probabilities == 1 / len(items)).all()
    assert not selector.ordered


def test_uniform_draws_each_equally_often():
    selector, random = Uniform().build(50), np.random.default_rng(0)
    selector.insert(np.arange(50), np.ones(50))
    selector.remove(np.arange(0, 50, 3))
    held = np.setdiff1d(np.arange(50), np.arange(0, 50, 3))
    counts = np.bincount(selector.sample(100 * len(held), random)[0], minlength=50)
    assert (abs(counts[held] - 100) < 5 * np.sqrt(100)).all()
    assert counts.sum() == counts[held].sum()


@ALL
@PROPERTY
@given(capacity=CAPACITIES, seed=SEEDS)
def test_restored_it_goes_on_with_exactly_the_same_results(selecting, capacity, seed):
    random, items, original = np.random.default_rng(seed), {}, selecting.build(capacity)
    for operation in operations(capacity, items, random, 20):
        operation.on(original)
        if items and random.integers(3) == 0:
            original.sample(2, random)
    restored = again(selecting, capacity, original)
    for operation in operations(capacity, items, random, 20):
        for selector in (original, restored):
            operation.on(selector)
        assert restored.mass == original.mass
        if items and random.integers(3):
            draws = [selector.sample(7, np.random.default_rng(seed)) for selector in (original, restored)]
            for expected, served in zip(*draws, strict=True):
                np.testing.assert_array_equal(served, expected)


@ALL
def test_what_was_saved_does_not_change_afterwards(selecting):
    selector, random = selecting.build(30), np.random.default_rng(0)
    selector.insert(np.arange(30), random.random(30))
    selector.sample(1, random)
    saved = selector.save()
    before = pickle.dumps(saved)
    selector.remove(np.arange(2))
    selector.insert(np.arange(2), np.ones(2))
    selector.update(np.arange(30), random.random(30))
    selector.sample(1, random)
    assert pickle.dumps(saved) == before


@ALL
def test_nothing_can_be_inserted_removed_and_updated(selecting):
    selector, nothing = selecting.build(100), np.zeros(0, np.int64)
    for held in (0, 3):
        selector.insert(nothing, np.zeros(0))
        selector.update(nothing, np.zeros(0))
        selector.remove(nothing)
        assert selector.mass == held
        if held == 0:
            selector.insert(np.arange(3), np.ones(3))


@pytest.mark.parametrize("selecting", [MinHeap(), MaxHeap()], ids=str)
def test_a_heap_does_not_grow_with_the_number_of_updates(selecting):
    selector, random = selecting.build(40), np.random.default_rng(0)
    items = dict.fromkeys(range(40), 1.0)
    selector.insert(np.arange(40), np.ones(40))
    for _ in range(500):
        slots, priorities = random.permutation(40)[:5], random.random(5)
        selector.update(slots, priorities)
        items.update(zip(slots.tolist(), priorities.tolist(), strict=True))
        assert len(selector._heap) <= 2 * 40 + 100
        assert selector.first(3).tolist() == ORDERS[selecting](items)[:3]


def test_what_was_passed_once_is_not_passed_again():
    """The oldest item stays while a great many after it go: looking for the next ones must not cost more each time."""
    selector, capacity = Fifo().build(1000), 1000
    selector.insert(np.arange(capacity), np.ones(capacity))
    selector.remove(np.arange(1, 990, 2))
    selector.remove(np.arange(2, 990, 2))
    assert selector.first(2).tolist() == [0, 990]
    assert selector._back - selector._front == selector.mass == 11
