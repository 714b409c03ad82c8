"""Batches that are sampled from a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from weft.trees import map_tree
from weft.types import Array, Trajectory, Tree


class Transitions(NamedTuple):
    """N independent n-step transitions."""

    observation: Tree
    """[N, ...] where the action was taken"""
    action: Tree
    """[N, ...]"""
    reward: Array
    """[N] discounted sum of the rewards on the way"""
    discount: Array
    """[N] what the value of ``successor`` is multiplied by: 0 if the episode terminated on the way"""
    successor: Tree
    """[N, ...] the observation n steps later, or the last one of the episode"""


class Replayed(NamedTuple):
    """N items of a replay: transitions, or sequences side by side."""

    data: Transitions | Trajectory
    weight: Array | None
    """[N] float32, importance weights, which make up for the items' different chances; at most 1. None where all items
    had the same chance, and nobody asks for their priorities."""


def map_items(function: Callable[..., Any], batch: Transitions | Trajectory, *others: Transitions | Trajectory) -> Tree:
    """Apply ``function(axis, leaf, ...)`` to corresponding leaves; ``axis`` is the one along which the items are."""

    def along(axis: int) -> Callable[..., Any]:
        return lambda leaf, *more: None if leaf is None else function(axis, leaf, *more)

    if isinstance(batch, Transitions):
        return map_tree(along(0), batch, *others)
    trajectories = [item._replace(memory=()) for item in (batch, *others) if isinstance(item, Trajectory)]
    memories = [item.memory for item in (batch, *others) if isinstance(item, Trajectory)]
    return map_tree(along(1), *trajectories)._replace(memory=map_tree(along(0), *memories))


def padded(batch: Transitions | Trajectory, number: int) -> Tree:
    """Repeat the first item until there are ``number``."""

    def pad(axis: int, leaf: Array) -> np.ndarray:
        first = np.take(leaf, [0], axis)
        return np.concatenate([leaf, np.repeat(first, number - leaf.shape[axis], axis)], axis)

    return map_items(pad, batch)
