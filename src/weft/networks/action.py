"""The action adapter: from an action space to the distribution over its actions, or to one joint discrete choice.

A policy works on **raw** actions, nested and shaped like the space: integers from 0 for discrete leaves, bits, and
for a Box numbers whose range [-1, 1] stands for [low, high]. Raw actions are what log-probabilities are of, and what
learning must record; ``to_environment`` turns them into elements of the space (for a Box: mapped and clipped).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from weft.errors import WeftError
from weft.networks.distributions import (
    Bernoulli,
    Categorical,
    DiagonalNormal,
    Distribution,
    MultiCategorical,
    Product,
    TanhNormal,
)
from weft.networks.spaces import array_dtype, flatten
from weft.types import Tree

JOINT_LIMIT = 4096
"""The most joint actions that a value-based algorithm enumerates."""


@dataclass(frozen=True)
class ActionAdapter:
    """How a policy head's outputs become actions of one space; made by ``action_adapter``.

    The head gives [..., size] numbers: first the ``locations`` (logits and means of all leaves in order), then the
    ``scales`` (log standard deviations of all Box leaves in order).
    """

    space: gymnasium.Space
    locations: int
    scales: int
    distribution: Callable[[jax.Array], Distribution]
    """outputs [..., size] -> the distribution over raw actions"""
    to_environment: Callable[[Tree], Tree]
    """raw action -> the action as the environment takes it; pure, for use inside jit, any leading dimensions"""

    @property
    def size(self) -> int:
        """How many outputs the head must give."""
        return self.locations + self.scales


@dataclass(frozen=True)
class _Leaf:
    """The adapter of one leaf: how many outputs it takes and what it makes of them."""

    locations: int
    scales: int
    distribution: Callable[[jax.Array, jax.Array], Distribution]
    """(locations, scales) -> distribution"""
    to_environment: Callable[[jax.Array], jax.Array]


def action_adapter(space: gymnasium.Space, *, squashed: bool = False) -> ActionAdapter:
    """Return the adapter of any space made of Discrete, MultiDiscrete, MultiBinary, Box, Dict and Tuple.

    ``squashed`` gives Box leaves a ``TanhNormal``, which never leaves the bounds, in place of a ``DiagonalNormal``.
    """
    named, structure = flatten(space)
    leaves = [_leaf(leaf, place, squashed) for place, leaf in named]
    if not leaves:
        raise WeftError(f"The action space {space} is empty: there is nothing to choose.")
    locations, scales = [leaf.locations for leaf in leaves], [leaf.scales for leaf in leaves]
    location_cuts = np.cumsum(locations)
    scale_cuts = location_cuts[-1] + np.cumsum(scales)[:-1]

    def distribution(outputs: jax.Array) -> Distribution:
        pieces = jnp.split(outputs, [*location_cuts, *scale_cuts], axis=-1)
        pairs = zip(leaves, pieces[: len(leaves)], pieces[len(leaves) :], strict=True)
        parts = tuple(leaf.distribution(location, scale) for leaf, location, scale in pairs)
        return parts[0] if jax.tree_util.treedef_is_leaf(structure) else Product(parts, structure)

    def to_environment(raw: Tree) -> Tree:
        parts = structure.flatten_up_to(raw)
        return structure.unflatten([leaf.to_environment(part) for leaf, part in zip(leaves, parts, strict=True)])

    return ActionAdapter(space, sum(locations), sum(scales), distribution, to_environment)


def _leaf(space: gymnasium.Space, place: str, squashed: bool) -> _Leaf:
    match space:
        case spaces.Discrete():
            return _Leaf(int(space.n), 0, lambda logits, _: Categorical(logits), _offset(space))
        case spaces.MultiDiscrete():
            sizes = np.asarray(space.nvec)
            return _Leaf(int(sizes.sum()), 0, lambda logits, _: MultiCategorical.of(logits, sizes), _offset(space))
        case spaces.MultiBinary():
            return _Leaf(math.prod(space.shape), 0, lambda logits, _: Bernoulli(logits, space.shape), lambda raw: raw)
        case spaces.Box():
            size, kind = math.prod(space.shape), TanhNormal if squashed else DiagonalNormal
            return _Leaf(size, size, lambda mean, log_std: kind(mean, log_std, space.shape), _bounded(space))
    where = f" at {place}" if place else ""
    raise WeftError(
        f"Actions of {space}{where} are not supported: a policy acts in Discrete, MultiDiscrete, MultiBinary and Box "
        "spaces and in Dict and Tuple of these."
    )


def _offset(space: spaces.Discrete | spaces.MultiDiscrete) -> Callable[[jax.Array], jax.Array]:
    dtype, start = array_dtype(space), np.asarray(space.start)
    return lambda raw: (raw + start).astype(dtype) if start.any() else raw.astype(dtype)


def _bounded(space: spaces.Box) -> Callable[[jax.Array], jax.Array]:
    """Map [-1, 1] to [low, high] where both are finite, leave the other components; clip all at their bounds."""
    low, high = _inward(space.low, np.inf), _inward(space.high, -np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        half = (high - low) / 2
        middle = low + half
    finite = np.isfinite(half)
    half, middle = np.where(finite, half, 1.0).astype(np.float32), np.where(finite, middle, 0.0).astype(np.float32)
    whole, dtype = np.issubdtype(space.dtype, np.integer), array_dtype(space)

    def to_environment(raw: jax.Array) -> jax.Array:
        mapped = raw * half + middle
        mapped = jnp.round(mapped) if whole else mapped
        return jnp.clip(mapped, low, high).astype(dtype)

    return to_environment


def _inward(bound: np.ndarray, inside: float) -> np.ndarray:
    """Return ``bound`` as float32, rounded towards the inside so that a float32 action never lies beyond it."""
    with np.errstate(over="ignore"):
        rounded = bound.astype(np.float32)
    beyond = rounded < bound if inside > 0 else rounded > bound
    return np.where(beyond, np.nextafter(rounded, np.float32(inside)), rounded)


class JointActions:
    """A finite action space as one choice among ``number`` joint actions, for algorithms that value each of them."""

    number: int
    """How many joint actions there are."""

    def __init__(self, space: gymnasium.Space, algorithm: str, others: Sequence[str]) -> None:
        """Enumerate ``space`` for ``algorithm``; ``others`` are those to recommend where it cannot be done."""
        named, self._structure = flatten(space)
        self._leaves: list[Any] = [leaf for _, leaf in named]
        advice = f"{' or '.join(others)} can"
        for leaf in self._leaves:
            if isinstance(leaf, spaces.Box):
                raise WeftError(f"{algorithm} cannot take a continuous action space {leaf}; {advice}.")
            if not isinstance(leaf, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
                raise WeftError(f"{algorithm} cannot take the action space {leaf}.")
        digits = [_digits(leaf) for leaf in self._leaves]
        sizes = [int(size) for sizes, _ in digits for size in sizes]
        self.number = math.prod(sizes)
        if not sizes or self.number > JOINT_LIMIT:
            raise WeftError(
                f"{algorithm} cannot take the action space {space}: it has {self.number} joint actions, more than "
                f"{JOINT_LIMIT}; {advice}."
            )
        self._sizes = np.array(sizes, np.int32)
        self._strides = np.array([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int32)
        self._starts = np.concatenate([starts for _, starts in digits]).astype(np.int32)
        self._cuts = np.cumsum([len(sizes) for sizes, _ in digits])[:-1]

    def action(self, index: jax.Array) -> Tree:
        """Return the action tree [..., ...] of the joint actions ``index`` [...], as the environment takes it."""
        digits = index[..., None] // self._strides % self._sizes + self._starts
        parts = jnp.split(digits, self._cuts, axis=-1)
        pairs = zip(self._leaves, parts, strict=True)
        return self._structure.unflatten(
            [part.reshape(index.shape + leaf.shape).astype(array_dtype(leaf)) for leaf, part in pairs]
        )


def _digits(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return how many values each number of a discrete leaf space takes, and the first of them."""
    match space:
        case spaces.Discrete():
            return np.array([space.n]), np.array([space.start])
        case spaces.MultiDiscrete():
            return np.ravel(space.nvec), np.ravel(space.start)
    return np.full(math.prod(space.shape), 2), np.zeros(math.prod(space.shape), np.int64)
