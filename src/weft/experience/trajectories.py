"""What can be read off a trajectory alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from weft.types import Array, Trajectory


def continues(trajectory: Trajectory) -> jax.Array:
    """[T, B] bool, whether the step after each one is a real step of the same episode (true for the last row)."""
    following_valid = jnp.concatenate([trajectory.valid[1:], jnp.ones_like(trajectory.valid[:1])])
    return following_valid & ~trajectory.first[1:]


def cut(trajectory: Trajectory) -> Array:
    """[T, B] bool, where ``observation[t + 1]`` already belongs to the next episode, its true predecessor is a real
    step, and the true successor is therefore to be found in ``final``."""
    return trajectory.valid & trajectory.first[1:]


def swapped(trajectory: Trajectory) -> Trajectory:
    """Swap the first two axes: from [T, B, ...] to one unroll for each environment, [B, T, ...], or back.

    ``memory`` is [B, ...] in both.
    """
    columns = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), trajectory._replace(memory=()))
    return columns._replace(memory=trajectory.memory)
