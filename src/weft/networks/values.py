"""Outputs of a network along a trajectory, and at the true successor of each of its steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from weft.experience.trajectories import cut
from weft.networks.network import Network
from weft.types import Array, Trajectory, Tree


def unroll_with_successors(
    network: Network, params: Tree, trajectory: Trajectory
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Return the outputs at each step and at its true successor, both [T, B, ...].

    The successor of a step is the next row, except where an episode ended within the step and the environment began
    the next one at once: there it is the final observation that the environment delivered beside it.
    """
    outputs, _ = network.unroll(params, trajectory.observation, trajectory.memory, trajectory.first)
    here = jax.tree.map(lambda leaf: leaf[:-1], outputs)
    successors = jax.tree.map(lambda leaf: leaf[1:], outputs)
    if trajectory.final is None:
        return here, successors
    finals = _at_finals(network, params, trajectory)
    return here, jax.tree.map(lambda kept, next_: _where(cut(trajectory), kept, next_), finals, successors)


def _at_finals(network: Network, params: Tree, trajectory: Trajectory) -> dict[str, jax.Array]:
    """Outputs [T, B, ...] at ``final``, each with the memory that its episode had come to."""
    if not jax.tree.leaves(trajectory.memory):
        return network.unroll(params, trajectory.final, (), trajectory.first[1:])[0]

    def step(memory: Tree, inputs: tuple[Tree, Array, Tree]) -> tuple[Tree, dict[str, jax.Array]]:
        observation, first, final = inputs
        _, memory = network.apply(params, observation, memory, first)
        outputs, _ = network.apply(params, final, memory, jnp.zeros_like(first))
        return memory, outputs

    rows = jax.tree.map(lambda leaf: leaf[:-1], (trajectory.observation, trajectory.first))
    return jax.lax.scan(step, trajectory.memory, (*rows, trajectory.final))[1]


def _where(condition: Array, a: Array, b: Array) -> jax.Array:
    return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - condition.ndim)), a, b)
