"""Limiters against the rule in plain Python, and two sides that are held back by one."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.experience.limiters import Flow, Limiter, minimum_size, queue, samples_per_insert, stack

PROPERTY = settings(deadline=None, max_examples=60, derandomize=True)
RATIOS = st.one_of(st.sampled_from([0.25, 1.0, 2.0, 8.0]), st.floats(0.1, 12.0))
LIMITERS = st.one_of(
    st.builds(minimum_size, st.integers(1, 20)),
    st.builds(queue, st.integers(1, 20)),
    st.builds(
        lambda ratio, min_size, slack: samples_per_insert(ratio, min_size, slack * 2 * max(1.0, ratio)),
        RATIOS,
        st.integers(1, 20),
        st.floats(1.0, 3.0),
    ),
)


def may_insert(limiter: Limiter, inserts: int, samples: int, size: int) -> bool:
    """Reverb's rule: until the least size is reached inserts are free to go ahead."""
    if size < limiter.min_size:
        return True
    return (inserts + 1) * limiter.samples_per_insert - samples <= limiter.max_diff


def may_sample(limiter: Limiter, inserts: int, samples: int, size: int) -> bool:
    if size < limiter.min_size:
        return False
    return inserts * limiter.samples_per_insert - (samples + 1) >= limiter.min_diff


@PROPERTY
@given(
    limiter=LIMITERS,
    inserts=st.integers(0, 60),
    samples=st.integers(0, 200),
    size=st.integers(0, 30),
    number=st.integers(0, 40),
)
def test_many_may_go_ahead_if_one_after_the_other_may(limiter, inserts, samples, size, number):
    flow = Flow(limiter)
    flow.inserted(inserts)
    flow.sampled(samples)
    allowed = 0
    while allowed < number and may_insert(limiter, inserts + allowed, samples, size + allowed):
        allowed += 1
    assert flow.may_insert(size, number) == allowed
    allowed = 0
    while allowed < number and may_sample(limiter, inserts, samples + allowed, size):
        allowed += 1
    assert flow.may_sample(size, number) == allowed
    assert (flow.inserts, flow.samples) == (inserts, samples)


class Sides:
    """Two sides that do as much as they may, on a table of this capacity."""

    def __init__(self, flow: Flow, capacity: int, size: int = 0) -> None:
        self.flow, self.capacity, self.size = flow, capacity, size

    def insert(self, number: int) -> int:
        allowed = self.flow.may_insert(self.size, number)
        self.flow.inserted(allowed)
        self.size = min(self.capacity, self.size + allowed)
        return allowed

    def sample(self, number: int) -> int:
        allowed = self.flow.may_sample(self.size, number)
        self.flow.sampled(allowed)
        return allowed

    @property
    def blocked(self) -> bool:
        return not self.flow.may_insert(self.size) and not self.flow.may_sample(self.size)


@PROPERTY
@given(limiter=LIMITERS, extra=st.integers(0, 30), speed=st.sampled_from([0.1, 0.5, 0.9]), seed=st.integers(0, 999))
def test_neither_side_runs_away_and_never_both_are_blocked(limiter, extra, speed, seed):
    random, flow = np.random.default_rng(seed), Flow(limiter)
    sides = Sides(flow, limiter.min_size + extra)
    for turn in random.random(400):
        number = int(random.integers(1, 8))
        sides.insert(number) if turn < speed else sides.sample(number)
        assert not sides.blocked
        if sides.size >= limiter.min_size:
            assert limiter.min_diff <= flow.diff <= limiter.max_diff
        else:
            assert flow.samples == 0
    assert flow.inserts > 0 and flow.samples > 0


@PROPERTY
@given(ratio=RATIOS, min_size=st.integers(1, 20))
@pytest.mark.parametrize(("insert", "sample"), [(80, 8), (8, 80)], ids=["inserting_is_faster", "sampling_is_faster"])
def test_in_the_long_run_there_are_so_many_samples_per_insert(insert, sample, ratio, min_size):
    flow = Flow(samples_per_insert(ratio, min_size, 3 * max(1.0, ratio)))
    sides, turns = Sides(flow, 1000), 0
    while flow.inserts < 60 * (min_size + 3 / min(1.0, ratio)):
        assert sides.insert(insert) + sides.sample(sample) > 0
        turns += 1
    assert turns > 10
    assert flow.samples / flow.inserts == pytest.approx(ratio, rel=0.02)


def test_sampling_begins_with_the_least_size():
    flow = Flow(minimum_size(3))
    sides = Sides(flow, 5)
    assert sides.sample(4) == 0
    assert sides.insert(2) == 2 and sides.sample(4) == 0
    assert sides.insert(1) == 1 and sides.sample(4) == 4
    assert sides.insert(1000) == 1000 and sides.sample(10_000) == 10_000


@pytest.mark.parametrize("kind", [queue, stack])
def test_a_queue_holds_so_many_and_serves_each_once(kind):
    sides = Sides(Flow(kind(3)), 10)
    assert sides.sample(1) == 0
    assert sides.insert(5) == 3
    assert sides.sample(2) == 2
    assert sides.insert(5) == 2
    assert sides.sample(9) == 3
    assert sides.sample(1) == 0


