"""Normalisation of observations and rewards by what the run has seen so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from weft.maths.statistics import Moments, initial, initial_tree, merge, normalise_tree, of_batch, update_tree
from weft.types import Array, Trajectory, Tree


class Statistics(NamedTuple):
    """What normalisation has learned; part of an algorithm's state."""

    observation: tuple[Moments | None, ...]
    """one entry for each leaf of an observation; () when observations are left alone"""
    returns: Moments
    """of the running discounted return"""


@dataclass(frozen=True)
class Normaliser:
    """Which of observations and rewards are normalised, and how far the results may go."""

    observations: bool
    clip_observations: float | None
    rewards: bool
    clip_rewards: float | None

    def initial(self, example: Tree) -> Statistics:
        """Return statistics before anything was seen; ``example`` is one unbatched observation, maybe abstract."""
        return Statistics(initial_tree(example) if self.observations else (), initial(()))

    def observation(self, statistics: Statistics, observation: Tree) -> Tree:
        """Normalise the floating leaves of observations [..., ...]."""
        if not self.observations:
            return observation
        return normalise_tree(statistics.observation, observation, self.clip_observations)

    def reward(self, statistics: Statistics, reward: Array) -> Array:
        """Divide rewards by the standard deviation of the return (never shifting them), then clip."""
        scaled = reward * jax.lax.rsqrt(statistics.returns.variance + 1e-8) if self.rewards else reward
        return scaled if self.clip_rewards is None else jnp.clip(scaled, -self.clip_rewards, self.clip_rewards)

    def updated(self, statistics: Statistics, trajectory: Trajectory) -> Statistics:
        """Learn from the real steps of a raw trajectory."""
        observation, returns = statistics
        if self.observations:
            seen = jax.tree.map(lambda leaf: leaf[:-1], trajectory.observation)
            observation = update_tree(observation, seen, trajectory.valid)
        if self.rewards:
            returns = merge(returns, of_batch(trajectory.extras["running_return"], trajectory.valid))
        return Statistics(observation, returns)

    def trajectory(self, statistics: Statistics, trajectory: Trajectory) -> tuple[Statistics, Trajectory]:
        """Return the updated statistics and the normalised trajectory.

        Observations are normalised as they were when they were acted on, so that the policy's ratio begins at 1;
        rewards by the newest statistics, so that the first batch is not unscaled.
        """
        updated = self.updated(statistics, trajectory)
        return updated, trajectory._replace(
            observation=self.observation(statistics, trajectory.observation),
            final=None if trajectory.final is None else self.observation(statistics, trajectory.final),
            reward=self.reward(updated, trajectory.reward),
        )
