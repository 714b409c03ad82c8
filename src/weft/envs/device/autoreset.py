"""A batch of device environments in weft's canonical form: time limits and automatic resets as pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from weft.envs.base import DeviceEnvironment
from weft.types import Timestep, Tree


class Carry(NamedTuple):
    """All that B environments need to continue; arrays only, so it can be scanned, saved and moved."""

    state: Tree
    """[B, ...] states of the environments."""
    key: jax.Array
    """[B] one constant random key for each environment; every draw is derived from it and the two counters."""
    episode: jax.Array
    """[B] int32, episodes finished."""
    elapsed: jax.Array
    """[B] int32, actions taken in the current episode."""
    last: jax.Array
    """[B] bool, the current timestep ends the episode."""


@dataclass(frozen=True)
class AutoReset:
    """``number`` copies of an environment that begin a new episode by themselves (see ``weft.types.Timestep``).

    Both functions are pure and may be used inside ``jit``, ``scan`` and ``vmap``.
    """

    environment: DeviceEnvironment
    number: int

    def init(self, key: jax.Array) -> tuple[Carry, Timestep]:
        """Begin an episode in every environment; each draws its own random stream from ``key``."""
        keys = jax.random.split(key, self.number)
        count = jnp.zeros(self.number, jnp.int32)
        no = jnp.zeros(self.number, bool)
        state, observation = self._begin(keys, count)
        reward = jnp.zeros(self.number, jnp.float32)
        timestep = Timestep(observation, reward, discount=reward + 1, first=~no, last=no)
        return Carry(state, keys, episode=count, elapsed=count, last=no), timestep

    def step(self, carry: Carry, action: Tree) -> tuple[Carry, Timestep]:
        """Act ([B, ...]) in every environment, or begin its next episode where the last timestep ended one."""
        first = carry.last
        keys = jax.vmap(_step_key)(carry.key, carry.episode, carry.elapsed)
        state, observation, reward, terminated = jax.vmap(self.environment.step)(carry.state, action, keys)
        episode = carry.episode + first
        elapsed = jnp.where(first, 0, carry.elapsed + 1)
        last = ~first & (terminated | self._out_of_time(elapsed))

        def renew(ongoing: tuple[Tree, Tree]) -> tuple[Tree, Tree]:
            return _where(first, self._begin(carry.key, episode), ongoing)

        def renew_if_any(ongoing: tuple[Tree, Tree]) -> tuple[Tree, Tree]:
            return jax.lax.cond(first.any(), renew, lambda ongoing: ongoing, ongoing)

        # A reset draws random numbers, which on a CPU costs more than most steps: nothing is drawn while no
        # environment needs it. On an accelerator the draws are almost free and a branch would wait for the host.
        state, observation = jax.lax.platform_dependent((state, observation), cpu=renew_if_any, default=renew)
        timestep = Timestep(
            observation=observation,
            reward=jnp.where(first, 0.0, reward).astype(jnp.float32),
            discount=jnp.where(terminated & ~first, 0.0, 1.0).astype(jnp.float32),
            first=first,
            last=last,
        )
        return Carry(state, carry.key, episode, elapsed, last), timestep

    def _begin(self, keys: jax.Array, episode: jax.Array) -> tuple[Tree, Tree]:
        return jax.vmap(self.environment.reset)(jax.vmap(_reset_key)(keys, episode))

    def _out_of_time(self, elapsed: jax.Array) -> jax.Array | bool:
        limit = self.environment.time_limit
        return False if limit is None else elapsed >= limit


def _reset_key(key: jax.Array, episode: jax.Array) -> jax.Array:
    return jax.random.fold_in(key, 2 * episode)


def _step_key(key: jax.Array, episode: jax.Array, elapsed: jax.Array) -> jax.Array:
    # Odd counters: never a key that a reset has drawn from.
    return jax.random.fold_in(jax.random.fold_in(key, 2 * episode + 1), elapsed)


def _where(condition: jax.Array, chosen: Tree, otherwise: Tree) -> Tree:
    """Choose whole rows of trees of [B, ...] arrays by ``condition`` [B]."""

    def choose(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, chosen, otherwise)
