"""One update of any algorithm from one batch: epochs x minibatches as a single scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import optax

from weft.algorithm import Algorithm, Feedback, State
from weft.experience.kinds import Unrolls
from weft.types import Array, Tree

Reduce = Callable[[Tree], Tree]


def update(
    algorithm: Algorithm, state: State, batch: Tree, key: jax.Array, reduce: Reduce | None = None
) -> tuple[State, Feedback]:
    """Learn from ``batch``; returns the new state and the mean metrics of its optimiser steps.

    ``reduce`` combines gradients across learners (e.g. a mean over a device axis); without it there is one learner.
    """
    reduce = reduce or (lambda gradients: gradients)
    state, data = algorithm.prepare(state, batch)

    def step(state: State, inputs: tuple[Tree, jax.Array]) -> tuple[State, Feedback]:
        minibatch, key = inputs
        gradients, feedback = algorithm.gradients(state, minibatch, key)
        return stepped(algorithm, state, reduce(gradients)), feedback

    epochs, minibatches = passes(algorithm)
    if epochs * minibatches == 1:
        return step(state, (data, key))

    def epoch(state: State, key: jax.Array) -> tuple[State, Feedback]:
        return jax.lax.scan(step, state, shuffled_with_keys(data, minibatches, key))

    state, feedback = jax.lax.scan(epoch, state, jax.random.split(key, epochs))
    return state, Feedback(metrics=jax.tree.map(jnp.mean, feedback.metrics))


def stepped(algorithm: Algorithm, state: State, gradients: Tree, norm: Array | None = None) -> State:
    """Take one optimiser step, along gradients scaled down to the algorithm's bound on their global norm.

    ``norm`` is that of the whole gradient, where ``gradients`` and ``state`` are only a part of it.
    """
    limit = algorithm.max_gradient_norm
    if limit is not None:
        norm = optax.tree.norm(gradients) if norm is None else norm
        gradients = jax.tree.map(lambda leaf: jnp.where(norm < limit, leaf, leaf / norm * limit), gradients)
    return algorithm.apply(state, gradients)


def passes(algorithm: Algorithm) -> tuple[int, int]:
    """Return (epochs, minibatches) of an update."""
    experience = algorithm.experience
    return (experience.epochs, experience.minibatches) if isinstance(experience, Unrolls) else (1, 1)


class Steps:
    """The same update one optimiser step at a time, for learners that exchange something in between."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.prepare = jax.jit(algorithm.prepare)
        self.gradients = jax.jit(lambda state, data, key: algorithm.gradients(state, data, key))
        self.apply = jax.jit(partial(stepped, algorithm))
        self._passes = passes(algorithm)
        self._split = jax.jit(jax.random.split, static_argnums=1)
        self._shuffled = jax.jit(shuffled_with_keys, static_argnums=1)
        self._at = jax.jit(lambda tree, place: jax.tree.map(lambda leaf: leaf[place], tree))

    def minibatches(self, data: Tree, key: jax.Array) -> Iterator[tuple[Tree, jax.Array]]:
        """Yield the minibatches of one update, and a key for each."""
        epochs, number = self._passes
        if epochs * number == 1:
            yield data, key
            return
        for epoch_key in self._split(key, epochs):
            rows = self._shuffled(data, number, epoch_key)
            for place in range(number):
                yield self._at(rows, place)


def shuffled_with_keys(data: Tree, number: int, key: jax.Array) -> tuple[Tree, jax.Array]:
    """Split samples at random into minibatches, and make a key for each of them."""
    shuffle_key, step_key = jax.random.split(key)
    return shuffled(data, number, shuffle_key), jax.random.split(step_key, number)


def shuffled(data: Tree, number: int, key: jax.Array) -> Tree:
    """Split samples ``[N, ...]`` at random into ``[number, N // number, ...]``."""
    size = jax.tree.leaves(data)[0].shape[0]
    order = random_order(size, key)
    return jax.tree.map(lambda leaf: leaf[order].reshape(number, size // number, *leaf.shape[1:]), data)


def random_order(size: int, key: jax.Array) -> jax.Array:
    """Return 0 .. size - 1 in random order, [size] int32.

    Sorts random numbers that carry their place in the low bits: one sort of plain integers, which takes a third of
    the time of ``jax.random.permutation`` on a CPU. Equal random bits fall back on the place, which is rare enough
    not to matter while at least 16 of them are left.
    """
    place_bits = max(size - 1, 1).bit_length()
    if place_bits > 16:
        return jax.random.permutation(key, size)
    places = jnp.arange(size, dtype=jnp.uint32)
    mask = jnp.uint32((1 << place_bits) - 1)
    return (jnp.sort(jax.random.bits(key, (size,)) & ~mask | places) & mask).astype(jnp.int32)
