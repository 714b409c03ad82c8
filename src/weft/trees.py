"""Nested tuples and dicts of numpy arrays on the host, with a fast path for the common case of a single array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.types import Tree


def map_tree(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Apply ``function`` to corresponding leaves of nested dicts, tuples and named tuples; None is a leaf.

    >>> map_tree(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)})
    {'x': 11, 'y': (22,)}
    """
    if isinstance(tree, dict):
        return {name: map_tree(function, tree[name], *(other[name] for other in others)) for name in tree}
    if isinstance(tree, tuple):
        parts = [map_tree(function, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return function(tree, *others)


def allocate(tree: Tree, *leading: int) -> Tree:
    """Zeros for leaves [B, ...], with the axes ``leading`` in place of B."""
    return map_tree(lambda leaf: np.zeros((*leading, *np.shape(leaf)[1:]), np.asarray(leaf).dtype), tree)


def take(tree: Tree, ids: np.ndarray) -> Tree:
    """Copies of the rows ``ids`` of leaves [B, ...]."""
    return map_tree(lambda leaf: leaf[ids], tree)


Index = int | np.ndarray | tuple[np.ndarray, ...]


def place_of(rows: np.ndarray) -> slice | np.ndarray:
    """Return the same rows [N] of an array as a slice where there is one of them, which is faster to write to."""
    return slice(first := int(rows[0]), first + 1) if len(rows) == 1 else rows


def write(buffer: Tree, index: Index, values: Tree) -> None:
    """Copy ``values`` into ``buffer[index]``, leaf by leaf."""
    if isinstance(buffer, np.ndarray):
        buffer[index] = values
    elif isinstance(buffer, dict):
        for name, part in buffer.items():
            write(part, index, values[name])
    else:
        for part, value in zip(buffer, values, strict=True):
            write(part, index, value)


def to_numpy(tree: Tree) -> Tree:
    """Bring a tree of arrays to the host; on a CPU backend this copies nothing."""
    return map_tree(np.asarray, tree)
