"""Asynchronous PPO: the clipped objective of PPO on experience of an older policy, with V-trace's advantages.

Petrenko et al. 2020, 'Sample Factory', arXiv:2006.11751; Luo et al. 2020, 'IMPACT: Importance weighted asynchronous
architectures with clipped target networks', arXiv:1912.00167. The policy ratio is of the learner's policy to the one
that acted: it corrects the action itself for the lag, V-trace corrects what came after it, and the clip bounds how far
from its experience the learner may go. Without lag this is PPO.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from weft.algorithm import Algorithm, State
from weft.algorithms import ppo
from weft.experience.trajectories import continues
from weft.maths.returns import vtrace
from weft.networks.network import Torso
from weft.networks.values import unroll_with_successors
from weft.settings import positive
from weft.types import Spaces, Trajectory


@dataclass(frozen=True)
class Config(ppo.Config):
    """Asynchronous PPO (Petrenko et al. 2020, arXiv:2006.11751; Luo et al. 2020, arXiv:1912.00167)."""

    learning_rate: float = positive(1e-3)
    """Step size of Adam at the beginning. Sample Factory: 1e-4."""
    unroll: int = positive(32)
    """Steps of each environment between two updates; shorter ones are fresher. Sample Factory: 32."""
    epochs: int = positive(2)
    """Passes over each batch. Sample Factory: 1."""
    rho_bar: float = positive(1.0)
    """Importance ratios are clipped to this where they decide what is learned. IMPALA: 1."""
    c_bar: float = positive(1.0)
    """Importance ratios are clipped to this where they decide how far back it is learned. IMPALA: 1."""


def appo(config: Config, spaces: Spaces, torso: Torso | None = None) -> Algorithm:
    """Return asynchronous PPO for these spaces."""
    agent = ppo.agent_of(config, spaces, torso)

    def prepare(state: State, batch: Trajectory) -> tuple[State, ppo.Samples]:
        statistics, batch = agent.normaliser.trajectory(state.statistics, batch)
        here, successors = unroll_with_successors(agent.network, state.params, batch)
        log_prob = batch.extras["log_prob"]
        log_ratio = agent.distribution(here).log_prob(batch.action) - log_prob
        target, advantage = vtrace(
            batch.reward,
            batch.discount * config.discount,
            continues(batch),
            here["value"],
            successors["value"],
            jnp.exp(jnp.where(batch.valid, log_ratio, 0.0)),
            config.gae_lambda,
            config.rho_bar,
            config.c_bar,
        )
        samples = ppo.samples_of(
            agent, batch, log_prob=log_prob, value=here["value"], advantage=advantage, target=target
        )
        return state._replace(statistics=statistics), samples

    return ppo.clipping_algorithm("appo", config, agent, prepare)
