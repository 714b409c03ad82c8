"""DQN: its targets by hand, its target network, its exploration, and learning from sequences."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batches import (
    DISCRETE,
    KEY,
    VECTOR,
    assert_close,
    jitted,
    observations,
    trajectory,
    transitions,
)

from weft.algorithm import Algorithm, State
from weft.algorithms.dqn import Config, dqn
from weft.networks.network import Network, NetworkSettings, build
from weft.networks.policy import action_values
from weft.types import Trajectory

T, B, N = 8, 4, 3
DISCOUNT = 0.9
small = functools.partial(NetworkSettings, hidden=(4,), memory_size=3)


@functools.cache
def make(recurrent: Any = None, **settings: Any) -> Algorithm:
    defaults = {"discount": DISCOUNT, "anneal": False, "max_gradient_norm": None}
    return dqn(Config(**{**defaults, **settings, "network": small(recurrent=recurrent)}), DISCRETE)


@functools.cache
def network(recurrent: Any = None) -> Network:
    return build(VECTOR, {"values": action_values(N)}, small(recurrent=recurrent))


@functools.cache
def begun(recurrent: Any = None) -> tuple[State, Trajectory]:
    """A state whose target network is another one, and a batch."""
    init = jitted(make(recurrent).init)
    state = init(KEY)._replace(target=init(jax.random.key(7)).params)
    batch = trajectory(make(recurrent), state, VECTOR, T, B, seed=3)
    assert not batch.valid.all() and (batch.discount == 0).any()
    return state, batch


def best_by_hand(double: bool, learned: np.ndarray, slow: np.ndarray) -> float:
    return slow[np.argmax(learned)] if double else slow.max()


def values_of(params: Any, observation: np.ndarray) -> np.ndarray:
    first = np.zeros(len(observation), bool)
    return np.asarray(jitted(network().apply)(params, observation, (), first)[0]["values"])


@pytest.mark.parametrize("double", [False, True])
def test_targets_and_loss_by_hand(double):
    state, batch = begun()
    steps = transitions(batch, DISCOUNT)
    algorithm = make(double=double, huber=0.5)
    learned, slow = (values_of(params, steps.successor) for params in (state.params, state.target))
    assert (learned.argmax(1) != slow.argmax(1)).any()
    expected = [
        reward + discount * best_by_hand(double, *row)
        for reward, discount, *row in zip(steps.reward, steps.discount, learned, slow, strict=True)
    ]
    after, lesson = jitted(algorithm.prepare)(state, steps)
    np.testing.assert_allclose(lesson.target, expected, rtol=1e-5)
    assert_close(after, state)
    taken = values_of(state.params, steps.observation)[np.arange(len(expected)), steps.action]
    error = np.abs(taken - expected)
    losses = np.where(error < 0.5, 0.5 * error**2, 0.5 * (error - 0.25))
    metrics = jitted(algorithm.gradients)(state, lesson, KEY)[1].metrics
    np.testing.assert_allclose(metrics["loss"], losses.mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["error"], error.mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["value"], taken.mean(), rtol=1e-4, atol=1e-6)


def test_duelling_values_are_the_state_value_plus_centred_advantages():
    algorithm = make(dueling=True)
    state = jitted(algorithm.init)(KEY)
    head = state.params["branches"][0]["heads"]["values"]
    assert head["value"]["kernel"].shape == (4, 1) and head["advantage"]["kernel"].shape == (4, N)
    steps = transitions(begun()[1], DISCOUNT)
    _, lesson = jitted(algorithm.prepare)(state, steps)
    assert np.isfinite(lesson.target).all()


@pytest.mark.parametrize(("double", "n"), [(False, 1), (True, 3)])
def test_targets_of_sequences_one_by_one(double, n):
    state, batch = begun("gru")
    memory = network("gru").memory(B)
    batch = batch._replace(memory=jax.tree.map(lambda leaf: leaf + 0.5, memory))
    batch.first[0] = False
    apply = jitted(network("gru").apply)
    values: dict[str, list[np.ndarray]] = {"params": [], "target": []}
    for name, rows in values.items():
        now = batch.memory
        for t in range(T + 1):
            outputs, now = apply(getattr(state, name), batch.observation[t], now, batch.first[t])
            rows.append(np.asarray(outputs["values"]))
    algorithm = make("gru", double=double, n_step=n, sequence=T)
    _, lesson = jitted(algorithm.prepare)(state, batch)
    errors = []
    for t, index in np.argwhere(batch.valid):
        expected, weight = 0.0, 1.0
        for step in range(t, min(t + n, T)):
            expected += weight * batch.reward[step, index]
            weight *= DISCOUNT * batch.discount[step, index]
            ended = step + 1 < T and not batch.valid[step + 1, index]
            if ended:
                break
        following = (values["params"][step + 1][index], values["target"][step + 1][index])
        expected += weight * best_by_hand(double, *following)
        np.testing.assert_allclose(lesson.target[t, index], expected, rtol=1e-4, atol=1e-5)
        errors.append(abs(values["params"][t][index, batch.action[t, index]] - expected))
    metrics = jitted(algorithm.gradients)(state, lesson, KEY)[1].metrics
    np.testing.assert_allclose(metrics["error"], np.mean(errors), rtol=1e-4)


def test_fillers_of_sequences_have_no_influence():
    state, batch = begun("gru")
    algorithm = make("gru", double=True, n_step=3, sequence=T)
    prepare, gradients = jitted(algorithm.prepare), jitted(algorithm.gradients)
    expected = gradients(state, prepare(state, batch)[1], KEY)
    filled = batch._replace(
        reward=np.where(batch.valid, batch.reward, 50.0).astype(np.float32),
        discount=np.where(batch.valid, batch.discount, 0.3).astype(np.float32),
        action=np.where(batch.valid, batch.action, 2).astype(np.int32),
    )
    assert_close(expected, gradients(state, prepare(state, filled)[1], KEY))


def test_experience_follows_the_settings():
    flat = make(n_step=4, batch=32, capacity=500, warmup=50, steps_per_update=0.5).experience
    assert (flat.n_step, flat.batch, flat.capacity, flat.warmup, flat.steps_per_update) == (4, 32, 500, 50, 0.5)
    assert flat.discount == DISCOUNT and flat.sequence is None
    assert make("gru", sequence=7).experience.sequence == 7


def test_the_target_network_is_copied_every_period_and_never_else():
    state, _ = begun()
    apply = jitted(make(target_period=3).apply)
    grads = jax.tree.map(jnp.ones_like, state.params)
    for update in range(1, 8):
        before, state = state, apply(state, grads)
        assert state.updates == update
        expected = state.params if update % 3 == 0 else before.target
        jax.tree.map(np.testing.assert_array_equal, state.target, expected)


def test_begins_with_both_networks_the_same():
    state = jitted(make().init)(KEY)
    jax.tree.map(np.testing.assert_array_equal, state.target, state.params)


def test_the_learning_rate_falls_with_progress():
    state, _ = begun()
    grads = jax.tree.map(jnp.ones_like, state.params)
    apply = jitted(make(anneal=True, learning_rate=0.01).apply)
    for progress, step in ((0.0, -0.01), (0.5, -0.005), (1.0, 0.0)):
        after = apply(state._replace(progress=jnp.float32(progress)), grads)
        moved = jax.tree.map(lambda new, old: new - old, after.params, state.params)
        assert_close(moved, jax.tree.map(lambda leaf, step=step: np.full(leaf.shape, step), moved), atol=1e-6)


def test_epsilon_falls_to_its_end_and_stays():
    explore = make(epsilon_start=0.9, epsilon_end=0.1, epsilon_fraction=0.4).explore
    levels = [explore(progress) for progress in (0.0, 0.1, 0.2, 0.4, 0.7, 1.0)]
    np.testing.assert_allclose(levels, [0.9, 0.7, 0.5, 0.1, 0.1, 0.1])
    assert make(epsilon_end=0.1, epsilon_fraction=0.0).explore(0.0) == pytest.approx(0.1)


def test_acts_at_random_as_often_as_epsilon_says():
    state, _ = begun()
    observation, first = observations(VECTOR, 3000), np.zeros(3000, bool)
    best = values_of(state.params, observation).argmax(1)
    act = jitted(make().act)
    for epsilon in (0.0, 0.3, 1.0):
        acts = act(state.policy, observation, (), first, KEY, epsilon)
        np.testing.assert_array_equal(acts.action, acts.raw)
        changed = (np.asarray(acts.raw) != best).mean()
        np.testing.assert_allclose(changed, epsilon * (N - 1) / N, atol=0.04)
        assert (changed == 0) == (epsilon == 0)
    counts = np.bincount(acts.raw, minlength=N)
    assert (abs(counts - 1000) < 150).all()


def test_a_states_value_is_that_of_its_best_action():
    state, _ = begun()
    observation = observations(VECTOR, B)
    value = jitted(make().value)(state.policy, observation, (), np.zeros(B, bool))
    np.testing.assert_allclose(value, values_of(state.params, observation).max(1), rtol=1e-5)
