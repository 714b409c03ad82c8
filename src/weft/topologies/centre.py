"""What the main nodes of all distributed topologies do: keep the run's account, and tell the monitor."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from weft.experience.episodes import EpisodeStatistics
from weft.topologies.job import Job
from weft.topologies.messages import PARTS, Finished, Unroll
from weft.types import Tree


class Account:
    """Steps, episodes, the age of what was learned from, and what the time went into."""

    def __init__(self, job: Job) -> None:
        self._actors = job.work.actors
        self.steps = 0
        self.episodes = EpisodeStatistics(1)
        self._lags: list[int] = []
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._reported_at = perf_counter()

    def count(self, unroll: Unroll, version: int) -> None:
        """Count an unroll that is learned from by parameters of a version."""
        self.experience(int(unroll.steps), unroll.episodes, {part: float(unroll.seconds[part]) for part in PARTS})
        self.lag(version - int(unroll.version))

    def experience(self, steps: int, episodes: Finished, seconds: dict[str, float]) -> None:
        """Count what an actor did."""
        self.steps += steps
        episodes.add_to(self.episodes)
        for part, spent in seconds.items():
            self._seconds[part] += spent

    def lag(self, versions: int) -> None:
        """Count how many versions old something was when it was used."""
        self._lags.append(versions)

    def report(self, learning: float) -> dict[str, float]:
        """Episode statistics, policy lag, and the share of its time that each role spent on each part.

        ``learning`` is how many seconds were spent on it since the last call.
        """
        now = perf_counter()
        elapsed, self._reported_at = max(now - self._reported_at, 1e-9), now
        shares = {f"share_{part}": spent / self._actors / elapsed for part, spent in self._seconds.items()}
        lags = {"lag_mean": float(np.mean(self._lags)), "lag_max": max(self._lags)} if self._lags else {}
        self._seconds, self._lags = dict.fromkeys(PARTS, 0.0), []
        return {**self.episodes.report(), **lags, **shares, "share_learning": learning / elapsed}

    def save(self) -> Tree:
        """Everything as a tree of arrays."""
        return {"steps": self.steps, "episodes": self.episodes.save()}

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned."""
        self.steps = int(saved["steps"])
        self.episodes.restore(saved["episodes"])
