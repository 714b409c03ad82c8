"""What the main nodes of all distributed topologies do: keep the run's account."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from weft.experience.episodes import EpisodeStatistics
from weft.program import Leaf
from weft.topologies.messages import PARTS, Finished, Unroll, zeros
from weft.types import Tree


class Counted(NamedTuple):
    """What a tally counted, as it travels; [] each but for the episodes."""

    steps: np.ndarray
    """agent steps"""
    uses: np.ndarray
    """things that were made by some version of the parameters and used by a later one"""
    lags: np.ndarray
    """sum of the versions in between"""
    lag_max: np.ndarray
    episodes: Finished
    seconds: dict[str, np.ndarray]

    @classmethod
    def layout(cls) -> Counted:
        """Return the layout."""
        number, seconds = Leaf((), "int64"), dict.fromkeys(PARTS, Leaf((), "float64"))
        return cls(number, number, number, number, Finished.layout(), seconds)  # type: ignore[arg-type]


class Tally:
    """Counts steps, episodes, the age of what was used, and seconds, until they are handed on."""

    def __init__(self) -> None:
        self._episodes = EpisodeStatistics(1)
        self._before = 0
        self._reset()

    def _reset(self) -> None:
        self._before = self._episodes.episodes
        self._numbers = dict.fromkeys(("steps", "uses", "lags", "lag_max"), 0)
        self._seconds = dict.fromkeys(PARTS, 0.0)

    def count(self, unroll: Unroll, version: int) -> None:
        """Count an unroll that parameters of a version learn from."""
        self.add(int(unroll.steps), unroll.episodes, {part: float(unroll.seconds[part]) for part in PARTS})
        self.lag(version - int(unroll.version))

    def add(self, steps: int, episodes: Finished, seconds: dict[str, float]) -> None:
        """Count what an actor did."""
        self._numbers["steps"] += steps
        episodes.add_to(self._episodes)
        for part, spent in seconds.items():
            self._seconds[part] += spent

    def lag(self, versions: int) -> None:
        """Count how many versions old something was when it was used."""
        self._numbers["uses"] += 1
        self._numbers["lags"] += versions
        self._numbers["lag_max"] = max(self._numbers["lag_max"], versions)

    def hand_on(self, slot: Counted) -> None:
        """Write what was counted, and begin anew."""
        for name, number in self._numbers.items():
            getattr(slot, name)[...] = number
        slot.episodes.fill(self._episodes, self._before)
        for part, spent in self._seconds.items():
            slot.seconds[part][...] = spent
        self._reset()


class Account:
    """The whole run's count."""

    def __init__(self, actors: int) -> None:
        self._actors = actors
        self._own: Counted = zeros(Counted.layout())
        self.steps = 0
        self.episodes = EpisodeStatistics(1)
        self._reset()
        self._reported_at = perf_counter()

    def _reset(self) -> None:
        self._uses, self._lags, self._lag_max = 0, 0, 0
        self._seconds = dict.fromkeys(PARTS, 0.0)

    def take(self, tally: Tally) -> None:
        """Take over what was counted in this node."""
        tally.hand_on(self._own)
        self.add(self._own)

    def add(self, counted: Counted) -> None:
        """Add what was counted elsewhere."""
        self.steps += int(counted.steps)
        self._uses += int(counted.uses)
        self._lags += int(counted.lags)
        self._lag_max = max(self._lag_max, int(counted.lag_max))
        counted.episodes.add_to(self.episodes)
        for part in PARTS:
            self._seconds[part] += float(counted.seconds[part])

    def report(self, learning: float) -> dict[str, float]:
        """Episode statistics, policy lag, and the share of its time that each role spent on each part.

        ``learning`` is how many seconds were spent on it since the last call.
        """
        now = perf_counter()
        elapsed, self._reported_at = max(now - self._reported_at, 1e-9), now
        shares = {f"share_{part}": spent / self._actors / elapsed for part, spent in self._seconds.items()}
        lags = {"lag_mean": self._lags / self._uses, "lag_max": self._lag_max} if self._uses else {}
        self._reset()
        return {**self.episodes.report(), **lags, **shares, "share_learning": learning / elapsed}

    def save(self) -> Tree:
        """Everything as a tree of arrays."""
        return {"steps": self.steps, "episodes": self.episodes.save()}

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned."""
        self.steps = int(saved["steps"])
        self.episodes.restore(saved["episodes"])
