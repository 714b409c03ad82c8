"""The canonical form, on an environment whose episodes are scripted by their own random draws."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.envs import device
from weft.envs.device.autoreset import AutoReset

NUMBER, STEPS = 5, 30


class State(NamedTuple):
    length: jax.Array
    tag: jax.Array
    elapsed: jax.Array


@dataclass(frozen=True)
class Scripted:
    """Terminates after 1 to 4 actions, shows everything, and pays what the action says."""

    name: ClassVar[str] = "Scripted"
    time_limit: int | None
    observation_space = gymnasium.spaces.Dict({})
    action_space = gymnasium.spaces.Box(-1, 1, ())

    def reset(self, key):
        length_key, tag_key = jax.random.split(key)
        state = State(jax.random.randint(length_key, (), 1, 5), jax.random.bits(tag_key), jnp.int32(0))
        return state, {"state": state, "noise": jnp.float32(0)}

    def step(self, state, action, key):
        state = state._replace(elapsed=state.elapsed + 1)
        noise = jax.random.uniform(key)
        return state, {"state": state, "noise": noise}, action, state.elapsed >= state.length

    def render(self, state):
        return None


def unroll(batch, key, actions):
    carry, first = batch.init(key)
    _, rest = jax.lax.scan(batch.step, carry, actions)
    return jax.tree.map(lambda head, tail: jnp.concatenate([head[None], tail]), first, rest)


@cache
def compiled(limit):
    return jax.jit(lambda key, actions: unroll(AutoReset(Scripted(limit), NUMBER), key, actions))


def stream(limit, seed, actions):
    return jax.tree.map(np.asarray, compiled(limit)(jax.random.key(seed), actions))


def random_actions(seed):
    return np.random.default_rng(seed).uniform(-1, 1, (STEPS, NUMBER)).astype(np.float32)


def assert_same(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


seeds = st.integers(0, 2**32 - 1)
limits = st.sampled_from([None, 1, 3])  # each is compiled once


@settings(deadline=None, max_examples=20)
@given(limits, seeds)
def test_stream_is_canonical(limit, seed):
    actions = random_actions(seed)
    timestep = stream(limit, seed, actions)
    state = timestep.observation["state"]
    first, last = timestep.first, timestep.last
    assert first[0].all()
    assert not (first & last).any()
    np.testing.assert_array_equal(first[1:], last[:-1])

    np.testing.assert_array_equal(timestep.reward[1:], np.where(first[1:], 0, actions))
    np.testing.assert_array_equal(timestep.reward[0], 0)
    np.testing.assert_array_equal(state.elapsed[first], 0)
    np.testing.assert_array_equal(state.elapsed[1:][~first[1:]], (state.elapsed[:-1] + 1)[~first[1:]])
    np.testing.assert_array_equal(state.tag[1:] != state.tag[:-1], first[1:])

    terminated = ~first & (state.elapsed >= state.length)
    truncated = ~first & (state.elapsed == limit)
    np.testing.assert_array_equal(timestep.discount, np.where(terminated, 0, 1))
    np.testing.assert_array_equal(last, terminated | truncated)
    assert timestep.reward.dtype == timestep.discount.dtype == np.float32


@settings(deadline=None, max_examples=20)
@given(limits, seeds)
def test_action_at_last_is_ignored(limit, seed):
    actions = random_actions(seed)
    timestep = stream(limit, seed, actions)
    other = np.where(timestep.last[:-1], np.float32(np.nan), actions)
    assert_same(stream(limit, seed, other), timestep)


@settings(deadline=None, max_examples=20)
@given(limits, seeds)
def test_every_episode_and_every_step_draws_its_own_randomness(limit, seed):
    timestep = stream(limit, seed, random_actions(seed))
    tags = timestep.observation["state"].tag[timestep.first]
    noises = timestep.observation["noise"][~timestep.first]
    assert len(set(tags)) == len(tags)
    assert len(set(noises)) > 0.99 * len(noises)


@settings(deadline=None, max_examples=10)
@given(limits, seeds)
def test_same_key_same_stream_other_key_other_stream(limit, seed):
    actions = random_actions(seed)
    timestep = stream(limit, seed, actions)
    assert_same(stream(limit, seed, actions), timestep)
    other = stream(limit, seed ^ 1, actions)
    assert not np.isin(other.observation["state"].tag, timestep.observation["state"].tag).any()


def test_all_lengths_occur_and_a_limit_of_one_truncates_the_longer_episodes():
    timestep = stream(1, 0, random_actions(0))
    state = timestep.observation["state"]
    assert set(state.length.flat) == {1, 2, 3, 4}
    np.testing.assert_array_equal(timestep.discount[timestep.last], (state.length > 1)[timestep.last])
    np.testing.assert_array_equal(timestep.last[1::2], True)


def test_step_by_step_and_vmap_give_the_same_stream_as_scan():
    batch, actions = AutoReset(Scripted(3), NUMBER), random_actions(0)
    expected = stream(3, 7, actions)
    step = jax.jit(batch.step)
    carry, timestep = jax.jit(batch.init)(jax.random.key(7))
    for t in range(STEPS):
        assert_same(timestep, jax.tree.map(lambda leaf, t=t: leaf[t], expected))
        carry, timestep = step(carry, actions[t])

    keys = jax.vmap(jax.random.key)(np.array([7, 8]))
    both = jax.jit(jax.vmap(lambda key: unroll(batch, key, actions)))(keys)
    assert_same(jax.tree.map(lambda leaf: leaf[0], both), expected)


@pytest.mark.parametrize("name", device.IDS)
def test_carry_keeps_its_types(name):
    """Otherwise a scan is refused, or a step compiled twice."""
    environment = device.make(name)
    batch = AutoReset(environment, 2)
    actions = np.stack([environment.action_space.sample()] * 2)
    carry, timestep = jax.eval_shape(batch.init, jax.random.key(0))
    next_carry, next_timestep = jax.eval_shape(batch.step, carry, actions)
    assert jax.tree.map(types, next_carry) == jax.tree.map(types, carry)
    assert jax.tree.map(types, next_timestep) == jax.tree.map(types, timestep)


def types(leaf):
    return leaf.shape, leaf.dtype, leaf.weak_type
