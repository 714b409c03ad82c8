"""CartPole: balance a pole that is hinged to a cart (Barto, Sutton and Anderson, 1983)."""

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

ANGLE_LIMIT = 12 * math.pi / 180


@dataclass(frozen=True)
class CartPole:
    """Gymnasium's CartPole-v1. State and observation: [4] position, velocity, angle, angular velocity."""

    name: ClassVar[str] = "CartPole-v1"
    time_limit: int | None = 500
    gravity: float = 9.8
    cart_mass: float = 1.0
    pole_mass: float = 0.1
    half_length: float = 0.5
    force: float = 10.0
    time_step: float = 0.02
    position_limit: float = 2.4
    angle_limit: float = ANGLE_LIMIT

    @cached_property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Twice the limits, so that failing observations are inside."""
        high = np.array([2 * self.position_limit, np.inf, 2 * self.angle_limit, np.inf], np.float32)
        return gymnasium.spaces.Box(-high, high)

    @cached_property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """Push to the left or to the right."""
        return gymnasium.spaces.Discrete(2)

    def reset(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Begin near the middle, almost upright and at rest."""
        state = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return state, self.observe(state)

    def step(
        self, state: jax.Array, action: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """One explicit Euler step; the reward is 1 until, and with, the step that fails."""
        _, x_dot, theta, theta_dot = state
        cosine, sine = jnp.cos(theta), jnp.sin(theta)
        total_mass = self.cart_mass + self.pole_mass
        moment = self.pole_mass * self.half_length

        push = jnp.where(action == 1, self.force, -self.force)
        pushed = (push + moment * theta_dot**2 * sine) / total_mass
        theta_acceleration = (self.gravity * sine - cosine * pushed) / (
            self.half_length * (4 / 3 - self.pole_mass * cosine**2 / total_mass)
        )
        x_acceleration = pushed - moment * theta_acceleration * cosine / total_mass

        state = state + self.time_step * jnp.stack([x_dot, x_acceleration, theta_dot, theta_acceleration])
        terminated = (jnp.abs(state[0]) > self.position_limit) | (jnp.abs(state[2]) > self.angle_limit)
        return state, self.observe(state), jnp.float32(1), terminated

    def observe(self, state: jax.Array) -> jax.Array:
        """Show the whole state."""
        return state

    def render(self, state: np.ndarray) -> np.ndarray:
        """Draw the track, the cart and the pole."""
        x, _, theta, _ = state
        picture = Picture(width=480, height=320, left=-self.position_limit, right=self.position_limit, bottom=-0.7)
        cart = np.array([x, 0.0])
        tip = cart + 2 * self.half_length * np.array([math.sin(theta), math.cos(theta)])
        picture.line((-9, -0.15), (9, -0.15), 0.02, "ink")
        picture.line((x - 0.2, 0), (x + 0.2, 0), 0.25, "ink")
        picture.line(cart, tip, 0.1, "orange")
        picture.disc(cart, 0.05, "blue")
        return picture.pixels()


@dataclass(frozen=True)
class CartPoleNoVelocity(CartPole):
    """CartPole that shows the position and the angle only, so that balancing needs memory. Observation: [2]."""

    name: ClassVar[str] = "CartPole-no-velocity"

    @cached_property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Twice the limits, so that failing observations are inside."""
        high = np.array([2 * self.position_limit, 2 * self.angle_limit], np.float32)
        return gymnasium.spaces.Box(-high, high)

    def observe(self, state: jax.Array) -> jax.Array:
        """Show the position and the angle."""
        return state[::2]
