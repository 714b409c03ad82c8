"""Recording of unrolls: T consecutive steps of B environments, written once, row by row, into one trajectory."""

from __future__ import annotations

import numpy as np

from weft.experience.kinds import Unrolls
from weft.trees import Index, allocate, write
from weft.types import EVERY, Ids, Timestep, Trajectory, Tree


class UnrollRecorder:
    """Fills one ``Trajectory`` [T, B] at a time; the same arrays are used again for the next one."""

    def __init__(self, experience: Unrolls, number: int) -> None:
        self.length = experience.length
        self.number = number
        self.return_discount = experience.return_discount
        self.running_return = np.zeros(number, np.float32)
        self._trajectory: Trajectory | None = None
        self._row = 0

    def begin(self, trajectory: Trajectory) -> None:
        """Record the next unroll into these arrays rather than into the recorder's own."""
        self._trajectory = trajectory

    def record(
        self, timestep: Timestep, action: Tree, extras: dict[str, Tree], following: Timestep, ids: Ids = EVERY
    ) -> None:
        """Write one step of the environments ``ids``: what was seen, what was done there, and what came of it."""
        if self._trajectory is None:
            self._trajectory = self._allocate(timestep, action, extras, following)
        columns, at = self._trajectory, self._next(ids)
        write(columns.observation, at, timestep.observation)
        columns.first[at] = timestep.first
        write(columns.action, at, action)
        columns.reward[at] = following.reward
        columns.discount[at] = following.discount
        columns.valid[at] = ~np.asarray(timestep.last)
        for name, value in extras.items():
            write(columns.extras[name], at, value)
        if columns.final is not None:
            write(columns.final, at, following.final)
        if self.return_discount is not None:
            self._record_running_return(columns.extras["running_return"], at, following, ids)

    def finish(self, timestep: Timestep, memory: Tree) -> Trajectory:
        """Close the unroll with the observation after its last action and the ``memory`` it began with."""
        assert self._trajectory is not None
        assert self._row == self.length
        write(self._trajectory.observation, self.length, timestep.observation)
        self._trajectory.first[self.length] = timestep.first
        self._row = 0
        return self._trajectory._replace(memory=memory)

    def _next(self, ids: Ids) -> Index:
        """Return where the next step of the environments ``ids`` goes."""
        self._row += 1
        return self._row - 1

    def _record_running_return(self, column: np.ndarray, at: Index, following: Timestep, ids: Ids) -> None:
        assert self.return_discount is not None
        running = self.running_return[ids]
        running *= self.return_discount
        running += following.reward
        column[at] = running
        running[following.last | following.first] = 0.0
        if ids is not EVERY:
            self.running_return[ids] = running

    def _allocate(self, timestep: Timestep, action: Tree, extras: dict[str, Tree], following: Timestep) -> Trajectory:
        flat = (self.length, self.number)
        columns = allocate(extras, *flat)
        if self.return_discount is not None:
            columns["running_return"] = np.zeros(flat, np.float32)
        return Trajectory(
            observation=allocate(timestep.observation, self.length + 1, self.number),
            first=np.zeros((self.length + 1, self.number), bool),
            action=allocate(action, *flat),
            reward=np.zeros(flat, np.float32),
            discount=np.zeros(flat, np.float32),
            valid=np.zeros(flat, bool),
            extras=columns,
            memory=(),
            final=None if following.final is None else allocate(following.final, *flat),
        )
