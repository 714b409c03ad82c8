"""Distributions over actions: frozen records of head outputs, batched over any leading dimensions.

Every record is a pytree with the four methods of ``Distribution``. Discrete ones draw by inverting the cumulative
distribution with a single uniform number per choice, which costs one random draw where the Gumbel trick costs one
per category.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from weft.networks import noise
from weft.types import Tree

record = jax.tree_util.register_dataclass
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Distribution(Protocol):
    """What every distribution can do; the batch dimensions [...] are those of its parameters."""

    def sample(self, key: jax.Array) -> Tree:
        """Draw one action for every element of the batch, [..., *action]."""

    def mode(self) -> Tree:
        """Return the most likely action (of a squashed normal: its median), [..., *action]."""

    def log_prob(self, action: Tree) -> jax.Array:
        """Return the log-probability (or log-density) of ``action``, [...]."""

    def entropy(self) -> jax.Array:
        """Return the entropy in nats, [...]."""


def _choose(logits: jax.Array, key: jax.Array) -> jax.Array:
    """Draw an index from ``logits`` [..., n]; a category of probability 0 is never drawn."""
    weights = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
    cumulative = jnp.cumsum(weights, axis=-1)
    threshold = noise.uniform(key, (*logits.shape[:-1], 1)) * cumulative[..., -1:]
    return jnp.sum(cumulative <= threshold, axis=-1, dtype=jnp.int32)


def _log_probability(logits: jax.Array, index: jax.Array) -> jax.Array:
    """Return log softmax(logits) [..., n] at ``index`` [...]; written without a gather, whose gradient is slow."""
    chosen = jnp.arange(logits.shape[-1]) == index[..., None]
    return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(logits), 0.0), axis=-1)


def _entropy(logits: jax.Array) -> jax.Array:
    """Return the entropy of softmax(logits) over the last axis; logits of -inf count as 0, with finite gradients."""
    log_probability = jax.nn.log_softmax(logits)
    possible = log_probability > -jnp.inf
    return -jnp.sum(jax.nn.softmax(logits) * jnp.where(possible, log_probability, 0.0), axis=-1)


@record
@dataclass(frozen=True)
class Categorical:
    """One of n choices; ``logits`` [..., n], -inf for a choice that is not allowed. Actions are int32 [...]."""

    logits: jax.Array

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw choices."""
        return _choose(self.logits, key)

    def mode(self) -> jax.Array:
        """Return the most likely choices."""
        return jnp.argmax(self.logits, axis=-1).astype(jnp.int32)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return the log-probability of the choices."""
        return _log_probability(self.logits, action)

    def entropy(self) -> jax.Array:
        """Return the entropy."""
        return _entropy(self.logits)


@record
@dataclass(frozen=True)
class MultiCategorical:
    """Independent choices, laid out as ``shape``; ``logits`` [..., K, n] with K = prod(shape).

    Choices with fewer than n categories are filled up with logits of -inf. Actions are int32 [..., *shape].
    """

    logits: jax.Array
    shape: tuple[int, ...] = field(metadata={"static": True})

    @classmethod
    def of(cls, outputs: jax.Array, sizes: np.ndarray) -> MultiCategorical:
        """Build it from concatenated logits [..., sum(sizes)], where ``sizes`` counts the categories of each choice."""
        width = int(sizes.max())
        inside = np.arange(width) < sizes.reshape(-1, 1)
        if inside.all():
            return cls(outputs.reshape(*outputs.shape[:-1], sizes.size, width), sizes.shape)
        source = np.where(inside, np.cumsum(inside).reshape(inside.shape) - 1, 0)
        return cls(jnp.where(inside, outputs[..., source], -jnp.inf), sizes.shape)

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw choices."""
        return _shaped(_choose(self.logits, key), self.shape)

    def mode(self) -> jax.Array:
        """Return the most likely choices."""
        return _shaped(jnp.argmax(self.logits, axis=-1).astype(jnp.int32), self.shape)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return the log-probability of all choices together."""
        return jnp.sum(_log_probability(self.logits, _flat(action, self.shape)), axis=-1)

    def entropy(self) -> jax.Array:
        """Return the entropy of all choices together."""
        return jnp.sum(_entropy(self.logits), axis=-1)


@record
@dataclass(frozen=True)
class Bernoulli:
    """Independent bits, laid out as ``shape``; ``logits`` [..., prod(shape)] of a 1. Actions are int8 [..., *shape]."""

    logits: jax.Array
    shape: tuple[int, ...] = field(metadata={"static": True})

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw bits."""
        uniform = noise.uniform(key, self.logits.shape)
        return _shaped((uniform < jax.nn.sigmoid(self.logits)).astype(jnp.int8), self.shape)

    def mode(self) -> jax.Array:
        """Return the most likely bits."""
        return _shaped((self.logits > 0).astype(jnp.int8), self.shape)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return the log-probability of all bits together."""
        signed = jnp.where(_flat(action, self.shape) > 0, self.logits, -self.logits)
        return jnp.sum(jax.nn.log_sigmoid(signed), axis=-1)

    def entropy(self) -> jax.Array:
        """Return the entropy of all bits together; certain bits (logits of +-inf) have none."""
        size = jnp.abs(self.logits)
        size = jnp.where(jnp.isfinite(size), size, jnp.finfo(size.dtype).max)
        return jnp.sum(jax.nn.softplus(-size) + size * jax.nn.sigmoid(-size), axis=-1)


@record
@dataclass(frozen=True)
class DiagonalNormal:
    """Independent normals, laid out as ``shape``; ``mean`` [..., prod(shape)], ``log_std`` of the same shape.

    Where the log standard deviation does not depend on the state, it broadcasts. Actions are float32 [..., *shape].
    """

    mean: jax.Array
    log_std: jax.Array
    shape: tuple[int, ...] = field(metadata={"static": True})

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw actions; differentiable in the parameters (the reparameterisation of Kingma & Welling, 2014)."""
        return _shaped(self._draw(key), self.shape)

    def mode(self) -> jax.Array:
        """Return the means."""
        return _shaped(self.mean, self.shape)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return the log-density of all components together."""
        return jnp.sum(self._log_density(_flat(action, self.shape)), axis=-1)

    def entropy(self) -> jax.Array:
        """Return the entropy of all components together."""
        return jnp.sum(jnp.broadcast_to(self.log_std, self.mean.shape) + 0.5 + _HALF_LOG_TWO_PI, axis=-1)

    def _draw(self, key: jax.Array) -> jax.Array:
        return self.mean + jnp.exp(self.log_std) * noise.normal(key, self.mean.shape)

    def _log_density(self, flat: jax.Array) -> jax.Array:
        standard = (flat - self.mean) * jnp.exp(-self.log_std)
        return -0.5 * jnp.square(standard) - self.log_std - _HALF_LOG_TWO_PI


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = (_WEIGHTS / _WEIGHTS.sum()).astype(np.float32)
_NODES = _NODES.astype(np.float32)


@record
@dataclass(frozen=True)
class TanhNormal(DiagonalNormal):
    """The tanh of a ``DiagonalNormal``, as in soft actor-critic (Haarnoja et al., 2018, appendix C)."""

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw actions in [-1, 1]; differentiable in the parameters."""
        return _shaped(jnp.tanh(self._draw(key)), self.shape)

    def sample_and_log_prob(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Draw actions with their log-densities, exact where tanh is saturated and ``log_prob`` has to guess."""
        drawn = self._draw(key)
        log_prob = jnp.sum(self._log_density(drawn) - _log_slope(drawn), axis=-1)
        return _shaped(jnp.tanh(drawn), self.shape), log_prob

    def mode(self) -> jax.Array:
        """Return the medians, tanh(mean)."""
        return _shaped(jnp.tanh(self.mean), self.shape)

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Return the log-density of actions; those at the ends are taken to be the last number before them."""
        limit = 1.0 - jnp.finfo(self.mean.dtype).epsneg
        before = jnp.arctanh(jnp.clip(_flat(action, self.shape), -limit, limit))
        return jnp.sum(self._log_density(before) - _log_slope(before), axis=-1)

    def entropy(self) -> jax.Array:
        """Return the entropy; the mean of log(1 - tanh(x)^2) is taken by Gauss-Hermite quadrature."""
        points = self.mean[..., None] + jnp.exp(self.log_std)[..., None] * _NODES
        return super().entropy() + jnp.sum(_log_slope(points) @ _WEIGHTS, axis=-1)


@record
@dataclass(frozen=True)
class Product:
    """Independent distributions, one for each leaf of a nested action space."""

    parts: tuple[Distribution, ...]
    structure: Any = field(metadata={"static": True})
    """The tree structure of the actions."""

    def sample(self, key: jax.Array) -> Tree:
        """Draw one action tree."""
        return self.structure.unflatten([part.sample(noise.fold_in(key, i)) for i, part in enumerate(self.parts)])

    def mode(self) -> Tree:
        """Return the tree of modes."""
        return self.structure.unflatten([part.mode() for part in self.parts])

    def log_prob(self, action: Tree) -> jax.Array:
        """Return the log-probability of the whole tree."""
        leaves = self.structure.flatten_up_to(action)
        return _total([part.log_prob(leaf) for part, leaf in zip(self.parts, leaves, strict=True)])

    def entropy(self) -> jax.Array:
        """Return the entropy of the whole tree."""
        return _total([part.entropy() for part in self.parts])


def _total(terms: list[jax.Array]) -> jax.Array:
    return jnp.sum(jnp.stack(terms), axis=0)


def _shaped(flat: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """[..., prod(shape)] -> [..., *shape]."""
    return flat.reshape(*flat.shape[:-1], *shape)


def _flat(action: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """[..., *shape] -> [..., prod(shape)]."""
    return action.reshape(*action.shape[: action.ndim - len(shape)], math.prod(shape))


def _log_slope(x: jax.Array) -> jax.Array:
    """Return log(1 - tanh(x)^2), exact for large |x|."""
    return 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))
