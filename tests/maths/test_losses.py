from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.maths.losses import huber, masked_mean, masked_standardised

VALUES = np.random.default_rng(0).normal(3, 5, (4, 3)).astype(np.float32)


@settings(deadline=None, max_examples=20, derandomize=True)
@given(mask=st.lists(st.booleans(), min_size=12, max_size=12).filter(lambda bits: sum(bits) > 1))
def test_masked_values_have_no_influence(mask):
    mask = np.reshape(mask, (4, 3))
    values = np.where(mask, VALUES, 1e6).astype(np.float32)
    kept = VALUES[mask]
    np.testing.assert_allclose(masked_mean(values, mask), kept.mean(), rtol=1e-4)
    standardised = np.asarray(masked_standardised(values, mask))[mask]
    np.testing.assert_allclose(standardised, (kept - kept.mean()) / kept.std(), rtol=1e-3, atol=1e-4)


def test_the_mean_of_nothing_is_0_and_so_are_its_gradients():
    nowhere = np.zeros((4, 3), bool)
    assert masked_mean(VALUES, nowhere) == 0
    np.testing.assert_array_equal(jax.grad(lambda values: masked_mean(values, nowhere))(VALUES), 0)
    assert np.isfinite(masked_standardised(VALUES, nowhere)).all()


def test_equal_values_are_standardised_to_0():
    np.testing.assert_array_equal(masked_standardised(np.full((4, 3), 2.5, np.float32), np.ones((4, 3), bool)), 0)


@pytest.mark.parametrize("jit", [jax.jit, lambda function, **_: function])
@pytest.mark.parametrize("threshold", [0.5, 1.0, 3.0])
def test_huber(jit, threshold):
    errors = np.linspace(-5, 5, 41, dtype=np.float32)
    expected = [
        0.5 * error**2 if abs(error) <= threshold else threshold * (abs(error) - 0.5 * threshold) for error in errors
    ]
    np.testing.assert_allclose(jit(huber)(errors, threshold), expected, rtol=1e-5)
    slopes = jax.vmap(jit(jax.grad(huber)), in_axes=(0, None))(errors, threshold)
    np.testing.assert_allclose(slopes, np.clip(errors, -threshold, threshold), rtol=1e-5, atol=1e-6)