def test_bounds_can_be_given_as_in_reverb():
    assert samples_per_insert(2.0, 10, 5.0) == Limiter(10, 2.0, 15.0, 25.0)
    assert samples_per_insert(2.0, 10, (-3.0, 40.0)) == Limiter(10, 2.0, -3.0, 40.0)


@PROPERTY
@given(limiter=LIMITERS, inserts=st.integers(0, 50), samples=st.integers(0, 50))
def test_the_same_limiter_goes_on_counting_where_it_was(limiter, inserts, samples):
    flow, restored = Flow(limiter), Flow(limiter)
    flow.inserted(inserts)
    flow.sampled(samples)
    restored.restore(pickle.loads(pickle.dumps(flow.save())), size=7, same=True)
    assert (restored.inserts, restored.samples) == (inserts, samples)


@PROPERTY
@given(before=LIMITERS, after=LIMITERS, turns=st.integers(1, 300), extra=st.integers(0, 100), seed=st.integers(0, 999))
def test_another_limiter_begins_from_the_data(before, after, turns, extra, seed):
    """Whatever was counted before, neither side has to wait for long."""
    random, flow = np.random.default_rng(seed), Flow(before)
    sides = Sides(flow, max(before.min_size, after.min_size) + extra)
    for turn in random.random(turns):
        sides.insert(3) if turn < 0.5 else sides.sample(30)
    restored = Flow(after)
    restored.restore(flow.save(), sides.size, same=False)
    assert restored.inserts == sides.size and restored.samples >= 0
    assert restored.diff <= after.max_diff
    sides = Sides(restored, sides.capacity, sides.size)
    inserted = sampled = 0
    for turn in random.random(400):
        assert not sides.blocked
        number = int(random.integers(1, 4))
        if turn < 0.5:
            inserted += sides.insert(number)
        else:
            sampled += sides.sample(number)
    assert inserted > 0 and sampled > 0


def test_old_counts_would_have_another_limiter_wait():
    """What restoring them as they are leads to: 900 samples before the next insert."""
    saved = {"inserts": 1000, "samples": 0}
    limiter = samples_per_insert(1.0, 10, 90.0)
    stale, restored = Flow(limiter), Flow(limiter)
    stale.restore(saved, 1000, same=True)
    restored.restore(saved, 1000, same=False)
    assert stale.may_insert(1000) == 0
    assert restored.diff == limiter.centre == 10.0
    assert restored.may_insert(1000) == 1 and restored.may_sample(1000) == 1


@pytest.mark.parametrize("bounds", [(-math.inf, 40.0), (40.0, math.inf), (-math.inf, math.inf)])
def test_a_side_without_a_bound_is_not_held_back_by_restoring(bounds):
    restored = Flow(Limiter(1, 2.0, *bounds))
    restored.restore({"inserts": 7000, "samples": 0}, 50, same=False)
    assert restored.may_insert(50) == restored.may_sample(50) == 1


def test_a_restored_queue_holds_what_was_not_sampled_yet():
    restored = Flow(queue(10))
    restored.restore({"inserts": 500, "samples": 493}, 7, same=False)
    assert restored.may_sample(7, 100) == 7 and restored.may_insert(7, 100) == 3


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: minimum_size(0), "least number of items to sample from must be at least 1, not 0"),
        (lambda: samples_per_insert(0.0, 1, 5.0), "samples per insert must be a finite number above 0, not 0.0"),
        (lambda: samples_per_insert(math.inf, 1, (0.0, 1.0)), "samples per insert must be a finite .* not inf"),
        (lambda: samples_per_insert(4.0, 100, 7.9), "error buffer of 7.9 is too small .* must be at least 8.0"),
        (lambda: samples_per_insert(0.5, 100, 1.9), "error buffer of 1.9 is too small .* must be at least 2"),
        (lambda: samples_per_insert(0.5, 100, math.nan), "error buffer of nan is too small"),
        (lambda: samples_per_insert(1.5, 100, (0.0, 2.9)), "bounds 0.0 and 2.9 must be at least 3.0 apart"),
        (lambda: queue(0), "queue must have room for at least 1 item, not 0"),
        (lambda: stack(0), "queue must have room for at least 1 item, not 0"),
        (lambda: Limiter(1, 1.0, 3.0, 2.0), "bounds 3.0 and 2.0 must be at least 1.0 apart"),
    ],
)
def test_limiters_that_could_not_work_are_refused(build, message):
    with pytest.raises(WeftError, match=message):
        build()


@PROPERTY
@given(
    ratio=st.one_of(st.integers(1, 5).map(float), st.floats(0.1, 5.0)),
    low=st.one_of(st.integers(-5, 5).map(float), st.floats(-5, 5)),
    apart=st.one_of(st.integers(0, 8).map(float), st.floats(0.0, 8.0)),
)
def test_what_is_not_refused_never_blocks_both(ratio, low, apart):
    try:
        limiter = Limiter(1, ratio, low, low + apart)
    except WeftError:
        return
    for inserts in range(12):
        for samples in range(60):
            flow = Flow(limiter)
            flow.inserted(inserts)
            flow.sampled(samples)
            assert flow.may_insert(1) or flow.may_sample(1)
