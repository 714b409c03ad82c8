"""Advantages and returns against plain-Python loops that follow each step to the end of its episode."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.maths.returns import generalised_advantages, n_step_returns, vtrace

LENGTH = 12
DISCOUNT, LAMBDA = 0.9, 0.8
GOES_ON, TERMINATES, IS_CUT = range(3)


class Steps(NamedTuple):
    """Arguments of the functions under test, [T]."""

    r_t: np.ndarray
    discount_t: np.ndarray
    continues_t: np.ndarray
    v_tm1: np.ndarray
    v_t: np.ndarray


def steps_of(ends: list[int], seed: int = 0) -> Steps:
    """Random rewards and values; ``ends`` says how each step ends. Only where it goes on, v_t is the next v_tm1."""
    random = np.random.default_rng(seed)
    ends_t = np.array(ends)
    r_t, v_tm1, v_t = random.normal(size=(3, len(ends))).astype(np.float32)
    continues_t = ends_t == GOES_ON
    v_t[:-1] = np.where(continues_t[:-1], v_tm1[1:], v_t[:-1])
    return Steps(r_t, np.where(ends_t == TERMINATES, 0, DISCOUNT).astype(np.float32), continues_t, v_tm1, v_t)


def advantage_by_loop(steps: Steps, begin: int, lambda_: float) -> float:
    """Sum of the discounted temporal-difference errors from one step to the end of its episode."""
    total, weight = 0.0, 1.0
    for t in range(begin, len(steps.r_t)):
        total += weight * (steps.r_t[t] + steps.discount_t[t] * steps.v_t[t] - steps.v_tm1[t])
        if not steps.continues_t[t]:
            break
        weight *= steps.discount_t[t] * lambda_
    return total


def n_step_return_by_loop(steps: Steps, begin: int, n: int) -> float:
    """Up to n rewards of one episode, then the value of where they led to."""
    total, weight = 0.0, 1.0
    for t in range(begin, min(begin + n, len(steps.r_t))):
        total += weight * steps.r_t[t]
        weight *= steps.discount_t[t]
        if not steps.continues_t[t]:
            break
    return total + weight * steps.v_t[t]


ENDS = st.lists(st.sampled_from([GOES_ON, GOES_ON, TERMINATES, IS_CUT]), min_size=LENGTH, max_size=LENGTH)


JITS = pytest.mark.parametrize("jit", [jax.jit, lambda function, **_: function], ids=["jitted", "plain"])


def check(steps: Steps, n: int, lambda_: float, jit=jax.jit) -> None:
    advantages = jit(generalised_advantages)(*steps, lambda_)
    expected = [advantage_by_loop(steps, t, lambda_) for t in range(LENGTH)]
    np.testing.assert_allclose(advantages, expected, rtol=1e-4, atol=1e-5)
    n_step = jit(n_step_returns, static_argnames="n")
    returns = n_step(steps.r_t, steps.discount_t, steps.continues_t, steps.v_t, n=n)
    expected = [n_step_return_by_loop(steps, t, n) for t in range(LENGTH)]
    np.testing.assert_allclose(returns, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, LENGTH + 1])
@settings(deadline=None, max_examples=15, derandomize=True)
@given(ends=ENDS, seed=st.integers(0, 1000), lambda_=st.sampled_from([0.0, LAMBDA, 1.0]))
def test_advantages_and_returns_of_cut_and_finished_episodes(n, ends, seed, lambda_):
    check(steps_of(ends, seed), n, lambda_)


@JITS
def test_jitted_and_not(jit):
    check(steps_of([GOES_ON, GOES_ON, TERMINATES, IS_CUT] * 3), 3, LAMBDA, jit)


def test_golden_advantages():
    """Two steps to a terminal state, then one that is cut off and bootstraps from where it was."""
    advantages = generalised_advantages(
        np.array([1.0, 2.0, 4.0]),
        np.array([0.5, 0.0, 0.5]),
        np.array([True, False, False]),
        np.array([0.0, 1.0, 1.0]),
        np.array([1.0, 100.0, 8.0]),
        0.5,
    )
    np.testing.assert_allclose(advantages, [1.0 + 0.5 * 1.0 + 0.25 * 1.0, 1.0, 7.0])


def test_lambda_one_gives_the_whole_return_and_zero_the_one_step_error():
    steps = steps_of([GOES_ON] * LENGTH)
    whole = n_step_returns(steps.r_t, steps.discount_t, steps.continues_t, steps.v_t, n=LENGTH)
    np.testing.assert_allclose(generalised_advantages(*steps, 1.0), whole - steps.v_tm1, rtol=1e-4, atol=1e-5)
    one = steps.r_t + steps.discount_t * steps.v_t
    np.testing.assert_allclose(generalised_advantages(*steps, 0.0), one - steps.v_tm1, rtol=1e-5)


def test_further_axes_are_carried_along():
    columns = [steps_of([GOES_ON] * 4 + [end] + [GOES_ON] * 3, seed=end) for end in (GOES_ON, TERMINATES, IS_CUT)]
    together = Steps(*(np.stack(parts, axis=1) for parts in zip(*columns, strict=True)))
    for column, steps in enumerate(columns):
        np.testing.assert_allclose(
            generalised_advantages(*together, LAMBDA)[:, column], generalised_advantages(*steps, LAMBDA), rtol=1e-6
        )
        arguments = [(whole[:, column], part) for whole, part in zip(together, steps, strict=True)]
        assert all((left == right).all() for left, right in arguments)
        np.testing.assert_allclose(
            n_step_returns(together.r_t, together.discount_t, together.continues_t, together.v_t, n=3)[:, column],
            n_step_returns(steps.r_t, steps.discount_t, steps.continues_t, steps.v_t, n=3),
            rtol=1e-6,
        )


def ratios_of(seed: int) -> np.ndarray:
    """Importance ratios [T] on both sides of 1."""
    return np.exp(np.random.default_rng(seed + 1).normal(size=LENGTH)).astype(np.float32)


def vtrace_target_by_loop(
    steps: Steps, rho: np.ndarray, begin: int, lambda_: float, rho_bar: float, c_bar: float
) -> float:
    """Equation 1 of IMPALA: the sum of discounted, clipped and traced temporal-difference errors."""
    target, weight = steps.v_tm1[begin], 1.0
    for t in range(begin, LENGTH):
        target += weight * min(rho_bar, rho[t]) * (steps.r_t[t] + steps.discount_t[t] * steps.v_t[t] - steps.v_tm1[t])
        if not steps.continues_t[t]:
            break
        weight *= steps.discount_t[t] * lambda_ * min(c_bar, rho[t])
    return target


def vtrace_by_loop(
    steps: Steps, rho: np.ndarray, lambda_: float, rho_bar: float, c_bar: float
) -> tuple[np.ndarray, np.ndarray]:
    targets = [vtrace_target_by_loop(steps, rho, t, lambda_, rho_bar, c_bar) for t in range(LENGTH)]
    advantages = []
    for t in range(LENGTH):
        reached = steps.v_t[t]
        if steps.continues_t[t] and t + 1 < LENGTH:
            reached = lambda_ * targets[t + 1] + (1 - lambda_) * reached
        advantages.append(steps.r_t[t] + steps.discount_t[t] * reached - steps.v_tm1[t])
    return np.array(targets), np.array(advantages)


@JITS
@pytest.mark.parametrize(("rho_bar", "c_bar"), [(1.0, 1.0), (2.0, 0.5), (0.7, 1.5), (100.0, 100.0)])
@pytest.mark.parametrize("lambda_", [0.0, LAMBDA, 1.0])
def test_vtrace_of_cut_and_finished_episodes(jit, rho_bar, c_bar, lambda_):
    for seed in range(4):
        ends = np.random.default_rng(seed).choice([GOES_ON, GOES_ON, TERMINATES, IS_CUT], LENGTH).tolist()
        steps, rho = steps_of(ends, seed), ratios_of(seed)
        got = jit(vtrace)(*steps, rho, lambda_, rho_bar, c_bar)
        expected = vtrace_by_loop(steps, rho, lambda_, rho_bar, c_bar)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_golden_vtrace():
    """A likelier action, a less likely one that ends the episode, and one that is cut off."""
    target, advantage = vtrace(
        np.array([1.0, 2.0, 4.0]),
        np.array([0.5, 0.0, 0.5]),
        np.array([True, False, False]),
        np.array([0.0, 1.0, 1.0]),
        np.array([1.0, 100.0, 8.0]),
        np.array([3.0, 0.5, 1.0]),
        rho_bar=2.0,
        c_bar=1.0,
    )
    np.testing.assert_allclose(target, [0.0 + 2.0 * 1.5 + 0.5 * 1.0 * 0.5, 1.0 + 0.5 * 1.0, 1.0 + 7.0])
    np.testing.assert_allclose(advantage, [1.0 + 0.5 * 1.5 - 0.0, 1.0, 7.0])


@pytest.mark.parametrize("lambda_", [0.0, LAMBDA, 1.0])
def test_vtrace_without_lag_is_the_generalised_advantage_estimate(lambda_):
    steps = steps_of([GOES_ON, GOES_ON, TERMINATES, IS_CUT] * 3)
    expected = generalised_advantages(*steps, lambda_)
    target, advantage = vtrace(*steps, np.ones(LENGTH, np.float32), lambda_)
    np.testing.assert_allclose(advantage, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(target, expected + steps.v_tm1, rtol=1e-4, atol=1e-6)


def test_without_lag_and_decay_vtrace_gives_n_step_returns():
    steps = steps_of([GOES_ON] * 5 + [TERMINATES] + [GOES_ON] * 6)
    returns = n_step_returns(steps.r_t, steps.discount_t, steps.continues_t, steps.v_t, n=LENGTH)
    np.testing.assert_allclose(vtrace(*steps, np.ones(LENGTH)).target, returns, rtol=1e-4, atol=1e-6)


def test_ratios_beyond_the_bars_make_no_difference():
    steps, rho = steps_of([GOES_ON] * LENGTH), np.linspace(1.5, 9.0, LENGTH).astype(np.float32)
    for one, other in zip(vtrace(*steps, rho), vtrace(*steps, np.ones_like(rho)), strict=True):
        np.testing.assert_array_equal(one, other)
    apart = vtrace(*steps, rho, 1.0, 2.0, 1.0).target - vtrace(*steps, rho).target
    assert (abs(apart) > 1e-3).all()


def test_nothing_of_another_episode_enters_vtrace():
    ends = [GOES_ON, GOES_ON, IS_CUT, *[GOES_ON] * 4, TERMINATES, *[GOES_ON] * 4]
    steps, rho = steps_of(ends), ratios_of(0)
    later = steps._replace(r_t=steps.r_t + np.float32(100) * (np.arange(LENGTH) > 2))
    for one, other in zip(vtrace(*steps, rho), vtrace(*later, rho), strict=True):
        np.testing.assert_array_equal(one[:3], other[:3])
        assert (one[3:] != other[3:]).all()


def test_vtrace_carries_further_axes_along():
    columns = [(steps_of([GOES_ON] * 4 + [end] + [GOES_ON] * 7, seed=end), ratios_of(end)) for end in range(3)]
    together = [np.stack(parts, axis=1) for parts in zip(*((*steps, rho) for steps, rho in columns), strict=True)]
    for column, (steps, rho) in enumerate(columns):
        for one, other in zip(vtrace(*together, LAMBDA), vtrace(*steps, rho, LAMBDA), strict=True):
            np.testing.assert_allclose(one[:, column], other, rtol=1e-6)
