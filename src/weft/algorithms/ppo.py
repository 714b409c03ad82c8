"""Proximal policy optimisation: several epochs over fresh experience with a clipped policy ratio.

Schulman et al. 2017, 'Proximal policy optimization algorithms', arXiv:1707.06347. The nine code-level details on which
its results hang (Engstrom et al. 2020, 'Implementation matters in deep policy gradients', arXiv:2005.12729) are
settings, marked (1) to (9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp

from weft.algorithm import Algorithm, State
from weft.experience.kinds import Unrolls
from weft.experience.trajectories import continues
from weft.maths.descent import Descent
from weft.maths.losses import actor_critic_loss, masked_mean, masked_standardised
from weft.maths.normalisation import Normaliser
from weft.maths.returns import generalised_advantages
from weft.networks.actor_critic import ActorCritic, Prepare, actor_critic
from weft.networks.network import NetworkSettings, Torso
from weft.networks.values import unroll_with_successors
from weft.settings import positive, within
from weft.types import Array, Spaces, Trajectory, Tree


@dataclass(frozen=True)
class Config:
    """Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

    learning_rate: float = positive(2.5e-3)
    """Step size of Adam at the beginning. Paper: 3e-4 (MuJoCo), 2.5e-4 (Atari)."""
    unroll: int = positive(128)
    """Steps of each environment between two updates. Paper: 2048 (MuJoCo), 128 (Atari)."""
    epochs: int = positive(4)
    """Passes over each batch. Paper: 10 (MuJoCo), 3 (Atari)."""
    minibatches: int = positive(4)
    """Optimiser steps in each pass. Paper: 32 (MuJoCo), 4 (Atari)."""
    discount: float = within(0.99, 0, 1)
    """Weight of a reward that comes one step later."""
    gae_lambda: float = within(0.95, 0, 1)
    """Decay of the generalised advantage estimator."""
    clip: float = positive(0.2)
    """How far the policy ratio may leave 1 before its gradient is cut off. Paper: 0.2 (MuJoCo), 0.1 (Atari)."""
    entropy_cost: float = within(0.0, 0)
    """Weight of the entropy bonus. Paper: 0 (MuJoCo), 0.01 (Atari)."""
    value_cost: float = within(0.5, 0)
    """Weight of the value loss."""
    standardise_advantages: bool = True
    """Bring the advantages of each minibatch to mean 0 and standard deviation 1."""
    clip_value: bool = True
    """(1) Clip how far the value moves in one update, to ``clip``."""
    scale_rewards: bool = True
    """(2) Divide rewards by the running standard deviation of the discounted return."""
    anneal: bool = True
    """(4) Let the learning rate fall linearly to 0 over the run."""
    clip_rewards: float | None = positive(10.0)
    """(5) Clip rewards, after scaling, to this magnitude."""
    normalise_observations: bool = True
    """(6) Bring observations to mean 0 and standard deviation 1; integers and 8-bit images are left as they are."""
    clip_observations: float | None = positive(10.0)
    """(7) Clip normalised observations to this magnitude."""
    max_gradient_norm: float | None = positive(0.5)
    """(9) Scale gradients down to this global norm."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    """The network; its ``orthogonal`` initialisation and ``tanh`` activation are the details (3) and (8)."""
    shared: bool | None = None
    """Let policy and value share every layer but the last; unset: for images."""


class Samples(NamedTuple):
    """What ``gradients`` learns from: steps [N, ...] or, for recurrent networks, unrolls [N, T, ...]."""

    observation: Tree
    first: Array
    action: Tree
    log_prob: Array
    value: Array
    advantage: Array
    target: Array
    valid: Array
    memory: Tree
    """[N, ...] before the unroll; () for steps"""


def ppo(config: Config, spaces: Spaces, torso: Torso | None = None) -> Algorithm:
    """Return PPO for these spaces."""
    agent = agent_of(config, spaces, torso)

    def prepare(state: State, batch: Trajectory) -> tuple[State, Samples]:
        statistics, batch = agent.normaliser.trajectory(state.statistics, batch)
        here, successors = unroll_with_successors(agent.network, state.params, batch)
        advantage = generalised_advantages(
            batch.reward,
            batch.discount * config.discount,
            continues(batch),
            here["value"],
            successors["value"],
            config.gae_lambda,
        )
        samples = samples_of(
            agent,
            batch,
            log_prob=batch.extras["log_prob"],
            value=here["value"],
            advantage=advantage,
            target=advantage + here["value"],
        )
        return state._replace(statistics=statistics), samples

    return clipping_algorithm("ppo", config, agent, prepare)


def agent_of(config: Config, spaces: Spaces, torso: Torso | None) -> ActorCritic:
    """Return what acts."""
    normaliser = Normaliser(
        config.normalise_observations, config.clip_observations, config.scale_rewards, config.clip_rewards
    )
    return actor_critic(spaces, config.network, torso, config.shared, normaliser)


def clipping_algorithm(name: str, config: Config, agent: ActorCritic, prepare: Prepare) -> Algorithm:
    """Return the algorithm that makes ``Samples`` by ``prepare`` and descends on the clipped loss of them."""

    def loss(params: Tree, samples: Samples) -> tuple[jax.Array, dict[str, jax.Array]]:
        outputs = _evaluate(agent, params, samples)
        distribution = agent.distribution(outputs)
        log_ratio = jnp.where(samples.valid, distribution.log_prob(samples.action) - samples.log_prob, 0.0)
        ratio = jnp.exp(log_ratio)
        advantage = samples.advantage
        if config.standardise_advantages:
            advantage = masked_standardised(advantage, samples.valid)
        clipped_ratio = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
        policy_loss = -masked_mean(jnp.minimum(ratio * advantage, clipped_ratio * advantage), samples.valid)

        value_error = jnp.square(outputs["value"] - samples.target)
        if config.clip_value:
            near = samples.value + jnp.clip(outputs["value"] - samples.value, -config.clip, config.clip)
            value_error = jnp.maximum(value_error, jnp.square(near - samples.target))
        value_loss = 0.5 * masked_mean(value_error, samples.valid)
        entropy = masked_mean(distribution.entropy(), samples.valid)

        total, metrics = actor_critic_loss(policy_loss, value_loss, entropy, config.value_cost, config.entropy_cost)
        return total, {
            **metrics,
            "divergence": masked_mean(ratio - 1 - log_ratio, samples.valid),
            "clipped": masked_mean(jnp.abs(ratio - 1) > config.clip, samples.valid),
        }

    descent = Descent(config.learning_rate, config.anneal, config.max_gradient_norm, epsilon=1e-5)
    experience = Unrolls(
        length=config.unroll,
        epochs=config.epochs,
        minibatches=config.minibatches,
        whole=agent.recurrent,
        return_discount=config.discount if config.scale_rewards else None,
    )
    return agent.algorithm(name, prepare, loss, descent, experience)


def samples_of(
    agent: ActorCritic, batch: Trajectory, *, log_prob: Array, value: Array, advantage: Array, target: Array
) -> Samples:
    """Return the steps of a batch one by one or, for recurrent networks, its unrolls."""
    columns = Samples(
        observation=jax.tree.map(lambda leaf: leaf[:-1], batch.observation),
        first=batch.first[:-1],
        action=batch.action,
        log_prob=log_prob,
        value=value,
        advantage=advantage,
        target=target,
        valid=batch.valid,
        memory=(),
    )
    if agent.recurrent:
        return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), columns)._replace(memory=batch.memory)
    return jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, *leaf.shape[2:])), columns)


def _evaluate(agent: ActorCritic, params: Tree, samples: Samples) -> dict[str, jax.Array]:
    """Return the network's outputs at samples."""
    if not agent.recurrent:
        return agent.network.apply(params, samples.observation, (), samples.first)[0]
    observation, first = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (samples.observation, samples.first))
    outputs, _ = agent.network.unroll(params, observation, samples.memory, first)
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), outputs)
