"""Actors that fill a replay: each environment explores in its own way, and what it sees is sent with a priority."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from weft.algorithm import Policy
from weft.experience.batches import Replayed, padded
from weft.experience.kinds import Replay
from weft.experience.replay import ReplayBuffer
from weft.program import Client, Watcher
from weft.topologies.job import Work
from weft.topologies.messages import Shipment, abstract_policy, zeros
from weft.topologies.rollout import Rollout
from weft.topologies.serving import INSERT, Insert, items_of_unroll, request_layout


class Explorer:
    """Acts with the newest parameters, one unroll after the other, while the last one is being stored."""

    def __init__(
        self, work: Work, settings: Any, index: int, parameters: Watcher, replay: Client, life: int = 0
    ) -> None:
        self._parameters, self._replay = parameters, replay
        self._shipment = Shipment(abstract_policy(work))
        self._rollout = Rollout(work, index, life, settings.unroll)
        self._explore = ladder_of(work, index)
        self._assessor = Assessor(work, settings.unroll)
        self._request = zeros(request_layout(work, settings.unroll))._replace(sampling=None)
        self._request.kind[...] = INSERT
        self._request.insert.life[...] = life

    async def run(self) -> None:
        """Act until the program ends."""
        seen, policy, waiting = -1, None, False
        while True:
            version, shipped = await self._parameters.get()
            if version != seen:
                seen, policy = version, self._shipment.unpack(shipped["policy"])
            assert policy is not None
            insert: Insert = self._request.insert
            self._rollout.fill(insert.unroll, policy, version, float(shipped["progress"]), self._explore)
            insert.rows[...] = self._rollout.rows
            self._assessor.assess(insert, policy)
            if waiting:
                await self._replay.receive()
            await self._replay.send(self._request)
            waiting = True

    def close(self) -> None:
        """Release the environments."""
        self._rollout.close()


class Assessor:
    """Tells the first priorities of an actor's items: what its own copy of the parameters says of them."""

    def __init__(self, work: Work, unroll: int) -> None:
        algorithm = work.algorithm
        experience = algorithm.experience
        assert isinstance(experience, Replay)
        self._most = items_of_unroll(work, unroll)
        # What is complete with an unroll may begin before it, but no earlier than an item is long.
        held = Replay(
            capacity=(2 * unroll + 2) * work.envs * experience.period,
            batch=1,
            warmup=1,
            n_step=experience.n_step,
            discount=experience.discount,
            sequence=experience.sequence,
            overlap=experience.overlap,
        )
        self._items = ReplayBuffer(held, work.envs, np.random.SeedSequence(0))
        told = algorithm.priorities if experience.priority_exponent is not None else None
        self._priorities = None if told is None else jax.jit(told)

    def assess(self, insert: Insert, policy: Policy) -> None:
        """Write how many items are complete with an unroll, and their priorities."""
        begins = self._items.add_unroll(insert.unroll.trajectory, insert.rows)
        insert.number[...] = len(begins)
        if self._priorities is None:
            insert.number[...] = -1
        elif len(begins):
            # The same number every time, so that there is one program to compile.
            data = Replayed(padded(self._items.read(begins), self._most), np.ones(self._most, np.float32))
            insert.priorities[:] = np.asarray(self._priorities(policy, data))


def ladder_of(work: Work, index: int) -> np.ndarray | None:
    """Return how much each environment [B] of an actor explores; None where the algorithm has no ladder."""
    ladder = work.algorithm.ladder
    if ladder is None:
        return None
    places = index * work.envs + np.arange(work.envs)
    return np.array([ladder(float(place)) for place in places / max(work.actors * work.envs - 1, 1)], np.float32)
