"""The policy adapter: the heads that turn features into what an algorithm needs.

Each function returns a ``Head``: how to build the layer once the number of features is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx

from weft.networks.action import ActionAdapter
from weft.networks.layers import linear

Head: TypeAlias = Callable[[int, nnx.Rngs, bool], nnx.Module]
"""(features, rngs, orthogonal) -> module, which maps [..., features] to the head's output"""

POLICY_GAIN = 0.01
"""Makes the first policy nearly uniform, which matters most of PPO's details (Andrychowicz et al., 2021)."""
VALUE_GAIN = 1.0


class StochasticHead(nnx.Module):
    """Outputs for ``adapter.distribution``: [..., features] -> [..., adapter.size].

    Log standard deviations of continuous actions are parameters of their own, begin at 0 and do not depend on the
    state, unless ``state_dependent``.
    """

    def __init__(
        self, features: int, adapter: ActionAdapter, state_dependent: bool, *, rngs: nnx.Rngs, orthogonal: bool
    ) -> None:
        outputs = adapter.size if state_dependent else adapter.locations
        self.linear = linear(features, outputs, rngs=rngs, orthogonal=orthogonal, gain=POLICY_GAIN)
        self.log_std = None if outputs == adapter.size else nnx.Param(jnp.zeros(adapter.scales))

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., features] -> [..., adapter.size]."""
        outputs = self.linear(x)
        if self.log_std is None:
            return outputs
        log_std = self.log_std[...]
        return jnp.concatenate([outputs, jnp.broadcast_to(log_std, outputs.shape[:-1] + log_std.shape)], axis=-1)


class DeterministicHead(nnx.Module):
    """Raw actions in [-1, 1]: [..., features] -> [..., size]."""

    def __init__(self, features: int, size: int, *, rngs: nnx.Rngs, orthogonal: bool) -> None:
        self.linear = linear(features, size, rngs=rngs, orthogonal=orthogonal, gain=POLICY_GAIN)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., features] -> [..., size]."""
        return jnp.tanh(self.linear(x))


class ValueHead(nnx.Module):
    """A state's value, [..., features] -> [...]."""

    def __init__(self, features: int, *, rngs: nnx.Rngs, orthogonal: bool) -> None:
        self.linear = linear(features, 1, rngs=rngs, orthogonal=orthogonal, gain=VALUE_GAIN)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., features] -> [...]."""
        return self.linear(x)[..., 0]


class DuelingHead(nnx.Module):
    """Action values as a state's value plus centred advantages (Wang et al., 2016): [..., features] -> [..., n]."""

    def __init__(self, features: int, number: int, *, rngs: nnx.Rngs, orthogonal: bool) -> None:
        self.value = linear(features, 1, rngs=rngs, orthogonal=orthogonal, gain=VALUE_GAIN)
        self.advantage = linear(features, number, rngs=rngs, orthogonal=orthogonal, gain=VALUE_GAIN)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., features] -> [..., n]."""
        advantage = self.advantage(x)
        return self.value(x) + advantage - jnp.mean(advantage, axis=-1, keepdims=True)


class DistributionalHead(nnx.Module):
    """Logits or quantiles of each action's return: [..., features] -> [..., n, atoms]."""

    def __init__(self, features: int, number: int, atoms: int, *, rngs: nnx.Rngs, orthogonal: bool) -> None:
        self.number, self.atoms = number, atoms
        self.linear = linear(features, number * atoms, rngs=rngs, orthogonal=orthogonal, gain=VALUE_GAIN)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., features] -> [..., n, atoms]."""
        outputs = self.linear(x)
        return outputs.reshape(*outputs.shape[:-1], self.number, self.atoms)


def stochastic(adapter: ActionAdapter, *, state_dependent: bool = False) -> Head:
    """Head of a stochastic policy; ``adapter.distribution(output)`` is the policy."""
    return lambda features, rngs, orthogonal: StochasticHead(
        features, adapter, state_dependent, rngs=rngs, orthogonal=orthogonal
    )


def deterministic(size: int) -> Head:
    """Head of a deterministic policy over ``size`` continuous actions in [-1, 1]."""
    return lambda features, rngs, orthogonal: DeterministicHead(features, size, rngs=rngs, orthogonal=orthogonal)


def value() -> Head:
    """Head of a state's value, without a last axis."""
    return lambda features, rngs, orthogonal: ValueHead(features, rngs=rngs, orthogonal=orthogonal)


def action_values(number: int) -> Head:
    """Head of the values of ``number`` actions."""
    return lambda features, rngs, orthogonal: linear(
        features, number, rngs=rngs, orthogonal=orthogonal, gain=VALUE_GAIN
    )


def dueling(number: int) -> Head:
    """Head of the values of ``number`` actions as value plus advantage."""
    return lambda features, rngs, orthogonal: DuelingHead(features, number, rngs=rngs, orthogonal=orthogonal)


def distributional(number: int, atoms: int) -> Head:
    """Head of the return distributions of ``number`` actions, ``atoms`` numbers each."""
    return lambda features, rngs, orthogonal: DistributionalHead(
        features, number, atoms, rngs=rngs, orthogonal=orthogonal
    )
