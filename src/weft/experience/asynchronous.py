"""Recording of environments that are not all at the same step: every one of them has a row of its own."""

from __future__ import annotations

import numpy as np

from weft.experience.kinds import Replay, Unrolls
from weft.experience.replay import ReplayBuffer
from weft.experience.unrolls import UnrollRecorder
from weft.trees import map_tree, write
from weft.types import Ids, Timestep, Trajectory, Tree


class AsynchronousUnrollRecorder(UnrollRecorder):
    """Fills a ``Trajectory`` [T, B] whose environments have made different numbers of steps.

    Beyond the steps of an environment its column is not ``valid`` and zero, save for the observation that its last
    step led to. So that step is bootstrapped like any other that is followed by one that is not real.
    """

    def __init__(self, experience: Unrolls, number: int) -> None:
        super().__init__(experience, number)
        self._ids = np.arange(number)
        self._rows = np.zeros(number, np.int64)

    def begin(self, trajectory: Trajectory) -> None:
        """Record the next unroll into these arrays."""
        map_tree(lambda leaf: None if leaf is None else leaf.fill(0), trajectory)
        super().begin(trajectory)

    def finish(self, timestep: Timestep, memory: Tree) -> Trajectory:
        """Close the unroll with what every environment shows now and the ``memory`` it began with."""
        assert self._trajectory is not None
        trajectory, at = self._trajectory, (self._rows, self._ids)
        write(trajectory.observation, at, timestep.observation)
        trajectory.first[at] = timestep.first
        self._trajectory = None
        self._rows[:] = 0
        return trajectory._replace(memory=memory)

    def _next(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows[ids]
        self._rows[ids] += 1
        return rows, self._ids[ids]


class AsynchronousReplayBuffer(ReplayBuffer):
    """The last ``capacity / B`` steps of each environment; samples are uniform over all that is held."""

    def __init__(self, experience: Replay, number: int, seed: np.random.SeedSequence) -> None:
        super().__init__(experience, number, seed)
        self._ids = np.arange(number)
        self._heads = np.zeros(number, np.int64)
        """Rows written in the column of each environment; ``head`` is the highest."""

    def __len__(self) -> int:
        """Return the number of steps held, fillers included."""
        return int(self._held().sum())

    def save(self) -> Tree:
        """Everything as a tree of arrays; only the rows in use."""
        return {**super().save(), "heads": self._heads}

    def restore(self, saved: Tree, episodes_restarted: bool = False) -> None:
        """Continue from what ``save`` returned, with exactly the same next samples."""
        self._heads = np.array(saved["heads"])
        super().restore(saved, episodes_restarted)

    def _held(self) -> np.ndarray:
        return np.minimum(self._heads, self.rows)

    def _next(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
        self._heads[ids] += 1
        self.head = int(self._heads.max())
        return self._newest(ids)

    def _newest(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
        return (self._heads[ids] - 1) % self.rows, self._ids[ids]

    def _draw(self, span: int, size: int) -> np.ndarray:
        """Draw places (row * B + environment) that have ``span`` rows after them."""
        held = self._held()
        eligible = np.maximum(held - span, 0)
        ends = np.cumsum(eligible)
        drawn = self._random.integers(0, ends[-1], size)
        ids = np.searchsorted(ends, drawn, side="right")
        age = drawn - (ends - eligible)[ids]
        rows = ((self._heads - held)[ids] + age) % self.rows
        return rows * self.number + ids
