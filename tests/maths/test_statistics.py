"""Running moments: merging batches gives the moments of everything seen, and what is masked is not seen."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.maths import statistics
from weft.maths.statistics import Moments

SHAPE = (2, 3)


def batch(size: int, seed: int, loc: float = 0.0, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(loc, scale, (size, *SHAPE)).astype(np.float32)


def assert_moments_of(moments: Moments, values: np.ndarray) -> None:
    assert moments.count == len(values)
    tolerance = 1e-5 * max(1.0, np.abs(values).max() ** 2)
    np.testing.assert_allclose(moments.mean, values.mean(0), rtol=1e-4, atol=tolerance)
    np.testing.assert_allclose(moments.variance, values.var(0), rtol=1e-3, atol=tolerance)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 7]), min_size=1, max_size=4),
    loc=st.sampled_from([-30.0, 0.0, 3.0]),
    scale=st.sampled_from([0.01, 1.0, 20.0]),
    seed=st.integers(0, 100),
)
def test_merged_batches_have_the_moments_of_the_whole(sizes, loc, scale, seed):
    batches = [batch(size, seed + index, loc * index, scale) for index, size in enumerate(sizes)]
    moments = statistics.initial(SHAPE)
    for values in batches:
        moments = statistics.merge(moments, statistics.of_batch(values, np.ones(len(values), bool)))
    assert_moments_of(moments, np.concatenate(batches))


@settings(deadline=None, max_examples=20, derandomize=True)
@given(weight=st.lists(st.booleans(), min_size=6, max_size=6).filter(any), seed=st.integers(0, 100))
def test_values_of_no_weight_are_not_seen(weight, seed):
    values, kept = batch(6, seed), np.array(weight)
    values[~kept] = 1e6
    assert_moments_of(statistics.of_batch(values, kept), values[kept])
    nothing = statistics.of_batch(values, np.zeros(6, bool))
    known = statistics.of_batch(values, kept)
    for before, after in zip(known, statistics.merge(known, nothing), strict=True):
        np.testing.assert_array_equal(before, after)


def test_leading_axes_of_time_and_batch():
    values = batch(12, 0).reshape(4, 3, *SHAPE)
    weight = np.arange(12).reshape(4, 3) % 2 == 0
    assert_moments_of(statistics.of_batch(values, weight), values[weight])


def test_order_of_merging_does_not_matter():
    parts = [statistics.of_batch(batch(size, size, loc=size), np.ones(size)) for size in (1, 5, 20)]
    left = statistics.merge(statistics.merge(parts[0], parts[1]), parts[2])
    right = statistics.merge(parts[0], statistics.merge(parts[2], parts[1]))
    for one, other in zip(left, right, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_large_offset_does_not_spoil_the_variance():
    values = 1000.0 + batch(4000, 1)
    moments = statistics.initial(SHAPE)
    for part in np.split(values, 40):
        moments = statistics.merge(moments, statistics.of_batch(part, np.ones(100)))
    np.testing.assert_allclose(moments.variance, values.astype(np.float64).var(0), rtol=1e-3)


def test_before_anything_is_seen_nothing_changes():
    values = batch(5, 0)
    np.testing.assert_allclose(statistics.normalise(statistics.initial(SHAPE), values, None), values, rtol=1e-6)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_normalised_values_have_mean_0_and_variance_1_within_the_clip(clip):
    values = batch(50, 0, loc=7, scale=4)
    moments = statistics.of_batch(values, np.ones(50))
    expected = (values - values.mean(0)) / values.std(0)
    if clip is not None:
        expected = np.clip(expected, -clip, clip)
    np.testing.assert_allclose(statistics.normalise(moments, values, clip), expected, rtol=1e-3, atol=1e-4)


def test_a_constant_stays_finite():
    values = np.full((4, *SHAPE), 3.0, np.float32)
    moments = statistics.of_batch(values, np.ones(4))
    np.testing.assert_array_equal(statistics.normalise(moments, values, None), 0.0)
    assert np.isfinite(statistics.normalise(moments, values + 1, 10.0)).all()


def test_only_floating_leaves_are_normalised():
    example = {"vector": jnp.zeros(3), "more": (jnp.zeros((2, 2), jnp.uint8), jnp.zeros((), jnp.int32))}
    observations = {
        "vector": np.random.default_rng(0).normal(5, 2, (20, 3)).astype(np.float32),
        "more": (np.full((20, 2, 2), 200, np.uint8), np.arange(20, dtype=np.int32)),
    }
    moments = statistics.initial_tree(example)
    assert sum(known is not None for known in moments) == 1
    moments = statistics.update_tree(moments, observations, np.ones(20))
    normalised = statistics.normalise_tree(moments, observations, None)
    assert jax.tree.structure(normalised) == jax.tree.structure(observations)
    assert abs(normalised["vector"].mean()) < 1e-5 and abs(normalised["vector"].std() - 1) < 1e-3
    for before, after in zip(observations["more"], normalised["more"], strict=True):
        assert after is before
