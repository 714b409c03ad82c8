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

from weft.algorithm import Act, Algorithm, Policy, State
from weft.experience.kinds import Unrolls
from weft.experience.trajectories import continues
from weft.maths.descent import Descent, gradients_of
from weft.maths.losses import masked_mean, masked_standardised
from weft.maths.normalisation import Normaliser
from weft.maths.returns import generalised_advantages
from weft.networks.action import action_adapter
from weft.networks.network import NetworkSettings, Torso, build
from weft.networks.observation import is_image
from weft.networks.policy import stochastic, value
from weft.networks.spaces import examples
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
    actions = action_adapter(spaces.action)
    heads = {"policy": stochastic(actions), "value": value()}
    shared = is_image(spaces.observation) if config.shared is None else config.shared
    network = build(spaces.observation, heads, config.network, torso, shared=shared)
    recurrent = config.network.recurrent is not None
    normaliser = Normaliser(
        config.normalise_observations, config.clip_observations, config.scale_rewards, config.clip_rewards
    )
    descent = Descent(config.learning_rate, config.anneal, config.max_gradient_norm, epsilon=1e-5)

    def init(key: jax.Array) -> State:
        params = network.init(key)
        statistics = normaliser.initial(examples(spaces.observation))
        return State.begin(params, descent.init(params), statistics=statistics)

    def act(policy: Policy, observation: Tree, memory: Tree, first: Array, key: jax.Array, explore: Array) -> Act:
        params, statistics = policy
        outputs, memory = network.apply(params, normaliser.observation(statistics, observation), memory, first)
        distribution = actions.distribution(outputs["policy"])
        raw = jax.tree.map(
            lambda sampled, likeliest: jnp.where(explore > 0, sampled, likeliest),
            distribution.sample(key),
            distribution.mode(),
        )
        return Act(actions.to_environment(raw), raw, memory, {"log_prob": distribution.log_prob(raw)})

    def state_value(policy: Policy, observation: Tree, memory: Tree, first: Array) -> Array:
        params, statistics = policy
        return network.apply(params, normaliser.observation(statistics, observation), memory, first)[0]["value"]

    def prepare(state: State, batch: Trajectory) -> tuple[State, Samples]:
        statistics, batch = normaliser.trajectory(state.statistics, batch)
        here, successors = unroll_with_successors(network, state.params, batch)
        advantage = generalised_advantages(
            batch.reward,
            batch.discount * config.discount,
            continues(batch),
            here["value"],
            successors["value"],
            config.gae_lambda,
        )
        columns = Samples(
            observation=jax.tree.map(lambda leaf: leaf[:-1], batch.observation),
            first=batch.first[:-1],
            action=batch.action,
            log_prob=batch.extras["log_prob"],
            value=here["value"],
            advantage=advantage,
            target=advantage + here["value"],
            valid=batch.valid,
            memory=(),
        )
        if recurrent:
            samples = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), columns)._replace(memory=batch.memory)
        else:
            samples = jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, *leaf.shape[2:])), columns)
        return state._replace(statistics=statistics), samples

    def evaluate(params: Tree, samples: Samples) -> dict[str, jax.Array]:
        if not recurrent:
            return network.apply(params, samples.observation, (), samples.first)[0]
        time_major = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (samples.observation, samples.first))
        outputs, _ = network.unroll(params, time_major[0], samples.memory, time_major[1])
        return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), outputs)

    def loss(params: Tree, samples: Samples) -> tuple[jax.Array, dict[str, jax.Array]]:
        outputs = evaluate(params, samples)
        distribution = actions.distribution(outputs["policy"])
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

        total = policy_loss + config.value_cost * value_loss - config.entropy_cost * entropy
        return total, {
            "loss": total,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "divergence": masked_mean(ratio - 1 - log_ratio, samples.valid),
            "clipped": masked_mean(jnp.abs(ratio - 1) > config.clip, samples.valid),
        }

    return Algorithm(
        name="ppo",
        init=init,
        memory=network.memory,
        act=act,
        value=state_value,
        explore=lambda progress: 1.0,
        prepare=prepare,
        gradients=gradients_of(loss),
        apply=descent.step,
        experience=Unrolls(
            length=config.unroll,
            epochs=config.epochs,
            minibatches=config.minibatches,
            whole=recurrent,
            return_discount=config.discount if config.scale_rewards else None,
        ),
    )
