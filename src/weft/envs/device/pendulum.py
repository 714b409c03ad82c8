"""Pendulum: swing up and hold a pendulum with a motor too weak to lift it at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from weft.envs.device.picture import Picture


@dataclass(frozen=True)
class Pendulum:
    """Gymnasium's Pendulum-v1. State: [2] angle from upright, velocity. Observation: [3] cosine, sine, velocity."""

    name: ClassVar[str] = "Pendulum-v1"
    time_limit: int | None = 200
    gravity: float = 10.0
    mass: float = 1.0
    length: float = 1.0
    time_step: float = 0.05
    speed_limit: float = 8.0
    torque_limit: float = 2.0

    @cached_property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Cosine, sine and velocity."""
        high = np.array([1, 1, self.speed_limit], np.float32)
        return gymnasium.spaces.Box(-high, high)

    @cached_property
    def action_space(self) -> gymnasium.spaces.Box:
        """The torque, [1]."""
        return gymnasium.spaces.Box(-self.torque_limit, self.torque_limit, (1,), np.float32)

    def reset(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Begin at any angle, slowly."""
        high = jnp.array([math.pi, 1.0])
        state = jax.random.uniform(key, (2,), minval=-high, maxval=high)
        return state, _observe(state)

    def step(
        self, state: jax.Array, action: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """One semi-implicit Euler step; the reward punishes angle, velocity and torque; it never terminates."""
        theta, theta_dot = state
        torque = jnp.clip(action[0], -self.torque_limit, self.torque_limit)
        from_upright = (theta + math.pi) % (2 * math.pi) - math.pi
        reward = -(from_upright**2 + 0.1 * theta_dot**2 + 0.001 * torque**2)

        acceleration = 3 * self.gravity / (2 * self.length) * jnp.sin(theta) + 3 * torque / (self.mass * self.length**2)
        theta_dot = jnp.clip(theta_dot + self.time_step * acceleration, -self.speed_limit, self.speed_limit)
        state = jnp.stack([theta + self.time_step * theta_dot, theta_dot])
        return state, _observe(state), reward, jnp.bool_(False)

    def render(self, state: np.ndarray) -> np.ndarray:
        """Draw the pendulum."""
        theta, _ = state
        edge = 1.3 * self.length
        picture = Picture(width=400, height=400, left=-edge, right=edge, bottom=-edge)
        picture.line((0, 0), self.length * np.array([-math.sin(theta), math.cos(theta)]), 0.18, "orange")
        picture.disc((0, 0), 0.05, "ink")
        return picture.pixels()


def _observe(state: jax.Array) -> jax.Array:
    theta, theta_dot = state
    return jnp.stack([jnp.cos(theta), jnp.sin(theta), theta_dot])
