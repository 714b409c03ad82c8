"""Nested gymnasium spaces as trees: Dict becomes dict, Tuple becomes tuple, every other space is a leaf."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from weft.errors import WeftError
from weft.types import Tree


def tree_of(space: gymnasium.Space) -> Tree:
    """Return ``space`` as a pytree whose leaves are the spaces that are neither Dict nor Tuple."""
    if isinstance(space, spaces.Dict):
        return {name: tree_of(part) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(tree_of(part) for part in space.spaces)
    return space


def flatten(space: gymnasium.Space) -> tuple[list[tuple[str, gymnasium.Space]], Any]:
    """Return the leaves of ``space``, each with its place in words, and the tree structure that holds them."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree_of(space))
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves], structure


def array_dtype(space: gymnasium.Space) -> np.dtype:
    """Return the dtype that JAX gives arrays of this leaf space: 64 bits become 32 unless x64 is enabled."""
    return np.dtype(jax.dtypes.canonicalize_dtype(space.dtype))


def examples(space: gymnasium.Space, *leading: int) -> Tree:
    """Return the abstract arrays [*leading, ...] of elements of ``space``."""

    def example(leaf: gymnasium.Space) -> jax.ShapeDtypeStruct:
        if leaf.shape is None:
            raise WeftError(f"{leaf} does not hold arrays of a fixed shape, so no network can take it.")
        return jax.ShapeDtypeStruct((*leading, *leaf.shape), array_dtype(leaf))

    return jax.tree.map(example, tree_of(space))
