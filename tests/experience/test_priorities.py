"""Selectors by priority against plain Python, and the sum tree against sums."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_selectors import Items, Operation, again, operations

from weft.errors import WeftError
from weft.experience import sum_tree
from weft.experience.priorities import Prioritised, RankBased
from weft.experience.selectors import Selector
from weft.experience.sum_tree import SumTree

PROPERTY = settings(deadline=None, max_examples=60, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)
EXPONENTS = st.sampled_from([0.0, 0.6, 1.0, 2.5])
BELOW_ONE = np.nextafter(1.0, 0.0)


def assert_frequencies(slots: np.ndarray, expected: dict[int, float]) -> None:
    """Compare with what the model says, to 5 standard deviations of what chance allows."""
    for slot, probability in expected.items():
        mean = probability * len(slots)
        assert abs(np.count_nonzero(slots == slot) - mean) < 5 * math.sqrt(mean * (1 - probability)) + 1


@PROPERTY
@given(capacity=st.integers(1, 40), exponent=EXPONENTS, seed=SEEDS)
def test_proportional(capacity, exponent, seed):
    random, items, selector = np.random.default_rng(seed), {}, Prioritised(exponent).build(capacity)
    for operation in operations(capacity, items, random, 40):
        operation.on(selector)
        masses = {slot: priority**exponent if priority else 0.0 for slot, priority in items.items()}
        total = sum(masses.values())
        assert selector.mass == pytest.approx(total, rel=1e-12)
        if not items or random.integers(3):
            continue
        slots, probabilities = selector.sample(50, random)
        assert set(slots.tolist()) <= set(items)
        expected = [masses[slot] / total if total else 1 / len(items) for slot in slots.tolist()]
        np.testing.assert_allclose(probabilities, expected, rtol=1e-12)
        assert (probabilities > 0).all()


def test_proportional_draws_each_as_often_as_its_probability_says():
    selector, random = Prioritised(0.5).build(100), np.random.default_rng(0)
    priorities = random.random(100) * (random.random(100) < 0.8)
    selector.insert(np.arange(100), priorities)
    selector.remove(np.arange(0, 100, 7))
    priorities[::7] = 0.0
    total = np.sqrt(priorities).sum()
    assert_frequencies(selector.sample(40_000, random)[0], dict(enumerate(np.sqrt(priorities) / total)))


def test_of_a_slot_that_is_updated_twice_the_last_one_counts():
    for selecting in (Prioritised(1.0), RankBased(1.0)):
        selector = selecting.build(100)
        selector.insert(np.arange(4), np.full(4, 2.0))
        selector.update(np.array([1, 0, 1, 1]), np.array([9.0, 3.0, 8.0, 5.0]))
        slots, probabilities = selector.sample(400, np.random.default_rng(0))
        expected = {1: 5 / 12, 0: 3 / 12} if selecting == Prioritised(1.0) else {1: 12 / 25, 0: 6 / 25}
        for slot, probability in expected.items():
            assert np.unique(probabilities[slots == slot]) == pytest.approx([probability])


def test_where_all_priorities_are_zero_all_are_equally_likely():
    selector, random = Prioritised().build(20), np.random.default_rng(0)
    selector.insert(np.arange(20), np.zeros(20))
    selector.remove(np.arange(4))
    slots, probabilities = selector.sample(1600, random)
    assert (probabilities == 1 / 16).all() and selector.mass == 0
    assert_frequencies(slots, dict.fromkeys(range(4, 20), 1 / 16))
    selector.update(np.array([7]), np.array([1e-300]))
    slots, probabilities = selector.sample(100, random)
    assert set(slots.tolist()) == {7} and (probabilities == 1).all()


@pytest.mark.parametrize("exponent", [0.6, 1.0, 3.0])
def test_extreme_priorities_neither_overflow_nor_vanish(exponent):
    selector = Prioritised(exponent).build(3)
    selector.insert(np.arange(3), np.array([1e308, 1e308, 0.0]))
    slots, probabilities = selector.sample(100, np.random.default_rng(0))
    assert set(slots.tolist()) == {0, 1} and (probabilities == 0.5).all()
    selector.update(np.arange(3), np.array([5e-324, 5e-324, 0.0]))
    slots, probabilities = selector.sample(100, np.random.default_rng(0))
    assert set(slots.tolist()) == {0, 1} and (probabilities == 0.5).all()


@PROPERTY
@given(capacity=st.integers(1, 200), most=st.integers(1, 30), seed=SEEDS)
def test_the_tree_is_a_function_of_its_leaves_bit_for_bit(capacity, most, seed):
    """Whether it came about in small changes, which renew paths, or in a large one, which renews everything."""
    random, tree, masses = np.random.default_rng(seed), SumTree(capacity), np.zeros(capacity)
    for _ in range(20):
        slots = random.integers(0, capacity, random.integers(0, most))
        changed = random.random(len(slots)) * 10.0 ** random.integers(-9, 9, len(slots))
        tree.write(slots, changed)
        masses[slots] = changed
    at_once = SumTree(capacity)
    at_once.write(np.arange(capacity), masses)
    np.testing.assert_array_equal(tree._nodes, at_once._nodes)
    np.testing.assert_array_equal(tree.masses(np.arange(capacity)), masses)
    nodes = tree._nodes
    assert all(nodes[node] == nodes[2 * node] + nodes[2 * node + 1] for node in range(1, capacity))
    assert tree.total == pytest.approx(masses.sum(), rel=1e-12)


@PROPERTY
@given(capacity=st.integers(1, 70), seed=SEEDS, zeros=st.floats(0, 0.95))
def test_rounding_never_leads_to_a_slot_without_mass(capacity, seed, zeros):
    random, tree = np.random.default_rng(seed), SumTree(capacity)
    masses = random.random(capacity) * (random.random(capacity) >= zeros) * 10.0 ** random.integers(-9, 9, capacity)
    masses[random.integers(capacity)] = 1.0
    tree.write(np.arange(capacity), masses)
    edges = np.concatenate([np.cumsum(masses) / masses.sum(), [BELOW_ONE, 0.0]])
    shares = np.concatenate([edges, np.nextafter(edges, 0.0), np.nextafter(edges, 1.0)]).clip(0.0, BELOW_ONE)
    assert (masses[tree.draw(shares)] > 0).all()


def test_a_part_that_rounding_made_too_large_stays_with_a_slot_that_has_mass():
    """1.5 and 1.5 units in the last place sum to 1.5 and 2; below that is 1, which less 1.5 is 1.5 again, rounded."""
    tree = SumTree(4)
    tree.write(np.arange(4), np.array([1.5 * 2.0**-52, 0.0, 1.5, 0.0]))
    assert tree.draw(np.array([BELOW_ONE])).tolist() == [2]


@PROPERTY
@given(capacity=st.integers(1, 70), seed=SEEDS)
def test_each_slot_has_its_share_of_the_tree(capacity, seed):
    """Evenly spaced shares fall in each slot as often as its mass says, to the ends of its interval."""
    random, tree = np.random.default_rng(seed), SumTree(capacity)
    masses = random.integers(0, 5, capacity) + (np.arange(capacity) == 0)
    tree.write(np.arange(capacity), masses.astype(float))
    drawn = tree.draw((np.arange(masses.sum()) + 0.5) / masses.sum())
    np.testing.assert_array_equal(np.bincount(drawn, minlength=capacity), masses)


class Ranks:
    """The rule in plain Python."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.changes = 0
        self.outdated = False
        self.sorts = 0

    def follow(self, operation: Operation, held: int) -> None:
        slots = operation.slots.tolist()
        self.changes += len(slots)
        self.outdated |= self.changes > max(1, held // 10)
        if operation.name == "insert":
            self.order = slots + self.order
        elif operation.name == "remove":
            self.order = [slot for slot in self.order if slot not in slots]

    def probabilities(self, items: Items, exponent: float) -> dict[int, float]:
        if self.outdated:
            self.order = sorted(items, key=lambda slot: -items[slot])
            self.changes, self.outdated = 0, False
            self.sorts += 1
        masses = [(index + 1) ** -exponent for index in range(len(self.order))]
        return {slot: mass / sum(masses) for slot, mass in zip(self.order, masses, strict=True)}


@PROPERTY
@given(capacity=st.integers(1, 150), exponent=EXPONENTS, most=st.integers(1, 6), seed=SEEDS)
def test_rank_based(capacity, exponent, most, seed):
    random, model, selector = np.random.default_rng(seed), Ranks(), RankBased(exponent).build(capacity)
    filling = Operation("insert", random.permutation(capacity), random.random(capacity))
    items = dict(zip(filling.slots.tolist(), filling.priorities.tolist(), strict=True))
    selector.insert(filling.slots, filling.priorities)
    model.follow(filling, capacity)
    for operation in operations(capacity, items, random, 30, most, ties=False):
        operation.on(selector)
        model.follow(operation, len(items))
        if random.integers(8) == 0:
            selector = again(RankBased(exponent), capacity, selector)
        if items and random.integers(3):
            expected = model.probabilities(items, exponent)
            slots, probabilities = selector.sample(200, random)
            np.testing.assert_allclose(probabilities, [expected[slot] for slot in slots.tolist()], rtol=1e-12)
            assert selector.mass == len(items)


def order_of(selector: Selector) -> list[int]:
    """The slots in the order of the probabilities with which they are drawn."""
    slots, probabilities = selector.sample(20_000, np.random.default_rng(0))
    return sorted(set(slots.tolist()), key=lambda slot: -probabilities[slots == slot][0])


def test_between_two_sorts_new_ones_come_first_and_removed_ones_not_at_all():
    selector = RankBased(1.0).build(100)
    selector.insert(np.arange(40), np.arange(40.0, 0.0, -1.0))
    assert order_of(selector) == list(range(40))
    selector.insert(np.array([50]), np.array([0.5]))
    selector.remove(np.array([0]))
    selector.update(np.array([39]), np.array([90.0]))
    assert order_of(selector) == [50, *range(1, 40)]
    selector.insert(np.array([60]), np.array([0.1]))
    assert order_of(selector) == [60, 50, *range(1, 40)]
    selector.update(np.array([39]), np.array([80.0]))
    assert order_of(selector) == [39, *range(1, 39), 50, 60]


def test_rank_based_draws_each_as_often_as_its_probability_says():
    selector = RankBased(0.7).build(60)
    selector.insert(np.arange(60), np.arange(60.0))
    selector.sample(1, np.random.default_rng(0))
    selector.remove(np.array([59, 30, 58]))
    masses = np.arange(1, 58) ** -0.7
    order = [slot for slot in range(57, -1, -1) if slot != 30]
    expected = dict(zip(order, masses / masses.sum(), strict=True))
    assert_frequencies(selector.sample(40_000, np.random.default_rng(1))[0], expected)


@pytest.mark.parametrize("selecting", [Prioritised, RankBased])
@pytest.mark.parametrize("exponent", [-0.1, math.inf, math.nan])
def test_exponents_that_mean_nothing_are_refused(selecting, exponent):
    with pytest.raises(WeftError, match=rf"exponent of {selecting.__name__} must be .* at least 0, not {exponent}"):
        selecting(exponent)


def test_only_building_a_sum_tree_imports_the_compiler():
    code = """
import sys
from weft.experience.priorities import Prioritised, RankBased
Prioritised(0.5), RankBased().build(10)
print("numba" in sys.modules)
Prioritised(0.5).build(10)
print("numba" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True"]


def test_where_no_cache_can_be_written_it_is_compiled_all_the_same(monkeypatch):
    compile_ = sum_tree.numba.njit

    def njit(*arguments, **options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return compile_(*arguments, **options)

    monkeypatch.setattr(sum_tree.numba, "njit", njit)
    assert sum_tree._compiled(lambda number: number + 1)(1) == 2
