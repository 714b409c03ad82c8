"""IMPALA: actor-critic learning from actors whose policy is older than the learner's, corrected by V-trace.

Espeholt et al. 2018, 'IMPALA: Scalable distributed deep-RL with importance weighted actor-learner architectures',
arXiv:1802.01561. Importance ratios, values and targets are those of the very parameters that the gradient is taken of,
so that they are right however old the experience is and however often it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from weft.algorithm import Algorithm
from weft.algorithms import a2c
from weft.experience.kinds import Unrolls
from weft.experience.trajectories import continues, swapped
from weft.maths.losses import actor_critic_loss, masked_mean
from weft.maths.returns import vtrace
from weft.networks.network import Torso
from weft.networks.values import unroll_with_successors
from weft.settings import positive, within
from weft.types import Spaces, Trajectory, Tree


@dataclass(frozen=True)
class Config(a2c.Config):
    """IMPALA (Espeholt et al. 2018, arXiv:1802.01561)."""

    learning_rate: float = positive(3e-3)
    """Step size at the beginning. Paper: 6e-4 (Atari)."""
    epsilon: float = positive(1e-5)
    """Keeps the optimiser from dividing by 0. Paper: 0.01 (Atari)."""
    max_gradient_norm: float | None = positive(0.5)
    """Scale gradients down to this global norm. Paper: 40 (Atari), of a loss that is a sum over steps."""
    unroll: int = positive(20)
    """Steps of each environment between two updates. Paper: 20 (Atari)."""
    gae_lambda: float = within(1.0, 0, 1)
    """Decay of V-trace's traces. Paper: 1."""
    epochs: int = positive(1)
    """Passes over each batch. Paper: 1."""
    minibatches: int = positive(1)
    """Optimiser steps in each pass; each learns from whole unrolls. Paper: 1."""
    correction: Literal["vtrace", "none"] = "vtrace"
    """How experience of an older policy is corrected; ``none`` learns as if the learner's own policy had acted."""
    rho_bar: float = positive(1.0)
    """Importance ratios are clipped to this where they decide what is learned. Paper: 1."""
    c_bar: float = positive(1.0)
    """Importance ratios are clipped to this where they decide how far back it is learned. Paper: 1."""


def impala(config: Config, spaces: Spaces, torso: Torso | None = None) -> Algorithm:
    """Return IMPALA for these spaces."""
    agent = a2c.agent_of(config, spaces, torso)

    def loss(params: Tree, unrolls: Trajectory) -> tuple[jax.Array, dict[str, jax.Array]]:
        batch = swapped(unrolls)
        here, successors = unroll_with_successors(agent.network, params, batch)
        distribution = agent.distribution(here)
        log_prob = distribution.log_prob(batch.action)
        log_ratio = jnp.where(batch.valid, jax.lax.stop_gradient(log_prob) - batch.extras["log_prob"], 0.0)
        ratio = jnp.exp(log_ratio)
        rho = ratio if config.correction == "vtrace" else jnp.ones_like(ratio)
        target, advantage = vtrace(
            batch.reward,
            batch.discount * config.discount,
            continues(batch),
            *jax.lax.stop_gradient((here["value"], successors["value"])),
            rho,
            config.gae_lambda,
            config.rho_bar,
            config.c_bar,
        )
        policy_loss = -masked_mean(jnp.minimum(rho, config.rho_bar) * log_prob * advantage, batch.valid)
        value_loss = 0.5 * masked_mean(jnp.square(here["value"] - target), batch.valid)
        entropy = masked_mean(distribution.entropy(), batch.valid)
        total, metrics = actor_critic_loss(policy_loss, value_loss, entropy, config.value_cost, config.entropy_cost)
        return total, {
            **metrics,
            "divergence": masked_mean(ratio - 1 - log_ratio, batch.valid),
            "clipped": masked_mean(ratio > config.rho_bar, batch.valid),
        }

    experience = Unrolls(
        length=config.unroll,
        epochs=config.epochs,
        minibatches=config.minibatches,
        whole=True,
        return_discount=config.discount if config.scale_rewards else None,
    )
    return agent.algorithm("impala", agent.whole_unrolls, loss, a2c.descent_of(config), experience)
