"""The replay of canonical steps: every observation is stored once, transitions and sequences are cut out when sampled.

A stream is the sequence of steps of one environment, each episode followed by a filler that holds its last
observation; environments that reset within the step, and deliver that observation aside, are brought into this form.
"""

from __future__ import annotations

import numpy as np

from weft.experience.batches import Replayed, Transitions
from weft.experience.chunks import layout_of
from weft.experience.kinds import Replay
from weft.experience.limiters import Limiter, minimum_size
from weft.experience.priorities import Prioritised
from weft.experience.selectors import Selecting, Uniform
from weft.experience.store import Items, Store
from weft.experience.table import Drawn, TableSettings
from weft.trees import map_tree, take, write
from weft.types import EVERY, Array, Ids, Timestep, Trajectory, Tree

TABLE = "replay"
MEMORY = "memory"
"""Name of the recurrent memory before a step among the extras of an unroll."""
CHUNK = 32
"""Steps that are stored as one, save for sequences, which have chunks of their own length."""


class Priorities:
    """Priorities in the order in which items are complete."""

    def __init__(self, values: np.ndarray) -> None:
        self._values, self._taken = values, 0

    def next(self, number: int) -> np.ndarray:
        """Return those of the next items."""
        self._taken += number
        assert self._taken <= len(self._values)
        return self._values[self._taken - number : self._taken]


