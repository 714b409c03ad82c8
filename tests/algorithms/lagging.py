"""A batch that an older policy acted, and what V-trace makes of it by its recursive definition, step by step."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from batches import DISCRETE, KEY, VECTOR, jitted, trajectory

from weft.algorithm import Algorithm, State
from weft.networks.action import action_adapter
from weft.networks.network import Network, NetworkSettings, build
from weft.networks.policy import stochastic, value
from weft.types import Trajectory, Tree

T, B = 8, 3
DISCOUNT = 0.9
PLAIN: dict[str, Any] = {
    "unroll": T,
    "discount": DISCOUNT,
    "scale_rewards": False,
    "anneal": False,
    "clip_rewards": None,
    "normalise_observations": False,
    "clip_observations": None,
    "max_gradient_norm": None,
}
ACTIONS = action_adapter(DISCRETE.action)
small = functools.partial(NetworkSettings, hidden=(4,), memory_size=3, orthogonal=False)


@functools.cache
def network(recurrent: Any = None) -> Network:
    heads = {"policy": stochastic(ACTIONS), "value": value()}
    return build(VECTOR, heads, small(recurrent=recurrent), shared=False)


def begun(algorithm: Algorithm, lag: bool) -> tuple[State, Trajectory]:
    """A state and a batch; with ``lag`` another state acted, and the unrolls begin amid episodes."""
    init = jitted(algorithm.init)
    state = init(KEY)
    batch = trajectory(algorithm, init(jax.random.key(7)) if lag else state, VECTOR, T, B, seed=3)
    assert not batch.valid.all() and (batch.discount == 0).any()
    if lag:
        batch = batch._replace(memory=jax.tree.map(lambda leaf: leaf + 0.5, batch.memory))
        batch.first[0] = False
    return state, batch


class Outputs(NamedTuple):
    """Of the learner's network along a batch."""

    log_prob: jax.Array
    """[T, B] of the actions taken"""
    entropy: jax.Array
    """[T, B]"""
    value: jax.Array
    """[T + 1, B]"""


def one_by_one(params: Tree, batch: Trajectory, recurrent: Any = None) -> Outputs:
    memory, rows, apply = batch.memory, [], network(recurrent).apply
    for t in range(T + 1):
        outputs, memory = apply(params, batch.observation[t], memory, batch.first[t])
        rows.append((ACTIONS.distribution(outputs["policy"]), outputs["value"]))
    log_prob = [policy.log_prob(action) for (policy, _), action in zip(rows, batch.action, strict=False)]
    entropy = [policy.entropy() for policy, _ in rows[:-1]]
    return Outputs(jnp.stack(log_prob), jnp.stack(entropy), jnp.stack([row[1] for row in rows]))


def vtrace_by_hand(
    batch: Trajectory, value: np.ndarray, rho: np.ndarray, lambda_: float, rho_bar: float = 1.0, c_bar: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Targets and advantages [T, B] from values [T + 1, B] and ratios [T, B]; at fillers the target is the value."""
    target, advantage = value.copy(), np.zeros((T, B))
    for t in reversed(range(T)):
        for index in np.flatnonzero(batch.valid[t]):
            discount, here, reached = DISCOUNT * batch.discount[t, index], value[t, index], value[t + 1, index]
            surprise = target[t + 1, index] - reached
            ratio, reward = rho[t, index], batch.reward[t, index]
            target[t, index] += min(rho_bar, ratio) * (reward + discount * reached - here)
            target[t, index] += discount * lambda_ * min(c_bar, ratio) * surprise
            advantage[t, index] = reward + discount * (reached + lambda_ * surprise) - here
    return target[:-1], advantage


def recorded_ratios(outputs: Outputs, batch: Trajectory) -> np.ndarray:
    """[T, B] probabilities of the actions under the learner's policy over those that were recorded."""
    return np.asarray(jnp.exp(outputs.log_prob - batch.extras["log_prob"]))
