"""Parameters in parts, one for each server: what of a state belongs to which, and what travels to and from it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from weft.algorithm import State
from weft.program import Leaf
from weft.topologies.centre import Counted
from weft.topologies.job import Work
from weft.topologies.messages import NUMBER, REAL, leaves_like
from weft.topologies.team import abstract_state, student_of
from weft.types import Array, Tree


class Parts:
    """Which server holds which parameter, and with it its copy in the target and its place in the optimiser.

    A server's state has the structure of the whole one, with empty arrays where others hold something; what is no
    parameter's (counters, running statistics) is the first one's. As every parameter's step follows from its own
    gradient, the parts of a step are the step.
    """

    def __init__(self, work: Work, number: int) -> None:
        state = abstract_state(work)
        paths, sizes = zip(
            *((path, leaf.size) for path, leaf in jax.tree_util.tree_leaves_with_path(state.params)), strict=True
        )
        self._owners = dict(zip(paths, _balanced(sizes, min(number, len(paths))), strict=True))
        self._number = min(number, len(paths))
        student = student_of(state)
        self._structure = jax.tree.structure(student)
        self._students = [(self._owner(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(student)]
        self._gradients = [
            (self._owner(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state.params)
        ]
        self._params_structure = jax.tree.structure(state.params)

    def __len__(self) -> int:
        return self._number

    def layout(self, index: int) -> tuple[Leaf, ...]:
        """Return the layout of one server's part of what workers need."""
        return tuple(leaves_like(leaf) for owner, leaf in self._students if (owner or 0) == index)

    def gradients_layout(self, index: int) -> tuple[Leaf, ...]:
        """Return the layout of one server's part of the gradients."""
        return tuple(leaves_like(leaf) for owner, leaf in self._gradients if owner == index)

    def part_of(self, state: State, index: int) -> State:
        """Return one server's part of a state."""

        def mine(path: Any, leaf: Array) -> Array:
            owner = self._owner(path)
            return leaf if owner is None or owner == index else np.zeros((0,), leaf.dtype)

        return jax.tree_util.tree_map_with_path(mine, state)

    def whole(self, parts: list[State]) -> State:
        """Return the state of which these are the parts."""

        def chosen(path: Any, *leaves: Array) -> Array:
            return leaves[self._owner(path) or 0]

        return jax.tree_util.tree_map_with_path(chosen, *parts)

    def outgoing(self, part: State, index: int) -> tuple[Array, ...]:
        """Return what of one server's part workers need."""
        leaves = jax.device_get(jax.tree.leaves(student_of(part)))
        return tuple(leaf for (owner, _), leaf in zip(self._students, leaves, strict=True) if (owner or 0) == index)

    def student(self, received: list[tuple[Array, ...]]) -> State:
        """Put together what came from all servers."""
        streams = [iter(leaves) for leaves in received]
        leaves = [np.array(next(streams[owner or 0])) for owner, _ in self._students]
        return jax.tree.unflatten(self._structure, jax.device_put(leaves))

    def gradients_of(self, gradients: Tree) -> list[tuple[Array, ...]]:
        """Return the gradients for each server."""
        leaves = jax.device_get(jax.tree.leaves(gradients))
        held = list(zip((owner for owner, _ in self._gradients), leaves, strict=True))
        return [tuple(leaf for owner, leaf in held if owner == index) for index in range(len(self))]

    def gradients(self, part: tuple[Array, ...], index: int) -> Tree:
        """Return the gradients that go with one server's part of a state."""
        mine = iter(part)
        leaves = [
            np.array(next(mine)) if owner == index else np.zeros((0,), leaf.dtype) for owner, leaf in self._gradients
        ]
        return jax.tree.unflatten(self._params_structure, leaves)

    def _owner(self, path: Any) -> int | None:
        """Return who holds what is at ``path`` of a state or of its parameters; None for what is no parameter's.

        Optimisers and targets hold trees like the parameters' somewhere, so that paths in them end like theirs.
        """
        return next((self._owners[path[begin:]] for begin in range(len(path)) if path[begin:] in self._owners), None)


class Pushed(NamedTuple):
    """What a worker sends to one server."""

    kind: np.ndarray
    """[] ``PULL``, ``PUSH`` or ``SAVE``"""
    gradients: tuple[Array, ...]
    norm: Array
    """[] of the whole gradient"""
    version: Array
    """[] how many updates had been made to the parameters it is of; to save, how many pushes to take before"""
    progress: Array
    """[] the share of the run's steps that is done, as the worker was told"""
    statistics: tuple[Array, ...]
    """leaves of what the unroll alone adds to the running statistics; for the first server, with the first push"""
    first: Array
    """[] whether this is the first push of an unroll"""
    last: Array
    """[] whether it is the last one, with which the unroll counts"""
    metrics: dict[str, Array]
    counted: Counted


PULL, PUSH, SAVE = range(3)


def pushed_layout(work: Work, parts: Parts, index: int) -> Pushed:
    """Return the layout of what workers send to one server."""
    statistics = jax.tree.leaves(abstract_state(work).statistics) if index == 0 else []
    return Pushed(
        kind=NUMBER,  # type: ignore[arg-type]
        gradients=parts.gradients_layout(index),  # type: ignore[arg-type]
        norm=REAL,  # type: ignore[arg-type]
        version=NUMBER,  # type: ignore[arg-type]
        progress=REAL,  # type: ignore[arg-type]
        statistics=tuple(leaves_like(leaf) for leaf in statistics),
        first=NUMBER,  # type: ignore[arg-type]
        last=NUMBER,  # type: ignore[arg-type]
        metrics=dict.fromkeys(metric_names(work), REAL),  # type: ignore[arg-type]
        counted=Counted.layout(),
    )


def metric_names(work: Work) -> list[str]:
    """Return the metrics of an algorithm's gradients."""
    from weft.topologies.messages import abstract_batch
    from weft.update import Steps

    def metrics() -> Any:
        key, steps = jax.random.key(0), Steps(work.algorithm)
        state, data = steps.prepare(work.algorithm.init(key), abstract_batch(work))
        minibatch, minibatch_key = next(steps.minibatches(data, key))
        return steps.gradients(state, minibatch, minibatch_key)[1].metrics

    return sorted(jax.eval_shape(metrics))


def _balanced(sizes: tuple[int, ...], number: int) -> list[int]:
    """Return an owner for each of ``sizes``, so that all have about the same: the largest first, to whom has least."""
    owners, held = [0] * len(sizes), [0] * number
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        owner = held.index(min(held))
        owners[place] = owner
        held[owner] += sizes[place]
    return owners
