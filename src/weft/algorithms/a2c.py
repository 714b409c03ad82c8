"""Advantage actor-critic: one step along the policy gradient from each short unroll of fresh experience.

Mnih et al. 2016, 'Asynchronous methods for deep reinforcement learning', arXiv:1602.01783. In the topology ``a3c``,
whose workers compute the gradients and whose server holds the optimiser, this is A3C.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from weft.algorithm import Algorithm
from weft.experience.kinds import Unrolls
from weft.experience.trajectories import continues, swapped
from weft.maths.descent import Descent, Optimiser
from weft.maths.losses import actor_critic_loss, masked_mean
from weft.maths.normalisation import Normaliser
from weft.maths.returns import generalised_advantages
from weft.networks.actor_critic import ActorCritic, actor_critic
from weft.networks.network import NetworkSettings, Torso
from weft.networks.values import unroll_with_successors
from weft.settings import positive, within
from weft.types import Spaces, Trajectory, Tree


@dataclass(frozen=True)
class Config:
    """Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

    learning_rate: float = positive(3e-3)
    """Step size at the beginning. Paper: the best of 50 between 1e-4 and 1e-2."""
    anneal: bool = True
    """Let the learning rate fall linearly to 0 over the run."""
    optimiser: Optimiser = "rmsprop"
    """``rmsprop``, as in the paper, or ``adam``."""
    decay: float = within(0.99, 0, 1)
    """Of the mean square of gradients in RMSProp."""
    epsilon: float = positive(1e-5)
    """Keeps the optimiser from dividing by 0. A3C's usual value for Atari: 0.1."""
    max_gradient_norm: float | None = positive(0.5)
    """Scale gradients down to this global norm."""
    unroll: int = positive(16)
    """Steps of each environment between two updates. Paper: 5."""
    discount: float = within(0.99, 0, 1)
    """Weight of a reward that comes one step later."""
    gae_lambda: float = within(1.0, 0, 1)
    """1 for n-step returns to the end of the unroll, as in the paper; less for generalised advantages."""
    entropy_cost: float = within(0.01, 0)
    """Weight of the entropy bonus. Paper: 0.01."""
    value_cost: float = within(0.5, 0)
    """Weight of the value loss."""
    scale_rewards: bool = True
    """Divide rewards by the running standard deviation of the discounted return; the paper does not."""
    clip_rewards: float | None = positive(10.0)
    """Clip rewards, after scaling, to this magnitude. Paper: 1 (Atari), unscaled."""
    normalise_observations: bool = True
    """Bring observations to mean 0 and standard deviation 1; integers and 8-bit images are left as they are."""
    clip_observations: float | None = positive(10.0)
    """Clip normalised observations to this magnitude."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    """The network."""
    shared: bool | None = None
    """Let policy and value share every layer but the last, as in the paper; unset: for images."""


def a2c(config: Config, spaces: Spaces, torso: Torso | None = None) -> Algorithm:
    """Return A2C for these spaces."""
    agent = agent_of(config, spaces, torso)

    def loss(params: Tree, unrolls: Trajectory) -> tuple[jax.Array, dict[str, jax.Array]]:
        batch = swapped(unrolls)
        here, successors = unroll_with_successors(agent.network, params, batch)
        value, value_reached = jax.lax.stop_gradient((here["value"], successors["value"]))
        advantage = generalised_advantages(
            batch.reward,
            batch.discount * config.discount,
            continues(batch),
            value,
            value_reached,
            config.gae_lambda,
        )
        distribution = agent.distribution(here)
        policy_loss = -masked_mean(distribution.log_prob(batch.action) * advantage, batch.valid)
        value_loss = 0.5 * masked_mean(jnp.square(here["value"] - (value + advantage)), batch.valid)
        entropy = masked_mean(distribution.entropy(), batch.valid)
        return actor_critic_loss(policy_loss, value_loss, entropy, config.value_cost, config.entropy_cost)

    experience = Unrolls(config.unroll, whole=True, return_discount=config.discount if config.scale_rewards else None)
    return agent.algorithm("a2c", agent.whole_unrolls, loss, descent_of(config), experience)


def agent_of(config: Config, spaces: Spaces, torso: Torso | None) -> ActorCritic:
    """Return what acts."""
    normaliser = Normaliser(
        config.normalise_observations, config.clip_observations, config.scale_rewards, config.clip_rewards
    )
    return actor_critic(spaces, config.network, torso, config.shared, normaliser)


def descent_of(config: Config) -> Descent:
    """Return how gradients become steps."""
    return Descent(
        config.learning_rate, config.anneal, config.max_gradient_norm, config.epsilon, config.optimiser, config.decay
    )
