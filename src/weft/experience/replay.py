"""A replay of steps: every observation is stored once, n-step transitions and sequences are cut out when sampled.

Own code rather than a library's because the canonical step needs it: successors are found in the stream itself (no
second copy of the observations), fillers between episodes are never served, and its state is saved and restored to
exactly the same next samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.experience.kinds import Replay
from weft.trees import Index, allocate, map_tree, write
from weft.types import EVERY, Array, Ids, Timestep, Trajectory, Tree


class Transitions(NamedTuple):
    """N independent n-step transitions."""

    observation: Tree
    """[N, ...] where the action was taken"""
    action: Tree
    """[N, ...]"""
    reward: Array
    """[N] discounted sum of the rewards on the way"""
    discount: Array
    """[N] what the value of ``successor`` is multiplied by: 0 if the episode terminated on the way"""
    successor: Tree
    """[N, ...] the observation n steps later, or the last one of the episode"""


class Columns(NamedTuple):
    """Storage, [rows, B, ...]: row t holds an observation, the action taken there and what came of it."""

    observation: Tree
    first: np.ndarray
    action: Tree
    reward: np.ndarray
    discount: np.ndarray
    valid: np.ndarray
    extras: dict[str, Tree]
    memory: Tree
    final: Tree | None


class ReplayBuffer:
    """The last ``capacity`` steps of B environments, sampled uniformly."""

    def __init__(self, experience: Replay, number: int, seed: np.random.SeedSequence) -> None:
        self.experience = experience
        self.number = number
        self.rows = experience.capacity // number
        self.head = 0
        """Rows written since the beginning; row ``head % rows`` is written next."""
        self._random = np.random.Generator(np.random.Philox(seed))
        self._columns: Columns | None = None

    def __len__(self) -> int:
        """Return the number of steps held, fillers included."""
        return min(self.head, self.rows) * self.number

    def add(
        self,
        timestep: Timestep,
        action: Tree,
        extras: dict[str, Tree],
        memory: Tree,
        following: Timestep,
        ids: Ids = EVERY,
    ) -> None:
        """Write one step of the environments ``ids`` over their oldest one."""
        if self._columns is None:
            self._columns = self._allocate(timestep, action, extras, memory, following)
        columns, at = self._columns, self._next(ids)
        write(columns.observation, at, timestep.observation)
        columns.first[at] = timestep.first
        write(columns.action, at, action)
        columns.reward[at] = following.reward
        columns.discount[at] = following.discount
        columns.valid[at] = ~np.asarray(timestep.last)
        write(columns.extras, at, extras)
        write(columns.memory, at, memory)
        if columns.final is not None:
            write(columns.final, at, following.final)

    def _next(self, ids: Ids) -> Index:
        """Return where the next step of the environments ``ids`` goes."""
        self.head += 1
        return self._newest(ids)

    def _newest(self, ids: Ids) -> Index:
        """Return where the newest step of the environments ``ids`` is."""
        return (self.head - 1) % self.rows

    @property
    def ready(self) -> bool:
        """Whether there is enough to sample from."""
        return len(self) >= self.experience.warmup and min(self.head, self.rows) >= self.experience.rows_needed

    def sample(self) -> Transitions | Trajectory:
        """Draw a batch: ``Transitions``, or a ``Trajectory`` where the experience asks for sequences."""
        if self.experience.sequence is not None:
            return self._sequences(self.experience.sequence)
        return self._transitions(self.experience.n_step)

    def _transitions(self, n: int) -> Transitions:
        columns = self._stored()
        places = self._draw_valid(n)
        reward = _take(columns.reward, places)
        discount = self.experience.discount * _take(columns.discount, places)
        successor = self._later(places, 1)
        cut = _take(columns.first, successor)
        running = np.ones(len(places), bool)
        for step in range(1, n):
            at = self._later(places, step)
            running &= _take(columns.valid, at) & ~_take(columns.first, at)
            if not running.any():
                break
            reward += np.where(running, discount * _take(columns.reward, at), np.float32(0))
            discount *= np.where(running, self.experience.discount * _take(columns.discount, at), np.float32(1))
            following = self._later(places, step + 1)
            successor = np.where(running, following, successor)
            cut = np.where(running, _take(columns.first, following), cut)
        return Transitions(
            observation=_take(columns.observation, places),
            action=_take(columns.action, places),
            reward=reward,
            discount=discount,
            successor=self._successor(successor, cut),
        )

    def _successor(self, places: np.ndarray, cut: np.ndarray) -> Tree:
        """Observations at ``places``; where ``cut``, a new episode begins there and the true one was kept aside."""
        columns = self._stored()
        observation = _take(columns.observation, places)
        if columns.final is None or not cut.any():
            return observation
        final = _take(columns.final, self._later(places, -1))
        return map_tree(
            lambda kept, seen: np.where(cut.reshape(-1, *(1,) * (seen.ndim - 1)), kept, seen), final, observation
        )

    def _sequences(self, length: int) -> Trajectory:
        columns = self._stored()
        starts = self._draw(length, self.experience.batch)
        at = np.stack([self._later(starts, step) for step in range(length + 1)])
        steps = at[:-1]
        return Trajectory(
            observation=_take(columns.observation, at),
            first=_take(columns.first, at),
            action=_take(columns.action, steps),
            reward=_take(columns.reward, steps),
            discount=_take(columns.discount, steps),
            valid=_take(columns.valid, steps),
            extras=_take(columns.extras, steps),
            memory=_take(columns.memory, starts),
            final=None if columns.final is None else _take(columns.final, steps),
        )

    def _draw(self, span: int, size: int) -> np.ndarray:
        """Draw places (row * B + environment) that have ``span`` rows after them."""
        held = min(self.head, self.rows)
        age = self._random.integers(0, (held - span) * self.number, size)
        oldest = self.head - held
        return (age + oldest * self.number) % (self.rows * self.number)

    def _draw_valid(self, span: int) -> np.ndarray:
        """Draw a batch of places whose step is real."""
        valid = self._stored().valid
        size = self.experience.batch
        places = self._draw(span, size)
        while not (drawn := _take(valid, places)).all():
            fillers = np.flatnonzero(~drawn)
            places[fillers] = self._draw(span, len(fillers))
        return places

    def _later(self, places: np.ndarray, rows: int) -> np.ndarray:
        """Places of the same environments, ``rows`` later."""
        return (places + rows * self.number) % (self.rows * self.number)

    def save(self) -> Tree:
        """Everything as a tree of arrays; only the rows in use."""
        held = min(self.head, self.rows)
        columns = (
            None
            if self._columns is None
            else map_tree(lambda leaf: None if leaf is None else leaf[:held], self._columns._asdict())
        )
        return {"head": self.head, "random": self._random.bit_generator.state, "columns": columns}

    def restore(self, saved: Tree, episodes_restarted: bool = False) -> None:
        """Continue from what ``save`` returned, with exactly the same next samples.

        Where the episodes could not be continued, nobody saw what the last step led to: it becomes a filler, and the
        steps before it are those of an episode that was truncated there.
        """
        self.head = int(saved["head"])
        self._random.bit_generator.state = saved["random"]
        if saved["columns"] is None:
            return
        held = min(self.head, self.rows)
        self._columns = Columns(**map_tree(lambda leaf: self._grown(leaf, held), saved["columns"]))
        if episodes_restarted:
            self._columns.valid[self._newest(EVERY)] = False

    def _grown(self, leaf: np.ndarray | None, held: int) -> np.ndarray | None:
        if leaf is None:
            return None
        column = np.zeros((self.rows, *leaf.shape[1:]), leaf.dtype)
        column[:held] = leaf
        return column

    def _stored(self) -> Columns:
        assert self._columns is not None
        return self._columns

    def _allocate(
        self, timestep: Timestep, action: Tree, extras: dict[str, Tree], memory: Tree, following: Timestep
    ) -> Columns:
        flat = (self.rows, self.number)
        return Columns(
            observation=allocate(timestep.observation, *flat),
            first=np.zeros(flat, bool),
            action=allocate(action, *flat),
            reward=np.zeros(flat, np.float32),
            discount=np.zeros(flat, np.float32),
            valid=np.zeros(flat, bool),
            extras=allocate(extras, *flat),
            memory=allocate(memory, *flat),
            final=None if following.final is None else allocate(following.final, *flat),
        )


def _take(columns: Tree, places: np.ndarray) -> Tree:
    """Gather places (row * B + environment) out of columns [rows, B, ...]."""
    if isinstance(columns, np.ndarray):
        return columns.reshape(-1, *columns.shape[2:]).take(places, axis=0)
    return map_tree(lambda leaf: _take(leaf, places), columns)
