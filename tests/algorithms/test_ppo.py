"""PPO: what each of its settings changes, what it learns from, and that its first gradient is the policy gradient."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from batches import (
    CONTINUOUS,
    DISCRETE,
    KEY,
    VECTOR,
    assert_close,
    jitted,
    observations,
    other_where,
    take,
    trajectory,
    with_other_fillers,
)

from weft.algorithm import Algorithm, State
from weft.algorithms.ppo import Config, Samples, ppo
from weft.maths.normalisation import Statistics
from weft.maths.statistics import Moments
from weft.networks.action import action_adapter
from weft.networks.network import NetworkSettings, build
from weft.networks.policy import stochastic, value
from weft.types import Trajectory
from weft.update import shuffled, stepped

T, B = 8, 3
PLAIN: dict[str, Any] = {
    "unroll": T,
    "clip_value": False,
    "scale_rewards": False,
    "anneal": False,
    "clip_rewards": None,
    "normalise_observations": False,
    "clip_observations": None,
    "max_gradient_norm": None,
    "standardise_advantages": False,
}
"""PPO without its details."""


SPACES = {"discrete": DISCRETE, "continuous": CONTINUOUS}
small = functools.partial(NetworkSettings, hidden=(4,), memory_size=3)


@functools.cache
def make(spaces: str = "discrete", network: NetworkSettings = small(), **settings: Any) -> Algorithm:  # noqa: B008
    return ppo(Config(**{**PLAIN, **settings, "network": network}), SPACES[spaces])


@functools.cache
def begun(spaces: str = "discrete", recurrent: Any = None) -> tuple[State, Trajectory, Samples]:
    """A state, a batch acted with it, and the samples that plain PPO makes of it."""
    algorithm = make(spaces, small(recurrent=recurrent, orthogonal=not recurrent))
    state = jitted(algorithm.init)(KEY)
    batch = trajectory(algorithm, state, VECTOR, T, B, seed=3)
    assert not batch.valid.all()
    return state, batch, jitted(algorithm.prepare)(state, batch)[1]


def gradients(algorithm: Algorithm, state: State, samples: Samples) -> tuple[Any, dict[str, Any]]:
    grads, feedback = jitted(algorithm.gradients)(state, samples, KEY)
    return grads, feedback.metrics


def values_of(algorithm: Algorithm, state: State, observation: Any) -> np.ndarray:
    return np.asarray(jitted(algorithm.value)(state.policy, observation, (), np.zeros(len(observation), bool)))


# The nine details of Engstrom et al. 2020.


@pytest.mark.parametrize("moved", [0.1, -0.15, 0.7, -3.0])
def test_1_value_clipping_matters_only_beyond_the_clip(moved):
    state, _, samples = begun()
    new = values_of(make(), state, samples.observation)
    samples = samples._replace(value=new - moved, valid=np.ones(T * B, bool))
    for clips in (False, True):
        error = np.square(new - samples.target)
        if clips:
            near = samples.value + np.clip(moved, -0.2, 0.2)
            error = np.maximum(error, np.square(near - samples.target))
        loss = gradients(make(clip_value=clips), state, samples)[1]["value_loss"]
        np.testing.assert_allclose(loss, 0.5 * error.mean(), rtol=1e-4)
    both = [gradients(make(clip_value=clips), state, samples)[1]["value_loss"] for clips in (False, True)]
    assert np.isclose(*both, rtol=1e-5) == (abs(moved) < 0.2)


def rewards_seen(batch: Trajectory, **settings: Any) -> tuple[State, np.ndarray]:
    """The rewards that learning is made of: with lambda 0, advantages are reward + discount * value - value."""
    state, _, _ = begun()
    state, samples = jitted(make(gae_lambda=0.0, **settings).prepare)(state, batch)
    _, without = jitted(make(gae_lambda=0.0).prepare)(state, batch._replace(reward=np.zeros_like(batch.reward)))
    return state, np.asarray(samples.target - without.target).reshape(T, B)[batch.valid]


def test_2_rewards_are_divided_by_the_running_deviation_of_the_return():
    _, batch, _ = begun()
    state, rewards = rewards_seen(batch, scale_rewards=True)
    deviation = batch.extras["running_return"][batch.valid].std()
    np.testing.assert_allclose(rewards, batch.reward[batch.valid] / deviation, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state.statistics.returns.variance, deviation**2, rtol=1e-4)
    assert make(scale_rewards=True, discount=0.9).experience.return_discount == 0.9
    assert make(scale_rewards=False).experience.return_discount is None


def test_3_orthogonal_initialisation_with_its_gains():
    params = make(network=NetworkSettings(hidden=(6, 6))).init(KEY).params
    gains = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if leaf.ndim == 2:
            small = leaf if leaf.shape[0] >= leaf.shape[1] else leaf.T
            product, size = np.asarray(small.T @ small), small.shape[1]
            gains.append(np.sqrt(product[0, 0]))
            np.testing.assert_allclose(product, product[0, 0] * np.eye(size), atol=1e-5, err_msg=str(path))
        else:
            assert not leaf.any()
    np.testing.assert_allclose(sorted(gains), [0.01, 1.0, *[np.sqrt(2)] * 4], rtol=1e-4)
    other = make(network=NetworkSettings(hidden=(6, 6), orthogonal=False)).init(KEY).params
    kernels = [leaf for leaf in jax.tree.leaves(other) if leaf.shape == (6, 6)]
    assert all(abs(kernel.T @ kernel - np.eye(6) * (kernel.T @ kernel)[0, 0]).max() > 0.1 for kernel in kernels)


def test_4_the_learning_rate_falls_with_progress():
    state, _, _ = begun()
    grads = jax.tree.map(jnp.ones_like, state.params)

    def step(anneal: bool, progress: float) -> Any:
        after = jitted(make(anneal=anneal).apply)(state._replace(progress=jnp.float32(progress)), grads)
        return jax.tree.map(lambda new, old: new - old, after.params, state.params)

    whole = step(True, 0.0)
    assert_close(whole, jax.tree.map(lambda leaf: jnp.full_like(leaf, -2.5e-3), whole), atol=1e-6)
    assert_close(step(True, 0.5), jax.tree.map(lambda leaf: leaf / 2, whole), atol=1e-7)
    assert_close(step(True, 1.0), jax.tree.map(jnp.zeros_like, whole), atol=1e-8)
    assert_close(step(False, 0.5), whole, atol=1e-7)


def test_5_rewards_are_clipped():
    _, batch, _ = begun()
    _, rewards = rewards_seen(batch, clip_rewards=1.5)
    assert (abs(batch.reward) > 1.5).any()
    np.testing.assert_allclose(rewards, np.clip(batch.reward[batch.valid], -1.5, 1.5), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("clip", [None, 1.0])
def test_6_and_7_observations_are_normalised_and_clipped(clip):
    state, _, _ = begun()
    moments = Moments(jnp.float32(10), jnp.array([0.5, -0.5, 0.0]), jnp.array([0.01, 0.25, 1.0]))
    statistics = Statistics((moments,), moments)
    observation = observations(VECTOR, B)
    by_hand = (observation - moments.mean) / np.sqrt(moments.variance)
    assert (abs(by_hand) > 1).any()
    by_hand = by_hand if clip is None else np.clip(by_hand, -clip, clip)
    algorithm = make(normalise_observations=True, clip_observations=clip)
    values = values_of(algorithm, state._replace(statistics=statistics), observation)
    np.testing.assert_allclose(values, values_of(make(), state, np.asarray(by_hand)), rtol=1e-3, atol=1e-5)
    first = np.ones(B, bool)
    acts = jitted(algorithm.act)((state.params, statistics), observation, (), first, KEY, 0.0)
    np.testing.assert_array_equal(
        acts.raw, jitted(make().act)((state.params, ()), np.asarray(by_hand), (), first, KEY, 0.0).raw
    )


def test_6_statistics_are_learned_after_the_batch_was_valued():
    state, batch, _ = begun()
    algorithm = make(normalise_observations=True)
    before = state._replace(statistics=jitted(algorithm.init)(KEY).statistics)
    after, samples = jitted(algorithm.prepare)(before, batch)
    (moments,) = after.statistics.observation
    assert moments.count == batch.valid.sum()
    np.testing.assert_allclose(moments.mean, batch.observation[:-1][batch.valid].mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(samples.observation, batch.observation[:-1].reshape(-1, 3), rtol=1e-5)


def test_8_activations():
    observation = observations(VECTOR, B)
    for name, function in {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}.items():
        algorithm = make(network=small(activation=name))
        state = jitted(algorithm.init)(KEY)
        branch = state.params["branches"][1]
        (layer,) = branch["torso"]["mlp"]["layers"].values()
        head = branch["heads"]["value"]["linear"]
        hidden = function(observation @ layer["kernel"] + layer["bias"])
        by_hand = (hidden @ head["kernel"] + head["bias"])[:, 0]
        np.testing.assert_allclose(values_of(algorithm, state, observation), by_hand, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bound", [0.5, None])
def test_9_the_norm_of_gradients_is_bounded(bound):
    state, _, _ = begun()
    grads = jax.tree.map(lambda leaf: 3.0 * jnp.ones_like(leaf), state.params)
    norm = float(optax.tree.norm(grads))
    after = jitted(functools.partial(stepped, make(max_gradient_norm=bound)))(state, grads)
    momentum = optax.tree_utils.tree_get(after.optimiser, "mu")
    np.testing.assert_allclose(optax.tree.norm(momentum), 0.1 * (bound or norm), rtol=1e-4)


# What is learned.


@pytest.mark.parametrize("spaces", ["discrete", "continuous"])
def test_the_first_gradient_is_the_policy_gradient(spaces):
    state, batch, samples = begun(spaces)
    actions = action_adapter(SPACES[spaces].action)
    heads = {"policy": stochastic(actions), "value": value()}
    network = build(VECTOR, heads, NetworkSettings(hidden=(4,)), shared=False)
    real = take(samples, batch.valid.reshape(-1))

    def policy_gradient_loss(params: Any) -> jax.Array:
        outputs, _ = network.apply(params, real.observation, (), real.first)
        log_prob = actions.distribution(outputs["policy"]).log_prob(real.action)
        value_loss = jnp.square(outputs["value"] - real.target).mean()
        entropy = actions.distribution(outputs["policy"]).entropy().mean()
        return -(log_prob * real.advantage).mean() + 0.25 * value_loss - 0.1 * entropy

    algorithm = make(spaces, clip_value=True, value_cost=0.5, entropy_cost=0.1)
    grads, metrics = gradients(algorithm, state, samples)
    assert_close(grads, jax.jit(jax.grad(policy_gradient_loss))(state.params))
    np.testing.assert_allclose(metrics["divergence"], 0, atol=1e-6)
    assert metrics["clipped"] == 0
    np.testing.assert_allclose(metrics["gradient_norm"], optax.tree.norm(grads), rtol=1e-5)


@pytest.mark.parametrize(("moved", "advantage", "flows"), [(0.1, 1, True), (0.3, 1, False), (0.3, -1, True)])
@pytest.mark.parametrize("sign", [1, -1])
def test_beyond_the_clip_a_ratio_has_gradients_only_back_towards_1(moved, advantage, flows, sign):
    state, _, samples = begun()
    samples = samples._replace(
        log_prob=samples.log_prob - np.log(1 + sign * moved), advantage=jnp.full(T * B, float(sign * advantage))
    )
    grads, metrics = gradients(make(value_cost=0.0), state, samples)
    assert (optax.tree.norm(grads) > 1e-6) == flows
    assert metrics["clipped"] == (moved > 0.2)


def test_standardised_advantages_do_not_depend_on_their_scale():
    state, _, samples = begun()
    other = samples._replace(advantage=samples.advantage * 7 + 3)
    algorithm = make(standardise_advantages=True, value_cost=0.0)
    assert_close(*(gradients(algorithm, state, data)[0] for data in (samples, other)))
    plain = [optax.tree.norm(gradients(make(value_cost=0.0), state, data)[0]) for data in (samples, other)]
    assert plain[1] > 2 * plain[0]


@pytest.mark.parametrize("recurrent", [None, "gru"])
def test_fillers_have_no_influence(recurrent):
    state, batch, _ = begun("discrete", recurrent)
    details = dict.fromkeys(("scale_rewards", "normalise_observations", "standardise_advantages"), True)
    algorithm = make(network=small(recurrent=recurrent, orthogonal=not recurrent), **details)
    state = state._replace(statistics=jitted(algorithm.init)(KEY).statistics)
    filled = with_other_fillers(batch)
    prepare = jitted(algorithm.prepare)
    (learned, samples), (learned_filled, samples_filled) = prepare(state, batch), prepare(state, filled)
    assert_close(learned, learned_filled)
    expected = gradients(algorithm, state, samples)
    assert_close(expected, gradients(algorithm, state, samples_filled))
    columns = {
        name: jax.tree.map(lambda leaf: other_where(~np.asarray(samples.valid), np.asarray(leaf)), column)
        for name, column in samples._asdict().items()
        if name not in ("first", "valid", "memory")
    }
    assert_close(expected, gradients(algorithm, state, samples._replace(**columns)))


def test_advantages_stop_at_the_end_of_an_episode():
    state, batch, samples = begun()
    t, index = np.argwhere(~batch.valid)[0]
    later = batch._replace(reward=batch.reward.copy())
    later.reward[t + 1 :, index] += 100
    changed = np.asarray(jitted(make().prepare)(state, later)[1].advantage).reshape(T, B)
    np.testing.assert_array_equal(changed[:t, index], np.asarray(samples.advantage).reshape(T, B)[:t, index])


# Acting.


@pytest.mark.parametrize("spaces", SPACES)
def test_acting(spaces):
    algorithm = make(spaces)
    state, observation, act = jitted(algorithm.init)(KEY), observations(VECTOR, 200), jitted(algorithm.act)
    space = SPACES[spaces].action
    keys, first = jax.random.split(KEY, 2), np.ones(200, bool)
    best = [act(state.policy, observation, (), first, key, 0.0) for key in keys]
    drawn = [act(state.policy, observation, (), first, key, algorithm.explore(0.5)) for key in keys]
    np.testing.assert_array_equal(best[0].action, best[1].action)
    assert (np.asarray(drawn[0].action) != np.asarray(drawn[1].action)).any()
    assert (drawn[0].extras["log_prob"] <= best[0].extras["log_prob"]).all()
    assert all(space.contains(np.asarray(action, space.dtype)) for action in drawn[0].action)


# Recurrent.


@pytest.mark.parametrize("recurrent", ["gru", "lstm"])
def test_recurrent_minibatches_are_whole_unrolls_with_the_memory_they_began_with(recurrent):
    state, _, _ = begun("discrete", recurrent)
    algorithm = make(network=small(recurrent=recurrent, orthogonal=False))
    assert algorithm.experience.whole and not make().experience.whole
    batch = trajectory(algorithm, state, VECTOR, T, B, seed=1)
    batch.first[0] = False
    memory = jax.tree.map(lambda leaf: leaf + np.arange(1.0, B + 1)[:, None], algorithm.memory(B))
    act, log_probs, now = jitted(algorithm.act), [], memory
    for t in range(T):
        step = act(state.policy, batch.observation[t], now, batch.first[t], jax.random.fold_in(KEY, t), 1.0)
        batch.action[t], now = step.raw, step.memory
        log_probs.append(np.asarray(step.extras["log_prob"]))
    batch = batch._replace(memory=memory, extras={**batch.extras, "log_prob": np.stack(log_probs)})
    _, samples = jitted(algorithm.prepare)(state, batch)
    assert samples.observation.shape == (B, T, 3) and samples.advantage.shape == (B, T)
    minibatches = shuffled(samples, B, jax.random.key(5))
    for index in range(B):
        metrics = gradients(algorithm, state, take(minibatches, index))[1]
        np.testing.assert_allclose(metrics["divergence"], 0, atol=1e-6)
    misaligned = samples._replace(memory=jax.tree.map(lambda leaf: leaf[::-1], samples.memory))
    assert gradients(algorithm, state, misaligned)[1]["divergence"] > 1e-5
