"""Gradient descent as most algorithms do it: Adam or RMSProp, a rate that may fall to 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import optax

from weft.algorithm import Feedback, State
from weft.types import Tree

Loss = Callable[[Tree, Tree], tuple[jax.Array, dict[str, jax.Array]]]
"""(params, minibatch) -> (loss, metrics)"""
Optimiser = Literal["adam", "rmsprop"]


def gradients_of(loss: Loss) -> Callable[[State, Tree, jax.Array], tuple[Tree, Feedback]]:
    """Return the ``gradients`` of an algorithm whose loss draws nothing at random."""

    def gradients(state: State, minibatch: Tree, key: jax.Array) -> tuple[Tree, Feedback]:
        grads, metrics = jax.grad(loss, has_aux=True)(state.params, minibatch)
        return grads, Feedback({**metrics, "gradient_norm": optax.tree.norm(grads)})

    return gradients


@dataclass(frozen=True)
class Descent:
    """Steps along gradients, each divided by its own running size.

    ``adam`` is Kingma and Ba 2015, arXiv:1412.6980. ``rmsprop`` is the non-centred form of Tieleman and Hinton 2012
    that A3C shares between its workers (Mnih et al. 2016, arXiv:1602.01783): with the optimiser's state kept where the
    steps are taken, the gradients of all workers are in it.
    """

    learning_rate: float
    anneal: bool
    """Let the rate fall linearly with ``state.progress``."""
    max_gradient_norm: float | None
    """Of the gradients that come here: the algorithm's bound, kept by whoever applies them (see ``Algorithm``)."""
    epsilon: float
    """Added to the root of the mean square by ``adam``, to the mean square itself by ``rmsprop``."""
    optimiser: Optimiser = "adam"
    decay: float = 0.99
    """Of the mean square of ``rmsprop``."""

    def init(self, params: Tree) -> Tree:
        """Return the optimiser's state before the first step."""
        return self._transformation().init(params)

    def step(self, state: State, grads: Tree) -> State:
        """Take one step."""
        directions, optimiser = self._transformation().update(grads, state.optimiser)
        rate = self.learning_rate * (1 - state.progress if self.anneal else 1.0)
        params = jax.tree.map(lambda param, direction: param - rate * direction, state.params, directions)
        return state._replace(params=params, optimiser=optimiser, updates=state.updates + 1)

    def _transformation(self) -> optax.GradientTransformation:
        if self.optimiser == "adam":
            return optax.scale_by_adam(eps=self.epsilon)
        return optax.scale_by_rms(self.decay, self.epsilon)
