"""A shard of the replay as a node: it stores what actors send and answers the learner, as its limiter lets it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from weft.experience.batches import Transitions, padded
from weft.experience.kinds import Replay
from weft.experience.limiters import Limiter, samples_per_insert
from weft.experience.replay import ReplayBuffer
from weft.program import Leaf, Reader, Request, Server, Writer
from weft.topologies.centre import Counted, Tally
from weft.topologies.job import Work
from weft.topologies.messages import NUMBER, REAL, Unroll, unroll_layout, zeros
from weft.types import Trajectory, Tree

INSERT, SAMPLE, SAVE = range(3)
"""Kinds of requests."""


class Insert(NamedTuple):
    """What an actor sends."""

    unroll: Unroll
    rows: np.ndarray
    """[B] steps of each environment in it"""
    number: np.ndarray
    """[] items that are complete with it; -1 if their priorities are not told"""
    priorities: np.ndarray
    """[most] of these items"""
    life: np.ndarray
    """[] of the actor: in a new one, nothing goes on from before"""


class Sampling(NamedTuple):
    """What a learner sends."""

    number: np.ndarray
    """[] items it wants of this shard"""
    version: np.ndarray
    """[] of its parameters"""
    keys: np.ndarray
    """[N] of items that were learned from"""
    priorities: np.ndarray
    """[N] their new priorities"""
    updated: np.ndarray
    """[] how many of these there are"""


class Ask(NamedTuple):
    """A request to a shard; the parts that do not belong to its kind are left as they are."""

    kind: np.ndarray
    insert: Insert
    sampling: Sampling


class Answer(NamedTuple):
    """What a shard answers a learner; an actor is only told that it was heard."""

    number: np.ndarray
    """[] items sampled: as many as were wanted, or none yet"""
    data: Transitions | Trajectory
    keys: np.ndarray
    """[N]"""
    probability: np.ndarray
    """[N] of each within this shard"""
    size: np.ndarray
    """[] items in the shard"""
    inserts: np.ndarray
    """[] items that were ever inserted"""
    mass: np.ndarray
    """[] what its probabilities are relative to"""
    counted: Counted


def request_layout(work: Work, unroll: int) -> Ask:
    """Return the layout of requests."""
    batch = _replay(work).batch
    insert = Insert(
        unroll=unroll_layout(work, unroll),
        rows=Leaf((work.envs,), "int64"),  # type: ignore[arg-type]
        number=NUMBER,  # type: ignore[arg-type]
        priorities=Leaf((items_of_unroll(work, unroll),), "float64"),  # type: ignore[arg-type]
        life=NUMBER,  # type: ignore[arg-type]
    )
    keys, priorities = Leaf((batch,), "int64"), Leaf((batch,), "float64")
    sampling = Sampling(NUMBER, NUMBER, keys, priorities, NUMBER)  # type: ignore[arg-type]
    return Ask(NUMBER, insert, sampling)  # type: ignore[arg-type]


def reply_layout(work: Work) -> Answer:
    """Return the layout of replies."""
    batch = _replay(work).batch
    keys, probability = Leaf((batch,), "int64"), Leaf((batch,), "float64")
    return Answer(NUMBER, data_layout(work), keys, probability, NUMBER, NUMBER, REAL, Counted.layout())  # type: ignore[arg-type]


def data_layout(work: Work) -> Transitions | Trajectory:
    """Return the layout of a sampled batch."""
    experience = _replay(work)
    unroll = unroll_layout(work, 1).trajectory
    length = experience.sequence
    leading = (experience.batch,) if length is None else (length, experience.batch)

    def rows(tree: Tree, lead: tuple[int, ...] = leading) -> Tree:
        return jax.tree.map(lambda leaf: Leaf((*lead, *leaf.shape[2:]), leaf.dtype), tree, is_leaf=_is_leaf)

    if length is None:
        observation, action = rows(unroll.observation), rows(unroll.action)
        return Transitions(observation, action, rows(unroll.reward), rows(unroll.discount), observation)
    longer = (length + 1, experience.batch)
    extras = {name: rows(leaf) for name, leaf in unroll.extras.items() if name != "memory"}
    return Trajectory(
        observation=rows(unroll.observation, longer),
        first=rows(unroll.first, longer),
        action=rows(unroll.action),
        reward=rows(unroll.reward),
        discount=rows(unroll.discount),
        valid=rows(unroll.valid),
        extras=extras,
        memory=rows(unroll.extras["memory"], (experience.batch,)),
    )


def items_of_unroll(work: Work, unroll: int) -> int:
    """Return how many items can be complete with an unroll: fillers may make it twice as long."""
    return work.envs * math.ceil(2 * unroll / _replay(work).period)


def _replay(work: Work) -> Replay:
    experience = work.algorithm.experience
    assert isinstance(experience, Replay)
    return experience


def _is_leaf(thing: object) -> bool:
    return isinstance(thing, Leaf)


def limiter_of(work: Work, settings: Any) -> Limiter:
    """Return the limiter of one shard: as many samples of each item as the algorithm asks for."""
    experience = _replay(work)
    ratio = experience.batch / experience.steps_per_update / experience.period
    unroll = work.actors / settings.shards * work.envs * settings.unroll / experience.period
    slack = max(settings.slack * unroll * ratio, 2.0 * experience.batch, 2.0 * ratio, 2.0)
    warmup = max(math.ceil(experience.warmup / experience.period / settings.shards), 1)
    return samples_per_insert(ratio, warmup, slack)


class Shard:
    """Stores, samples and counts, in the order of the requests; what has to wait is answered as soon as it may be."""

    def __init__(
        self, work: Work, settings: Any, index: int, requests: Server, restored: Reader, saved: Writer
    ) -> None:
        self._requests, self._restored, self._saved = requests, restored, saved
        experience = _replay(work)
        self._envs, self._batch = work.envs, experience.batch
        self._most = items_of_unroll(work, settings.unroll)
        self._buffer = ReplayBuffer(
            experience,
            len(range(index, work.actors, settings.shards)) * work.envs,
            work.seeds("replay", index),
            limiter_of(work, settings),
            max(experience.items // settings.shards, 1),
        )
        self._tally = Tally()
        self._lives: dict[int, int] = {}
        """Of the actors that sent something, by the number of the client; this shard's actors are its first clients."""
        self._version = 0
        self._news = False
        """Whether something was stored since the learner was answered."""
        self._counted: Counted = zeros(Counted.layout())

    async def run(self) -> None:
        """Serve until the program ends."""
        saved = await self._restored.get()
        if saved is not None:
            self._buffer.restore(saved, episodes_restarted=True)
        self._restored.release()
        waiting: list[Request] = []
        while True:
            waiting += await self._requests.collect(1, 0.0)
            before = None
            while before != len(waiting):  # one that is served may make room for another
                before = len(waiting)
                waiting = [request for request in waiting if not await self._serve(request)]

    async def _serve(self, request: Request) -> bool:
        """Answer a request, unless it has to wait."""
        kind = int(request.value.kind)
        if kind == INSERT:
            return await self._insert(request)
        if kind == SAMPLE:
            return await self._sample(request)
        await self._saved.put(self._buffer.save())
        await self._requests.reply(request, _NOTHING)
        return True

    async def _insert(self, request: Request) -> bool:
        if not self._buffer.has_room(self._most):
            return False
        insert: Insert = request.value.insert
        ids = request.client * self._envs + np.arange(self._envs)
        life = int(insert.life)
        if self._lives.setdefault(request.client, life) != life:
            self._lives[request.client] = life
            self._buffer.restart(ids)
        number = int(insert.number)
        priorities = None if number < 0 else insert.priorities[:number]
        self._buffer.add_unroll(insert.unroll.trajectory, insert.rows, priorities, ids)
        self._tally.count(insert.unroll, self._version)
        self._news = True
        await self._requests.reply(request, _NOTHING)
        return True

    async def _sample(self, request: Request) -> bool:
        sampling: Sampling = request.value.sampling
        updated, number = int(sampling.updated), int(sampling.number)
        if updated:
            self._buffer.update(sampling.keys[:updated], sampling.priorities[:updated])
            sampling.updated[...] = 0
        self._version = int(sampling.version)
        if number and not self._buffer.may_sample(number):
            if not self._news:
                return False
            number = 0
        self._tally.hand_on(self._counted)
        self._news = False
        await self._requests.reply(request, self._answer(number))
        return True

    def _answer(self, number: int) -> Answer:
        size, inserts, mass = map(np.asarray, (len(self._buffer), self._buffer.inserts, self._buffer.mass))
        nothing = Answer(np.asarray(number), None, None, None, size, inserts, mass, self._counted)  # type: ignore[arg-type]
        if not number:
            return nothing
        data, drawn = self._buffer.draw(number)
        if number < self._batch:
            data = padded(data, self._batch)
        keys, probability = (np.resize(column, self._batch) for column in (drawn.keys, drawn.probability))
        return nothing._replace(data=data, keys=keys, probability=probability)

    def close(self) -> None:
        """Nothing to release."""


_NOTHING = Answer(np.zeros((), np.int64), *([None] * 7))  # type: ignore[arg-type]
