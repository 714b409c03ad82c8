"""Playing whole episodes with a policy and counting what they return."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.envs.base import Environment
from weft.errors import WeftError
from weft.runs.policy import Policy

LONGEST_EPISODE = 100_000
"""Steps after which an evaluation gives up; Atari's longest episodes have 27,000."""


class Evaluation(NamedTuple):
    """Returns and lengths of the episodes played."""

    returns: np.ndarray
    lengths: np.ndarray

    @property
    def mean_return(self) -> float:
        """Mean over the episodes."""
        return float(self.returns.mean())

    @property
    def standard_deviation(self) -> float:
        """Of the returns, over the episodes."""
        return float(self.returns.std())


def evaluate(policy: Policy, environment: Environment, episodes: int, seed: int, deterministic: bool) -> Evaluation:
    """Play ``episodes`` whole episodes.

    Each of the B environments plays the same number of them (or one less), decided beforehand: counting whichever
    end first would favour short episodes.
    """
    number = environment.number
    quota = np.full(number, episodes // number)
    quota[: episodes % number] += 1
    returns: list[float] = []
    lengths: list[int] = []
    total, length = np.zeros(number), np.zeros(number, int)
    timestep = environment.reset(seed)
    policy.reset()
    while quota.any():
        if length.max() > LONGEST_EPISODE:
            raise WeftError(
                f"An episode of {environment.name} did not end within {LONGEST_EPISODE:,} steps: "
                "give the environment a time limit (env.time_limit) to evaluate in it."
            )
        timestep_before = timestep
        timestep = environment.step(policy.act(timestep.observation, deterministic, timestep.first))
        real = ~np.asarray(timestep_before.last)
        total += np.where(real, timestep.reward, 0)
        length += real
        ended = real & (timestep.last | timestep.first)
        for index in np.flatnonzero(ended & (quota > 0)):
            returns.append(float(total[index]))
            lengths.append(int(length[index]))
            quota[index] -= 1
        total[ended] = 0
        length[ended] = 0
    return Evaluation(np.array(returns), np.array(lengths))
