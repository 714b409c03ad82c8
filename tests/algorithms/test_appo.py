"""Asynchronous PPO: PPO where there is no lag, V-trace where there is."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from batches import DISCRETE, KEY, assert_close, jitted, take, with_other_fillers
from lagging import PLAIN, begun, one_by_one, recorded_ratios, small, vtrace_by_hand

from weft.algorithm import Algorithm
from weft.algorithms import find, settings_class


@functools.cache
def make(name: str, recurrent: Any = None, **settings: Any) -> Algorithm:
    factory = find(name)
    chosen = {**PLAIN, "gae_lambda": 0.8, "standardise_advantages": False, **settings}
    return factory(settings_class(factory)(**chosen, network=small(recurrent=recurrent)), DISCRETE)


@pytest.mark.parametrize("recurrent", [None, "gru"])
def test_without_lag_it_is_ppo(recurrent):
    appo, ppo = make("appo", recurrent), make("ppo", recurrent)
    state, batch = begun(ppo, lag=False)
    (_, samples), (_, expected) = jitted(appo.prepare)(state, batch), jitted(ppo.prepare)(state, batch)
    real = np.asarray(expected.valid)
    for name in ("advantage", "target", "log_prob", "value"):
        assert_close(np.asarray(getattr(samples, name))[real], np.asarray(getattr(expected, name))[real])
    assert_close(jitted(appo.gradients)(state, samples, KEY), jitted(ppo.gradients)(state, expected, KEY))


@pytest.mark.parametrize(("recurrent", "bars"), [(None, (1.0, 1.0)), (None, (1.2, 0.9)), ("gru", (1.2, 0.9))])
def test_with_lag_targets_and_advantages_are_those_of_vtrace(recurrent, bars):
    algorithm = make("appo", recurrent, rho_bar=bars[0], c_bar=bars[1])
    state, batch = begun(algorithm, lag=True)
    outputs = one_by_one(state.params, batch, recurrent)
    target, advantage = vtrace_by_hand(batch, np.array(outputs.value), recorded_ratios(outputs, batch), 0.8, *bars)
    _, samples = jitted(algorithm.prepare)(state, batch)
    layout = (lambda leaf: leaf.T) if recurrent else (lambda leaf: leaf.reshape(-1))
    real = layout(batch.valid)
    assert_close(np.asarray(samples.target)[real], layout(target)[real])
    assert_close(np.asarray(samples.advantage)[real], layout(advantage)[real])
    np.testing.assert_array_equal(samples.log_prob, layout(batch.extras["log_prob"]))
    metrics = jitted(algorithm.gradients)(state, samples, KEY)[1].metrics
    ratio = recorded_ratios(outputs, batch)[batch.valid]
    np.testing.assert_allclose(metrics["divergence"], (ratio - 1 - np.log(ratio)).mean(), rtol=1e-3)
    np.testing.assert_allclose(metrics["clipped"], (abs(ratio - 1) > 0.2).mean(), rtol=1e-5)


@pytest.mark.parametrize("recurrent", [None, "gru"])
def test_fillers_have_no_influence(recurrent):
    details = dict.fromkeys(("scale_rewards", "normalise_observations", "standardise_advantages"), True)
    algorithm = make("appo", recurrent, **details)
    state, batch = begun(algorithm, lag=True)
    prepare, gradients = jitted(algorithm.prepare), jitted(algorithm.gradients)
    (after, samples), (after_other, other) = prepare(state, batch), prepare(state, with_other_fillers(batch))
    assert_close(after, after_other)
    assert_close(gradients(state, samples, KEY), gradients(state, other, KEY))


def test_minibatches_are_steps_or_for_memory_whole_unrolls():
    plain, recurrent = make("appo", epochs=3, minibatches=2), make("appo", "lstm")
    assert (plain.experience.epochs, plain.experience.minibatches, plain.experience.whole) == (3, 2, False)
    assert recurrent.experience.whole
    state, batch = begun(recurrent, lag=True)
    _, samples = jitted(recurrent.prepare)(state, batch)
    _, swapped = jitted(recurrent.prepare)(state, take_environments(batch, [2, 0, 1]))
    assert_close(take(samples, np.array([2, 0, 1])), swapped)


def take_environments(batch: Any, order: list[int]) -> Any:
    columns = take(batch._replace(memory=()), (slice(None), order))
    return columns._replace(memory=take(batch.memory, np.array(order)))
