"""Acrobot: swing the end of a two-link arm above a line, with torque at the elbow only (Sutton, 1996)."""

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
class Acrobot:
    """Gymnasium's Acrobot-v1, the equations of Sutton and Barto's book; both links are alike.

    State: [4] angle of the first link from hanging down, angle of the second relative to it, their velocities.
    Observation: [6] cosine and sine of each angle, the velocities.
    """

    name: ClassVar[str] = "Acrobot-v1"
    time_limit: int | None = 500
    gravity: float = 9.8
    length: float = 1.0
    mass: float = 1.0
    centre: float = 0.5
    inertia: float = 1.0
    time_step: float = 0.2
    first_speed_limit: float = 4 * math.pi
    second_speed_limit: float = 9 * math.pi

    @cached_property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Cosines, sines and velocities."""
        high = np.array([1, 1, 1, 1, self.first_speed_limit, self.second_speed_limit], np.float32)
        return gymnasium.spaces.Box(-high, high)

    @cached_property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """A torque of -1, 0 or 1."""
        return gymnasium.spaces.Discrete(3)

    def reset(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Begin hanging down, almost at rest."""
        state = jax.random.uniform(key, (4,), minval=-0.1, maxval=0.1)
        return state, _observe(state)

    def step(
        self, state: jax.Array, action: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """One Runge-Kutta step; the reward is -1 until the end is up."""
        torque = action - 1.0
        h = self.time_step
        k1 = self._derivative(state, torque)
        k2 = self._derivative(state + h / 2 * k1, torque)
        k3 = self._derivative(state + h / 2 * k2, torque)
        k4 = self._derivative(state + h * k3, torque)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        angles = (state[:2] + math.pi) % (2 * math.pi) - math.pi
        fastest = jnp.array([self.first_speed_limit, self.second_speed_limit])
        state = jnp.concatenate([angles, jnp.clip(state[2:], -fastest, fastest)])
        terminated = -jnp.cos(angles[0]) - jnp.cos(angles.sum()) > 1.0
        return state, _observe(state), jnp.where(terminated, 0.0, -1.0), terminated

    def _derivative(self, state: jax.Array, torque: jax.Array) -> jax.Array:
        """Equations of motion, [4] -> [4]."""
        theta1, theta2, theta1_dot, theta2_dot = state
        m, l, c, inertia, g = self.mass, self.length, self.centre, self.inertia, self.gravity  # noqa: E741
        coupling = m * l * c * jnp.sin(theta2)

        d2 = m * (c**2 + l * c * jnp.cos(theta2)) + inertia
        d1 = d2 + m * (c**2 + l**2 + l * c * jnp.cos(theta2)) + inertia
        phi2 = m * c * g * jnp.sin(theta1 + theta2)
        phi1 = -coupling * theta2_dot * (theta2_dot + 2 * theta1_dot) + m * (c + l) * g * jnp.sin(theta1) + phi2

        theta2_acceleration = (torque + d2 / d1 * phi1 - coupling * theta1_dot**2 - phi2) / (
            m * c**2 + inertia - d2**2 / d1
        )
        theta1_acceleration = -(d2 * theta2_acceleration + phi1) / d1
        return jnp.stack([theta1_dot, theta2_dot, theta1_acceleration, theta2_acceleration])

    def render(self, state: np.ndarray) -> np.ndarray:
        """Draw the two links and the line to reach."""
        theta1, theta2, _, _ = state
        edge = 2.3 * self.length
        picture = Picture(width=400, height=400, left=-edge, right=edge, bottom=-edge)
        elbow = self.length * np.array([math.sin(theta1), -math.cos(theta1)])
        end = elbow + self.length * np.array([math.sin(theta1 + theta2), -math.cos(theta1 + theta2)])
        picture.line((-9, self.length), (9, self.length), 0.02, "grey")
        picture.line((0, 0), elbow, 0.18, "blue")
        picture.line(elbow, end, 0.18, "orange")
        picture.disc((0, 0), 0.06, "ink")
        picture.disc(elbow, 0.06, "ink")
        return picture.pixels()


def _observe(state: jax.Array) -> jax.Array:
    theta1, theta2, theta1_dot, theta2_dot = state
    return jnp.stack([jnp.cos(theta1), jnp.sin(theta1), jnp.cos(theta2), jnp.sin(theta2), theta1_dot, theta2_dot])
