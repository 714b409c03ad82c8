"""Recording of environments that are not all at the same step: every one of them has a row of its own."""

from __future__ import annotations

import numpy as np

from weft.experience.kinds import Unrolls
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
        self._finished = self._rows.copy()

    @property
    def rows(self) -> np.ndarray:
        """Steps [B] of each environment in the unroll that was finished last."""
        return self._finished

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
        self._finished = self._rows.copy()
        self._rows[:] = 0
        return trajectory._replace(memory=memory)

    def _next(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows[ids]
        self._rows[ids] += 1
        return rows, self._ids[ids]
