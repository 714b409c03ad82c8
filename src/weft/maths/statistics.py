"""Running means and variances of what a run sees, as a pytree that is learned, shipped and saved with the policy."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from weft.types import Array, Tree


class Moments(NamedTuple):
    """Count, mean and variance of the values seen so far; mean and variance have the shape of one value."""

    count: Array  # type: ignore[assignment]  # hides tuple.count, which nobody wants of moments
    mean: Array
    variance: Array


def initial(shape: tuple[int, ...]) -> Moments:
    """Nothing seen yet: normalising with it changes nothing."""
    return Moments(jnp.zeros(()), jnp.zeros(shape), jnp.ones(shape))


def of_batch(values: Array, weight: Array) -> Moments:
    """Moments of ``values`` [N..., *shape] where ``weight`` [N...] is 1 (0 leaves a value out)."""
    axes = tuple(range(weight.ndim))
    weights = jnp.reshape(weight, weight.shape + (1,) * (values.ndim - weight.ndim)).astype(jnp.float32)
    count = weights.sum()
    mean = (values * weights).sum(axes) / jnp.maximum(count, 1.0)
    variance = (jnp.square(values - mean) * weights).sum(axes) / jnp.maximum(count, 1.0)
    return Moments(count, mean, variance)


def merge(a: Moments, b: Moments) -> Moments:
    """Moments of the union of two samples (Chan et al. 1979, 'Updating formulae and a pairwise algorithm')."""
    count = a.count + b.count
    share = b.count / jnp.maximum(count, 1.0)
    difference = b.mean - a.mean
    mean = a.mean + difference * share
    variance = a.variance * (1 - share) + b.variance * share + jnp.square(difference) * share * (1 - share)
    return Moments(count, mean, jnp.where(count > 0, variance, a.variance))


def pooled(*learned: Tree) -> Tree:
    """Moments of everything that several learners saw; what else is among their statistics is the last one's."""

    def one(*parts: Any) -> Any:
        return reduce(merge, parts) if isinstance(parts[0], Moments) else parts[-1]

    return jax.tree.map(one, *learned, is_leaf=lambda part: isinstance(part, Moments))


def initial_tree(example: Tree) -> tuple[Moments | None, ...]:
    """Moments for each floating leaf of ``example`` (one unbatched observation); other leaves stay as they are."""
    return tuple(
        initial(leaf.shape) if jnp.issubdtype(leaf.dtype, jnp.floating) else None for leaf in jax.tree.leaves(example)
    )


def update_tree(moments: tuple[Moments | None, ...], values: Tree, weight: Array) -> tuple[Moments | None, ...]:
    """Merge a batch of observations, leaves [N..., ...], into their moments."""
    pairs = zip(moments, jax.tree.leaves(values), strict=True)
    return tuple(None if known is None else merge(known, of_batch(leaf, weight)) for known, leaf in pairs)


def normalise_tree(moments: tuple[Moments | None, ...], values: Tree, clip: float | None) -> Tree:
    """Bring every floating leaf to mean 0 and variance 1, then into [-clip, clip]."""
    known = iter(moments)

    def one(leaf: Array) -> Array:
        leaf_moments = next(known)
        return leaf if leaf_moments is None else normalise(leaf_moments, leaf, clip)

    return jax.tree.map(one, values)


def normalise(moments: Moments, value: Array, clip: float | None) -> Array:
    """Subtract the mean, divide by the standard deviation, clip."""
    normalised = (value - moments.mean) * jax.lax.rsqrt(moments.variance + 1e-8)
    return normalised if clip is None else jnp.clip(normalised, -clip, clip)
