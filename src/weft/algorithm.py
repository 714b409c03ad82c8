"""The record that every algorithm is: pure functions and what experience they need. Nothing here runs anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from weft.experience.kinds import Experience
from weft.types import Array, Tree


class State(NamedTuple):
    """All that learning changes, as one pytree: what a checkpoint holds and what an optimiser step returns."""

    params: Tree
    """What gradients are taken of."""
    statistics: Tree
    """Running moments of observations and returns; () when nothing is normalised."""
    target: Tree
    """Slow copies of the parameters; () when the algorithm has none."""
    optimiser: Tree
    updates: Array
    """int32 scalar, optimiser steps taken."""
    progress: Array
    """float32 scalar in [0, 1], the share of the run's steps that is done; schedules are functions of it."""

    @classmethod
    def begin(cls, params: Tree, optimiser: Tree, *, statistics: Tree = (), target: Tree = ()) -> State:
        """Return the state before any update."""
        return cls(params, statistics, target, optimiser, jnp.zeros((), jnp.int32), jnp.zeros(()))

    @property
    def policy(self) -> tuple[Tree, Tree]:
        """What acting needs, and so what a topology ships to actors: (params, statistics)."""
        return self.params, self.statistics


class Feedback(NamedTuple):
    """What one gradient computation reports beside the gradients."""

    metrics: Mapping[str, Array]
    """Scalars; the ``loss`` is among them."""
    priorities: Array | None = None
    """[N] new priorities of the minibatch's items, for prioritised replay; None otherwise."""


class Act(NamedTuple):
    """What ``act`` returns for a batch of B observations."""

    action: Tree
    """[B, ...] as the environment takes it."""
    raw: Tree
    """[B, ...] the same action in the algorithm's own form, which is what the trajectory records."""
    memory: Tree
    """[B, ...] recurrent memory after these observations; () when there is none."""
    extras: dict[str, Array]
    """[B, ...] what learning needs beside the action, e.g. ``log_prob``; recorded in the trajectory."""


Policy = tuple[Tree, Tree]


@dataclass(frozen=True)
class Algorithm:
    """An algorithm, written once; topologies decide where these functions run and what travels between them."""

    name: str
    init: Callable[[jax.Array], State]
    """key -> State"""
    memory: Callable[[int], Tree]
    """B -> initial recurrent memory [B, ...]; () when there is none"""
    act: Callable[[Policy, Tree, Tree, Array, jax.Array, Array], Act]
    """(state.policy, observation [B, ...], memory, first [B], key, explore) -> Act.
    ``explore`` is a float32 scalar: 0 acts deterministically, and what more than 0 means is the algorithm's own
    (epsilon for value-based ones; 1 samples from stochastic policies)."""
    value: Callable[[Policy, Tree, Tree, Array], Array]
    """(state.policy, observation [B, ...], memory, first [B]) -> state values [B]"""
    explore: Callable[[float], float]
    """progress in [0, 1] -> the ``explore`` to act with while learning"""
    prepare: Callable[[State, Tree], tuple[State, Tree]]
    """(state, batch) -> (state, data), once per batch: statistics, advantages, targets. The leaves of ``data`` have
    one leading axis [N] of samples, along which ``update`` draws minibatches."""
    gradients: Callable[[State, Tree, jax.Array], tuple[Tree, Feedback]]
    """(state, minibatch, key) -> (gradients of state.params, Feedback)"""
    apply: Callable[[State, Tree], State]
    """(state, gradients) -> State, one optimiser step; slow copies follow by ``state.updates``. Each parameter's step
    follows from its own gradient, so that servers can hold a part of the parameters each."""
    experience: Experience
    """What to record and how to serve it"""
    max_gradient_norm: float | None = None
    """Whoever applies gradients scales them down to this global norm first, after combining those of all learners"""
