"""Observations and actions are nested like their space: dicts and tuples of arrays. The few helpers for that.

(Not ``jax.tree``: an environment process need not load JAX, and a single array has to cost nothing here.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from weft.errors import WeftError
from weft.types import Tree

_LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def map_tree(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Apply ``function`` to the leaves of equally nested trees; spaces count as trees too, and None has no leaves.

    >>> map_tree(lambda x, y: x + y, {"a": (1, 2)}, {"a": (10, 20)})
    {'a': (11, 22)}
    """
    if isinstance(tree, dict | spaces.Dict):
        return {key: map_tree(function, tree[key], *(other[key] for other in others)) for key in tree}
    if isinstance(tree, tuple | spaces.Tuple):
        return tuple(map_tree(function, *leaves) for leaves in zip(tree, *others, strict=True))
    return None if tree is None else function(tree, *others)


def map_space(function: Callable[[Any], spaces.Space], space: spaces.Space) -> spaces.Space:
    """Return the space whose leaves are ``function`` of the leaves of ``space``."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: map_space(function, inner) for key, inner in space.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([map_space(function, inner) for inner in space])
    return function(space)


def leaves(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a tree or of a space with their paths.

    >>> list(leaves({"a": (1, 2)}))
    [('a.0', 1), ('a.1', 2)]
    """
    if isinstance(tree, dict | spaces.Dict):
        branches = list(tree.items())
    elif isinstance(tree, tuple | spaces.Tuple):
        branches = list(enumerate(tree))
    else:
        yield "", tree
        return
    for key, branch in branches:
        for path, leaf in leaves(branch):
            yield f"{key}.{path}".rstrip("."), leaf


def require_arrays(space: spaces.Space, kind: str, name: str) -> None:
    """Refuse a space that holds anything but arrays (text, graphs, sequences)."""
    for path, leaf in leaves(space):
        if not isinstance(leaf, _LEAVES):
            where = f" at {path!r}" if path else ""
            raise WeftError(
                f"The {kind} space of {name} has {type(leaf).__name__}{where}: weft takes Box, Discrete, "
                "MultiDiscrete, MultiBinary, and Dict and Tuple of these; leave the rest out in a wrapper."
            )


def is_leaf(space: spaces.Space) -> bool:
    """Whether observations (or actions) of this space are a single array."""
    return not isinstance(space, spaces.Dict | spaces.Tuple)


def as_dtype(space: spaces.Space) -> Callable[[Tree], Tree]:
    """Return the function that makes numpy arrays of the space's dtypes (copying only where they differ)."""
    if is_leaf(space):
        dtype = space.dtype
        return lambda tree: np.asarray(tree, dtype)
    return lambda tree: map_tree(lambda leaf, array: np.asarray(array, leaf.dtype), space, tree)
