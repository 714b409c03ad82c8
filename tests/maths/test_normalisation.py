"""Normalisation of observations and rewards along trajectories."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from weft.maths.normalisation import Normaliser
from weft.types import Trajectory

T, B = 6, 2
EVERYTHING = Normaliser(observations=True, clip_observations=None, rewards=True, clip_rewards=None)
NOTHING = Normaliser(observations=False, clip_observations=10.0, rewards=False, clip_rewards=None)


def trajectory(seed: int = 0, final: bool = False, scale: float = 3.0) -> Trajectory:
    random = np.random.default_rng(seed)
    valid = np.ones((T, B), bool)
    valid[2, 1] = valid[4, 0] = False
    return Trajectory(
        observation=random.normal(5, scale, (T + 1, B, 3)).astype(np.float32),
        first=np.zeros((T + 1, B), bool),
        action=np.zeros((T, B), np.int32),
        reward=random.normal(1, scale, (T, B)).astype(np.float32),
        discount=np.ones((T, B), np.float32),
        valid=valid,
        extras={"running_return": random.normal(0, scale, (T, B)).astype(np.float32)},
        memory=(),
        final=random.normal(5, scale, (T, B, 3)).astype(np.float32) if final else None,
    )


def test_only_real_steps_are_learned_from():
    batch = trajectory()
    observation, returns = EVERYTHING.updated(EVERYTHING.initial(jnp.zeros(3)), batch)
    seen, running = batch.observation[:-1][batch.valid], batch.extras["running_return"][batch.valid]
    assert observation[0].count == returns.count == 2 * T - 2
    np.testing.assert_allclose(observation[0].mean, seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(observation[0].variance, seen.var(0), rtol=1e-4)
    np.testing.assert_allclose(returns.variance, running.var(), rtol=1e-4)


@pytest.mark.parametrize("final", [False, True])
def test_observations_as_they_were_acted_on_and_rewards_by_the_newest_statistics(final):
    before = EVERYTHING.updated(EVERYTHING.initial(jnp.zeros(3)), trajectory(1))
    batch = trajectory(2, final)
    after, normalised = jax.jit(EVERYTHING.trajectory)(before, batch)
    mean, std = np.asarray(before.observation[0].mean), np.sqrt(before.observation[0].variance)
    np.testing.assert_allclose(normalised.observation, (batch.observation - mean) / std, rtol=1e-4, atol=1e-5)
    acted_on = EVERYTHING.observation(before, batch.observation)
    np.testing.assert_allclose(normalised.observation, acted_on, rtol=1e-5, atol=1e-6)
    if final:
        np.testing.assert_allclose(normalised.final, (batch.final - mean) / std, rtol=1e-4, atol=1e-5)
    else:
        assert normalised.final is None
    np.testing.assert_allclose(normalised.reward, batch.reward / np.sqrt(after.returns.variance), rtol=1e-4)
    assert after.returns.count == before.returns.count + 2 * T - 2


def test_rewards_are_never_shifted_and_are_clipped_after_scaling():
    normaliser = Normaliser(observations=False, clip_observations=None, rewards=True, clip_rewards=0.5)
    batch = trajectory()
    statistics, normalised = normaliser.trajectory(normaliser.initial(jnp.zeros(3)), batch)
    scaled = batch.reward / np.sqrt(statistics.returns.variance)
    assert (np.abs(scaled) > 0.5).any()
    np.testing.assert_allclose(normalised.reward, np.clip(scaled, -0.5, 0.5), rtol=1e-4)
    assert (np.sign(normalised.reward) == np.sign(batch.reward)).all()


def test_rewards_can_be_clipped_without_scaling():
    clips = Normaliser(observations=False, clip_observations=None, rewards=False, clip_rewards=1.0)
    _, normalised = clips.trajectory(clips.initial(jnp.zeros(3)), trajectory())
    np.testing.assert_allclose(normalised.reward, np.clip(trajectory().reward, -1, 1), rtol=1e-6)


def test_what_is_not_normalised_is_left_alone():
    batch = trajectory(final=True)
    statistics, same = NOTHING.trajectory(NOTHING.initial(jnp.zeros(3)), batch)
    assert statistics.observation == () and statistics.returns.count == 0
    assert same.observation is batch.observation and same.final is batch.final and same.reward is batch.reward
