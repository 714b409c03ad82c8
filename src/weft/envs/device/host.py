"""A device environment served from Python: numpy in and out, one compiled call for each step of the batch."""

from __future__ import annotations

import jax
import numpy as np

from weft.envs.base import DeviceEnvironment
from weft.envs.device.autoreset import AutoReset, Carry
from weft.types import Spaces, Timestep, Tree


class DeviceHost:
    """A batch of a device environment as a host ``Environment``.

    It is computed on the CPU: whoever steps from Python wants each answer at once, and a step is too little work to
    be worth the way to an accelerator.
    """

    delivers_final = False

    def __init__(self, environment: DeviceEnvironment, number: int = 1) -> None:
        self.name = environment.name
        self.number = number
        self.spaces = Spaces(environment.observation_space, environment.action_space)
        self._environment = environment
        self._device = jax.local_devices(backend="cpu")[0]
        batch = AutoReset(environment, number)
        self._init = jax.jit(batch.init)
        self._step = jax.jit(batch.step)
        self._carry: Carry
        self._timestep: Timestep

    def reset(self, seed: int) -> Timestep:
        """Begin new episodes everywhere; the same seed gives the same episodes."""
        return self._show(*self._init(jax.device_put(jax.random.key(seed), self._device)))

    def step(self, action: Tree) -> Timestep:
        """Act in every environment; ``action`` is ``[B, ...]``, nested like the action space."""
        return self._show(*self._step(self._carry, action))

    def render(self) -> np.ndarray | None:
        """Return a picture of the first environment, [height, width, 3] uint8."""
        return self._environment.render(jax.tree.map(lambda leaf: np.asarray(leaf[0]), self._carry.state))

    def save(self) -> Tree:
        """Return the carry and the current timestep as a tree of numpy arrays."""
        carry = self._carry._replace(key=jax.random.key_data(self._carry.key))
        return jax.tree.map(np.array, (tuple(carry), self._timestep))

    def restore(self, saved: Tree) -> Timestep:
        """Continue from what ``save`` returned; gives the timestep that was current then."""
        carry, timestep = Carry(*saved[0]), Timestep(*saved[1])
        carry = carry._replace(key=jax.random.wrap_key_data(carry.key))
        return self._show(jax.device_put(carry, self._device), timestep)

    def close(self) -> None:
        """Nothing to release."""

    def _show(self, carry: Carry, timestep: Timestep) -> Timestep:
        self._carry = carry
        self._timestep = jax.tree.map(np.asarray, timestep)
        return self._timestep
