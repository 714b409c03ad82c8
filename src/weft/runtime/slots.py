"""Messages laid out in memory: a tree of arrays over consecutive bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.program import Leaf
from weft.trees import map_tree
from weft.types import Tree

ALIGNMENT = 64
"""Of every array, in bytes: a cache line, and what XLA needs in order to read an array where it is."""


def aligned(size: int) -> int:
    """Round up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def size_of(layout: Tree) -> int:
    """Return the bytes that one message takes."""
    total = 0

    def add(leaf: Leaf | None) -> None:
        nonlocal total
        total += 0 if leaf is None else aligned(_bytes(leaf))

    map_tree(add, layout)
    return max(total, ALIGNMENT)


def view(layout: Tree, buffer: memoryview, offset: int) -> Tree:
    """Return the arrays of a message that lies at ``offset``; where the layout has None there is None."""

    def place(leaf: Leaf | None) -> np.ndarray | None:
        nonlocal offset
        if leaf is None:
            return None
        array = np.frombuffer(buffer, leaf.dtype, math.prod(leaf.shape), offset).reshape(leaf.shape)
        offset += aligned(_bytes(leaf))
        return array

    return map_tree(place, layout)


def copy_into(slot: Tree, message: Tree) -> None:
    """Write a message into a slot."""

    def copy(array: np.ndarray | None, value: Any) -> None:
        if array is not None:
            array[...] = value

    map_tree(copy, slot, message)


def copy_of(slot: Tree) -> Tree:
    """Return a message of its own."""
    return map_tree(lambda array: None if array is None else array.copy(), slot)


def _bytes(leaf: Leaf) -> int:
    return math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize
