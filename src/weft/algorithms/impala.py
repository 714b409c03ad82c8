"""IMPALA: actor-critic learning from actors whose policy is older than the learner's, corrected by V-trace.

Espeholt et al. 2018, 'IMPALA: Scalable distributed deep-RL with importance weighted actor-learner architectures',
arXiv:1802.01561. Importance ratios, values and targets are those of the very parameters that the gradient is taken of,
so that they are right however old the experience is and however often it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import jax
import jax.numpy as jnp

from weft.algorithm import Algorithm
from weft.experience.kinds import Unrolls
from weft.experience.trajectories import continues, swapped
from weft.maths.descent import Descent, Optimiser
from weft.maths.losses import actor_critic_loss, masked_mean
from weft.maths.normalisation import Normaliser
from weft.maths.returns import vtrace
from weft.networks.actor_critic import actor_critic
from weft.networks.network import NetworkSettings, Torso
from weft.networks.values import unroll_with_successors
from weft.settings import positive, within
from weft.types import Spaces, Trajectory, Tree


@dataclass(frozen=True)
class Config:
    """IMPALA (Espeholt et al. 2018, arXiv:1802.01561)."""

    learning_rate: float = positive(3e-3)
    """Step size at the beginning. Paper: 6e-4 (Atari)."""
    anneal: bool = True
    """Let the learning rate fall linearly to 0 over the run."""
    optimiser: Optimiser = "rmsprop"
    """``rmsprop``, as in the paper, or ``adam``."""
    decay: float = within(0.99, 0, 1)
    """Of the mean square of gradients in RMSProp."""
    epsilon: float = positive(1e-5)
    """Keeps the optimiser from dividing by 0. Paper: 0.01 (Atari)."""
    max_gradient_norm: float | None = positive(0.5)
    """Scale gradients down to this global norm. Paper: 40 (Atari), of a loss that is a sum over steps."""
    unroll: int = positive(20)
    """Steps of each environment between two updates. Paper: 20 (Atari)."""
    epochs: int = positive(1)
    """Passes over each batch."""
    minibatches: int = positive(1)
    """Optimiser steps in each pass; each learns from whole unrolls."""
    discount: float = within(0.99, 0, 1)
    """Weight of a reward that comes one step later."""
    correction: Literal["vtrace", "none"] = "vtrace"
    """How experience of an older policy is corrected; ``none`` learns as if the learner's own policy had acted."""
    rho_bar: float = positive(1.0)
    """Importance ratios are clipped to this where they decide what is learned."""
    c_bar: float = positive(1.0)
    """Importance ratios are clipped to this where they decide how far back it is learned."""
    vtrace_lambda: float = within(1.0, 0, 1)
    """Decay of the traces; 1 in the paper."""
    entropy_cost: float = within(0.0, 0)
    """Weight of the entropy bonus. Paper: 0.01 (Atari)."""
    value_cost: float = within(0.5, 0)
    """Weight of the value loss."""
    scale_rewards: bool = True
    """Divide rewards by the running standard deviation of the discounted return; the paper does not."""
    clip_rewards: float | None = positive(10.0)
    """Clip rewards, after scaling, to this magnitude. Paper: 1 (Atari), unscaled."""
    normalise_observations: bool = False
    """Bring observations to mean 0 and standard deviation 1; integers and 8-bit images are left as they are."""
    clip_observations: float | None = positive(10.0)
    """Clip normalised observations to this magnitude."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    """The network."""
    shared: bool | None = None
    """Let policy and value share every layer but the last, as in the paper; unset: for images."""


def impala(config: Config, spaces: Spaces, torso: Torso | None = None) -> Algorithm:
    """Return IMPALA for these spaces."""
    normaliser = Normaliser(
        config.normalise_observations, config.clip_observations, config.scale_rewards, config.clip_rewards
    )
    agent = actor_critic(spaces, config.network, torso, config.shared, normaliser)

    def loss(params: Tree, unrolls: Trajectory) -> tuple[jax.Array, dict[str, jax.Array]]:
        batch = swapped(unrolls)
        here, successors = unroll_with_successors(agent.network, params, batch)
        distribution = agent.distribution(here)
        log_prob = distribution.log_prob(batch.action)
        log_rho = jnp.where(batch.valid, jax.lax.stop_gradient(log_prob) - batch.extras["log_prob"], 0.0)
        rho = jnp.exp(log_rho)
        target, advantage = vtrace(
            batch.reward,
            batch.discount * config.discount,
            continues(batch),
            *jax.lax.stop_gradient((here["value"], successors["value"])),
            rho if config.correction == "vtrace" else jnp.ones_like(rho),
            config.vtrace_lambda,
            config.rho_bar,
            config.c_bar,
        )
        policy_loss = -masked_mean(log_prob * advantage, batch.valid)
        value_loss = 0.5 * masked_mean(jnp.square(here["value"] - target), batch.valid)
        entropy = masked_mean(distribution.entropy(), batch.valid)
        total, metrics = actor_critic_loss(policy_loss, value_loss, entropy, config.value_cost, config.entropy_cost)
        return total, {
            **metrics,
            "divergence": masked_mean(rho - 1 - log_rho, batch.valid),
            "clipped": masked_mean(rho > config.rho_bar, batch.valid),
        }

    descent = Descent(
        config.learning_rate, config.anneal, config.max_gradient_norm, config.epsilon, config.optimiser, config.decay
    )
    experience = Unrolls(
        length=config.unroll,
        epochs=config.epochs,
        minibatches=config.minibatches,
        whole=True,
        return_discount=config.discount if config.scale_rewards else None,
    )
    return agent.algorithm("impala", agent.whole_unrolls, loss, descent, experience)
