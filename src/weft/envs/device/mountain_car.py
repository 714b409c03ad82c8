"""MountainCar: reach the top of a hill with an engine too weak to climb it (Moore, 1990)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from weft.envs.device.picture import Picture


@dataclass(frozen=True)
class MountainCar:
    """Gymnasium's MountainCar-v0. State and observation: [2] position and velocity."""

    name: ClassVar[str] = "MountainCar-v0"
    time_limit: int | None = 200
    force: float = 0.001
    gravity: float = 0.0025
    left_end: float = -1.2
    right_end: float = 0.6
    speed_limit: float = 0.07
    goal: float = 0.5

    @cached_property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Position and velocity."""
        low = np.array([self.left_end, -self.speed_limit], np.float32)
        high = np.array([self.right_end, self.speed_limit], np.float32)
        return gymnasium.spaces.Box(low, high)

    @cached_property
    def action_space(self) -> gymnasium.Space:
        """Push to the left, not at all, or to the right."""
        return gymnasium.spaces.Discrete(3)

    def reset(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Begin at rest in the valley."""
        position = jax.random.uniform(key, minval=-0.6, maxval=-0.4)
        state = jnp.stack([position, jnp.float32(0)])
        return state, state

    def step(
        self, state: jax.Array, action: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """One step; the reward is always -1."""
        state, terminated = self._drive(state, (action - 1) * self.force)
        return state, state, jnp.float32(-1), terminated

    def _drive(self, state: jax.Array, push: jax.Array) -> tuple[jax.Array, jax.Array]:
        position, velocity = state
        velocity = velocity + push - self.gravity * jnp.cos(3 * position)
        velocity = jnp.clip(velocity, -self.speed_limit, self.speed_limit)
        position = jnp.clip(position + velocity, self.left_end, self.right_end)
        velocity = jnp.where((position == self.left_end) & (velocity < 0), 0.0, velocity)
        return jnp.stack([position, velocity]), (position >= self.goal) & (velocity >= 0)

    def render(self, state: np.ndarray) -> np.ndarray:
        """Draw the hill, the flag and the car."""
        picture = Picture(width=480, height=360, left=self.left_end, right=self.right_end, bottom=-0.05)
        picture.fill((_height(picture.x) - picture.y) / np.hypot(1, _slope(picture.x)), "green")

        top = _height(self.goal)
        picture.line((self.goal, top), (self.goal, top + 0.2), 0.01, "ink")
        picture.line((self.goal - 0.04, top + 0.18), (self.goal, top + 0.18), 0.05, "red")

        position = state[0]
        road = np.array([position, _height(position)])
        along = np.array([1, _slope(position)]) / np.hypot(1, _slope(position))
        up = np.array([-along[1], along[0]])
        body = road + 0.055 * up
        picture.line(body - 0.04 * along, body + 0.04 * along, 0.05, "ink")
        for side in (-0.035, 0.035):
            picture.disc(road + 0.022 * up + side * along, 0.022, "orange")
        return picture.pixels()


@dataclass(frozen=True)
class MountainCarContinuous(MountainCar):
    """Gymnasium's MountainCarContinuous-v0: the engine takes any force in [-1, 1]; fuel costs, the goal pays 100."""

    name: ClassVar[str] = "MountainCarContinuous-v0"
    time_limit: int | None = 999
    force: float = 0.0015
    goal: float = 0.45

    @cached_property
    def action_space(self) -> gymnasium.Space:
        """How hard to push, [1]."""
        return gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def step(
        self, state: jax.Array, action: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """One step; the reward is 100 at the goal less a tenth of the squared action."""
        state, terminated = self._drive(state, jnp.clip(action[0], -1, 1) * self.force)
        reward = jnp.where(terminated, 100.0, 0.0) - 0.1 * action[0] ** 2
        return state, state, reward, terminated


def _height(x: Any) -> Any:
    return 0.45 * np.sin(3 * x) + 0.55


def _slope(x: Any) -> Any:
    return 1.35 * np.cos(3 * x)
