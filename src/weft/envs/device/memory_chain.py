"""MemoryChain: remember one bit for n steps (bsuite's memory_len: Osband et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from weft.envs.device.picture import board
from weft.errors import WeftError


class State(NamedTuple):
    """int32 scalars."""

    bit: jax.Array
    elapsed: jax.Array


@dataclass(frozen=True)
class MemoryChain:
    """bsuite's memory_len: the last of ``length + 1`` actions earns +1 if it names the bit, otherwise -1.

    Observation: [2] float32, the share of time left and, at first, the bit as -1 or 1 (later 0). As in bsuite, the
    observation after the first action repeats the one before it.
    """

    name: ClassVar[str] = "MemoryChain"
    time_limit: int | None = None
    length: int = 10

    def __post_init__(self) -> None:
        if self.length < 1:
            raise WeftError(f"The length of MemoryChain is at least 1, not {self.length}.")

    @cached_property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Time left and bit."""
        return gymnasium.spaces.Box(np.array([0, -1], np.float32), np.array([1, 1], np.float32))

    @cached_property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """The bit."""
        return gymnasium.spaces.Discrete(2)

    def reset(self, key: jax.Array) -> tuple[State, jax.Array]:
        """Draw the bit and show it."""
        state = State(jax.random.bernoulli(key).astype(jnp.int32), jnp.int32(0))
        return state, self._observe(state)

    def step(self, state: State, action: jax.Array, key: jax.Array) -> tuple[State, jax.Array, jax.Array, jax.Array]:
        """Wait, and judge the action when the time is over."""
        state = State(state.bit, state.elapsed + 1)
        terminated = state.elapsed > self.length
        reward = jnp.where(terminated, jnp.where(action == state.bit, 1.0, -1.0), 0.0)
        return state, self._observe(state), reward, terminated

    def _observe(self, state: State) -> jax.Array:
        shown_time = jnp.maximum(state.elapsed - 1, 0)
        shown_bit = jnp.where(shown_time == 0, 2 * state.bit - 1, 0)
        return jnp.stack([(self.length - shown_time) / self.length, shown_bit]).astype(jnp.float32)

    def render(self, state: State) -> np.ndarray:
        """Draw the chain: the bit by the colour of its first link, the time by the dark one."""
        links: list[str | None] = [None] * (self.length + 2)
        links[int(state.elapsed)] = "ink"
        return board([["orange" if state.bit else "blue"] * len(links), links], cell=max(8, 480 // len(links) // 2 * 2))