class ReplayBuffer:
    """The newest steps of B environments, from which items are sampled."""

    def __init__(
        self,
        experience: Replay,
        number: int,
        seed: np.random.SeedSequence,
        limiter: Limiter | None = None,
        items: int | None = None,
        at_once: int = 1,
    ) -> None:
        """The experience says how many items are kept, unless ``items`` does; without a limiter the caller is one.

        So many steps of all environments are put into storage ``at_once``, which takes little longer than for one of
        them; until then they are held back.
        """
        self.experience = experience
        self.number = number
        self._limiter = limiter or minimum_size(1)
        self._items = items or experience.items
        self.recorded = 0
        """Steps since the beginning, fillers included."""
        self._seed = seed
        self._reading = reading_of(experience)
        self._store: Store | None = None
        self._example: Tree = None
        self._at_once = at_once
        self._held: Tree = None
        """Steps [at_once, B, ...] that are held back, of which there are ``_holding``."""
        self._holding = 0

    def __len__(self) -> int:
        """Return the number of items held."""
        return 0 if self._store is None else self._store.table(TABLE).size

    @property
    def store(self) -> Store:
        """Where the steps are; there is one once a step was added."""
        assert self._store is not None
        return self._store

    @property
    def ready(self) -> bool:
        """Whether there is enough to sample from."""
        return self.recorded >= self.experience.warmup and len(self) > 0

    @property
    def mass(self) -> float:
        """What the probabilities of items are relative to."""
        return 0.0 if self._store is None else self._store.table(TABLE).mass

    @property
    def inserts(self) -> int:
        """Items that were inserted since the beginning."""
        return 0 if self._store is None else self._store.table(TABLE).flow.inserts

    def has_room(self, number: int) -> bool:
        """Return whether ``number`` items may be inserted now."""
        return self._store is None or self._store.table(TABLE).may_insert(number)

    def may_sample(self, number: int) -> bool:
        """Return whether ``number`` items may be sampled now."""
        return self._store is not None and self._store.table(TABLE).may_sample(number)

    def add(
        self,
        timestep: Timestep,
        action: Tree,
        extras: dict[str, Tree],
        memory: Tree,
        following: Timestep,
        ids: Ids = EVERY,
        priorities: Priorities | None = None,
    ) -> list[np.ndarray]:
        """Write one step of the environments ``ids``; returns where the items begin that are complete with it."""
        step = {
            "observation": timestep.observation,
            "first": np.asarray(timestep.first),
            "action": action,
            "reward": np.asarray(following.reward, np.float32),
            "discount": np.asarray(following.discount, np.float32),
            "valid": ~np.asarray(timestep.last),
            "extras": extras,
            "memory": memory,
        }
        streams = np.arange(self.number)[ids]
        self.recorded += len(streams)
        if self._at_once > 1:
            if ids is EVERY and following.final is None:
                return self._hold_back(step)
            self._put_held()
        begins = [self._write(step, streams, priorities)]
        if following.final is not None and np.count_nonzero(following.first):
            ended = np.flatnonzero(following.first)
            begins.append(self._write(_filler(step, ended, following.final), streams[ended], priorities))
        return begins

    def add_unroll(
        self, unroll: Trajectory, rows: np.ndarray, priorities: Array | None = None, ids: Ids = EVERY
    ) -> np.ndarray:
        """Write an unroll [T, B], whose extras have the memory too, of which ``rows`` [B] are steps, of environments.

        ``priorities`` are those of the items that are complete with it, in the order in which this returns where they
        begin. Another buffer that was given the same steps returns as many.
        """
        given = None if priorities is None else Priorities(np.asarray(priorities, np.float64))
        begins: list[np.ndarray] = []
        streams = np.arange(self.number)[ids]
        for row in range(int(rows.max())):
            columns = np.flatnonzero(rows > row)
            extras = dict(_at(unroll.extras, row, columns))
            timestep, following = _steps_of(unroll, row, columns)
            memory, action = extras.pop(MEMORY, ()), _at(unroll.action, row, columns)
            begins += self.add(timestep, action, extras, memory, following, streams[columns], given)
        return np.concatenate([np.zeros(0, np.int64), *begins])

    def read(self, begins: np.ndarray) -> Transitions | Trajectory:
        """Return the items that begin at these places, which are still held."""
        spans = np.full(len(begins), self._reading.span)
        return self._reading.read_items(Items(self.store.chunks, begins, spans))

    def restart(self, ids: Ids = EVERY) -> None:
        """Begin anew in some environments: what was not yet complete is discarded, nothing goes on from before."""
        if self._store is not None:
            self._put_held()
            self._store.reset(ids)

    def sample(self, importance: float = 1.0) -> tuple[Replayed, np.ndarray]:
        """Draw a batch; returns it with the keys [N] of its items.

        Its weights are (1 / (N * probability)) ** importance, relative to the highest of them.
        """
        data, drawn = self.draw(self.experience.batch)
        if self.experience.priority_exponent is None:
            return Replayed(data, None), drawn.keys
        return Replayed(data, importance_weights(len(self) * drawn.probability, importance)), drawn.keys

    def draw(self, number: int) -> tuple[Transitions | Trajectory, Drawn]:
        """Sample items, and say which ones."""
        sample = self.store.sample(TABLE, number, self._reading)
        return sample.items, sample.drawn

    def update(self, keys: np.ndarray, priorities: Array) -> None:
        """Give items new priorities."""
        self.store.update(TABLE, keys, np.asarray(priorities, np.float64))

    def save(self) -> Tree:
        """Everything as a tree of arrays."""
        store = None if self._store is None else self._store.save()
        held = map_tree(lambda leaf: leaf[: self._holding], self._held) if self._holding else None
        return {"recorded": self.recorded, "example": self._example, "store": store, "held": held}

    def restore(self, saved: Tree, episodes_restarted: bool = False) -> None:
        """Continue from what ``save`` returned, with exactly the same next samples.

        Where the episodes could not be continued, the steps whose items were not yet complete are discarded.
        """
        self.recorded = int(saved["recorded"])
        if saved["store"] is None:
            return
        self._example = saved["example"]
        self._store = self._made()
        self._store.restore(saved["store"])
        if saved["held"] is not None:
            for row in range(len(saved["held"]["reward"])):
                self._hold_back(map_tree(lambda leaf: leaf[row], saved["held"]))  # noqa: B023
        if episodes_restarted:
            self.restart()

    def _hold_back(self, step: Tree) -> list[np.ndarray]:
        """Keep a step of all environments until there are enough of them; returns where items begin, as ``add``."""
        if self._held is None:
            self._held = map_tree(lambda leaf: np.zeros((self._at_once, *leaf.shape), leaf.dtype), step)
        write(self._held, self._holding, step)
        self._holding += 1
        return [self._put_held()] if self._holding == self._at_once else []

    def _put_held(self) -> np.ndarray:
        """Put what is held back into storage."""
        rows, self._holding = self._holding, 0
        if not rows:
            return np.zeros(0, np.int64)
        self._stored(self._held).extend(map_tree(lambda leaf: leaf[:rows], self._held), length=rows)
        return self._insert_complete(np.arange(self.number), rows, None)

    def _write(self, step: Tree, ids: np.ndarray, priorities: Priorities | None) -> np.ndarray:
        """Write a step of some environments, and insert the items that it completes."""
        store = self._store or self._stored(map_tree(lambda leaf: np.asarray(leaf)[None], step))
        store.extend(step, ids)
        return self._insert_complete(ids, 1, priorities)

    def _stored(self, steps: Tree) -> Store:
        """Return the store, made for steps like these [T, B, ...] if there is none yet."""
        if self._store is None:
            self._example = map_tree(lambda leaf: np.zeros_like(leaf[0, :1]), steps)
            self._store = self._made()
        return self._store

    def _insert_complete(self, ids: np.ndarray, rows: int, priorities: Priorities | None) -> np.ndarray:
        """Insert the items that are complete with the newest ``rows`` of streams; returns where they begin."""
        store, reading = self.store, self._reading
        first = store.streams.count[ids] - reading.span - np.arange(rows)[::-1, None]
        due = first >= 0
        if reading.period > 1:
            due &= first % reading.period == 0
        begins = store.streams.places(ids, first)[due]
        if reading.from_valid and len(begins):
            begins = begins[store.chunks.take(begins, "valid")]
        if len(begins):
            told = None if priorities is None else priorities.next(len(begins))
            store.insert_at(TABLE, begins, reading.span, told)
        return begins

    def _made(self) -> Store:
        experience, span = self.experience, self._reading.span
        chunk = self._reading.period if self._reading.period > 1 else CHUNK
        sampler: Selecting = Uniform()
        if experience.priority_exponent is not None:
            sampler = Prioritised(experience.priority_exponent)
        return Store(
            layout_of(self._example),
            [TableSettings(TABLE, self._items, sampler, limiter=self._limiter)],
            streams=self.number,
            reach=span + self._at_once - 1,
            chunk=chunk,
            chunks=self._items * self._reading.period // chunk + self.number * ((span + self._at_once) // chunk + 4),
            seed=self._seed,
        )


