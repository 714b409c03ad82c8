"""A2C and IMPALA: their gradients by hand, with lag and without, with memory and without."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batches import DISCRETE, KEY, all_finite, assert_close, jitted, take, with_other_fillers
from lagging import DISCOUNT, PLAIN, B, T, begun, one_by_one, recorded_ratios, small, vtrace_by_hand

from weft.algorithm import Algorithm, State
from weft.algorithms import find, settings_class
from weft.types import Trajectory
from weft.update import update


@functools.cache
def make(name: str, recurrent: Any = None, **settings: Any) -> Algorithm:
    factory = find(name)
    config = settings_class(factory)(**{**PLAIN, **settings, "network": small(recurrent=recurrent)})
    return factory(config, DISCRETE)


def learned(algorithm: Algorithm, state: State, batch: Trajectory) -> tuple[Any, dict[str, Any]]:
    _, data = jitted(algorithm.prepare)(state, batch)
    grads, feedback = jitted(algorithm.gradients)(state, data, KEY)
    return grads, feedback.metrics


def mean(values: Any, batch: Trajectory) -> Any:
    return jnp.where(batch.valid, values, 0).sum() / batch.valid.sum()


@pytest.mark.parametrize(
    ("name", "settings", "recurrent"),
    [
        ("a2c", {}, "gru"),
        ("a2c", {"gae_lambda": 0.8}, None),
        ("impala", {"rho_bar": 1.2, "c_bar": 0.9}, None),
        ("impala", {"rho_bar": 1.2, "c_bar": 0.9}, "lstm"),
        ("impala", {"gae_lambda": 0.8}, "gru"),
        ("impala", {"correction": "none"}, None),
    ],
)
def test_gradients_by_hand(name, settings, recurrent):
    algorithm = make(name, recurrent, value_cost=0.7, entropy_cost=0.2, **settings)
    state, batch = begun(algorithm, lag=True)
    outputs = one_by_one(state.params, batch, recurrent)
    ratio = recorded_ratios(outputs, batch)
    assert (ratio[batch.valid] > 1.2).any() and (ratio[batch.valid] < 0.9).any()
    corrected = name == "impala" and settings.get("correction") != "none"
    rho = ratio if corrected else np.ones_like(ratio)
    bars = settings.get("rho_bar", 1.0), settings.get("c_bar", 1.0)
    target, advantage = vtrace_by_hand(batch, np.array(outputs.value), rho, settings.get("gae_lambda", 1.0), *bars)

    def loss(params: Any) -> jax.Array:
        log_prob, entropy, value = one_by_one(params, batch, recurrent)
        policy_loss = -mean(np.minimum(rho, bars[0]) * advantage * log_prob, batch)
        value_loss = 0.5 * mean(jnp.square(value[:-1] - target), batch)
        return policy_loss + 0.7 * value_loss - 0.2 * mean(entropy, batch)

    expected, grads = jax.jit(jax.value_and_grad(loss))(state.params)
    got, metrics = learned(algorithm, state, batch)
    assert_close(got, grads)
    np.testing.assert_allclose(metrics["loss"], expected, rtol=1e-4)
    np.testing.assert_allclose(metrics["entropy"], mean(outputs.entropy, batch), rtol=1e-4)
    if name == "impala":
        np.testing.assert_allclose(metrics["clipped"], mean(ratio > bars[0], batch), rtol=1e-5)
        np.testing.assert_allclose(metrics["divergence"], mean(ratio - 1 - np.log(ratio), batch), rtol=1e-3)


@pytest.mark.parametrize("correction", ["vtrace", "none"])
def test_without_lag_impala_is_a2c(correction):
    state, batch = begun(make("a2c"), lag=False)
    expected, metrics = learned(make("a2c"), state, batch)
    got, more = learned(make("impala", correction=correction), state, batch)
    assert_close(got, expected)
    assert_close({name: more[name] for name in metrics}, metrics)
    np.testing.assert_allclose(more["divergence"], 0, atol=1e-6)


@pytest.mark.parametrize("recurrent", [None, "gru"])
@pytest.mark.parametrize("name", ["a2c", "impala"])
def test_fillers_have_no_influence(name, recurrent):
    details = dict.fromkeys(("scale_rewards", "normalise_observations"), True)
    algorithm = make(name, recurrent, **details)
    state, batch = begun(algorithm, lag=True)
    prepare, gradients = jitted(algorithm.prepare), jitted(algorithm.gradients)
    (after, data), (after_other, other) = prepare(state, batch), prepare(state, with_other_fillers(batch))
    assert_close(after, after_other)
    assert_close(gradients(state, data, KEY), gradients(state, other, KEY))


@pytest.mark.parametrize("name", ["a2c", "impala"])
def test_a_batch_teaches_what_its_unrolls_teach_one_by_one(name):
    algorithm = make(name, "gru")
    state, batch = begun(algorithm, lag=True)
    _, data = jitted(algorithm.prepare)(state, batch)
    gradients = jitted(algorithm.gradients)
    parts = [gradients(state, take(data, slice(index, index + 1)), KEY)[0] for index in range(B)]
    shares = batch.valid.sum(0) / batch.valid.sum()
    together = jax.tree.map(
        lambda *leaves: sum(share * leaf for share, leaf in zip(shares, leaves, strict=True)), *parts
    )
    assert_close(gradients(state, data, KEY)[0], together)


def test_several_passes_over_an_old_batch():
    algorithm = make("impala", epochs=2, minibatches=B)
    state, batch = begun(algorithm, lag=True)
    after, feedback = jax.jit(functools.partial(update, algorithm))(state, batch, KEY)
    assert after.updates == 2 * B and all_finite((after, feedback))


def test_experience_follows_the_settings():
    a2c, impala = make("a2c").experience, make("impala", epochs=2, minibatches=3, scale_rewards=True).experience
    assert (a2c.length, a2c.epochs, a2c.minibatches, a2c.whole, a2c.return_discount) == (T, 1, 1, True, None)
    assert (impala.epochs, impala.minibatches, impala.whole, impala.return_discount) == (2, 3, True, DISCOUNT)


@pytest.mark.parametrize("name", ["a2c", "impala"])
@pytest.mark.parametrize(("optimiser", "entry"), [("rmsprop", "nu"), ("adam", "mu")])
def test_the_optimiser_is_a_choice(name, optimiser, entry):
    state = jitted(make(name, optimiser=optimiser).init)(KEY)
    assert hasattr(state.optimiser, entry) and hasattr(state.optimiser, "mu") == (optimiser == "adam")