class TransitionReading:
    """Serves ``Transitions``."""

    def __init__(self, n_step: int, discount: float) -> None:
        self._n, self._discount = n_step, np.float32(discount)
        self.span = n_step + 1
        self.period = 1
        self.from_valid = True
        """Whether fillers begin no items."""

    def read_items(self, items: Items) -> Transitions:
        """Cut out transitions [N]."""
        begins = items.begins
        reward = items.at(begins, "reward")
        discount = self._discount * items.at(begins, "discount")
        successor = items.after(begins)
        running = np.ones(len(items), bool)
        for _ in range(1, self._n):
            running &= items.at(successor, "valid")
            if not running.any():
                break
            reward += np.where(running, discount * items.at(successor, "reward"), np.float32(0))
            discount *= np.where(running, self._discount * items.at(successor, "discount"), np.float32(1))
            successor = np.where(running, items.after(successor), successor)
        return Transitions(
            observation=items.at(begins, "observation"),
            action=items.at(begins, "action"),
            reward=reward,
            discount=discount,
            successor=items.at(successor, "observation"),
        )


class SequenceReading:
    """Serves ``Trajectory``, with the memory that the first step was taken with."""

    def __init__(self, length: int, period: int) -> None:
        self._length = length
        self.span = length + 1
        self.period = period
        self.from_valid = False

    def read_items(self, items: Items) -> Trajectory:
        """Cut out sequences [T, N]."""
        places = items.window(0, self.span).T
        steps = places[:-1]
        return Trajectory(
            observation=items.at(places, "observation"),
            first=items.at(places, "first"),
            action=items.at(steps, "action"),
            reward=items.at(steps, "reward"),
            discount=items.at(steps, "discount"),
            valid=items.at(steps, "valid"),
            extras=items.at(steps, "extras"),
            memory=items.at(places[0], "memory"),
        )


def importance_weights(chances: np.ndarray, exponent: float) -> np.ndarray:
    """Return weights [N] relative to the highest of them; ``chances`` are 1 where an item is as likely as any other."""
    weight = chances**-exponent
    return (weight / weight.max()).astype(np.float32)


def reading_of(experience: Replay) -> TransitionReading | SequenceReading:
    """Return how items are served."""
    if experience.sequence is None:
        return TransitionReading(experience.n_step, experience.discount)
    return SequenceReading(experience.sequence, experience.period)


def _at(tree: Tree, row: int, ids: np.ndarray) -> Tree:
    return map_tree(lambda leaf: leaf[row, ids], tree)


def _steps_of(unroll: Trajectory, row: int, ids: np.ndarray) -> tuple[Timestep, Timestep]:
    """Return a step of some environments, and as much of the following one as is known of it."""
    nothing = np.zeros(len(ids), np.float32)
    timestep = Timestep(
        observation=_at(unroll.observation, row, ids),
        reward=nothing,
        discount=nothing,
        first=unroll.first[row, ids],
        last=~np.asarray(unroll.valid[row, ids]),
    )
    following = Timestep(
        observation=(),
        reward=unroll.reward[row, ids],
        discount=unroll.discount[row, ids],
        first=unroll.first[row + 1, ids],
        last=nothing.astype(bool),
        final=None if unroll.final is None else _at(unroll.final, row, ids),
    )
    return timestep, following


def _filler(step: Tree, ended: np.ndarray, final: Tree) -> Tree:
    """Return what stands between two episodes: the last observation of one, of the environments at ``ended``."""
    filler = map_tree(np.zeros_like, take(map_tree(np.asarray, step), ended))
    filler["observation"] = take(final, ended)
    filler["discount"][:] = 1.0
    return filler
