"""The learner that samples from shards of a replay, and sends priorities and parameters back."""

from __future__ import annotations

import numpy as np

from weft.experience.batches import Replayed, Transitions, map_items
from weft.experience.kinds import Replay
from weft.experience.replay import importance_weights
from weft.program import Client, Poster, Reader, Writer
from weft.topologies.centre import Account
from weft.topologies.job import Job, Work
from weft.topologies.learner import Learner
from weft.topologies.messages import Shipment, abstract_policy, begin_anew, zeros
from weft.topologies.serving import SAMPLE, SAVE, Answer, Ask, data_layout, request_layout
from weft.types import Trajectory, Tree

PATIENCE = 0.5
"""Seconds after which a learner that has nothing to learn from lets the run look after itself."""


class Link:
    """One shard, as the learner sees it: what it was asked and what it holds."""

    def __init__(self, work: Work, unroll: int, client: Client, restored: Writer, saved: Reader) -> None:
        self._client, self._saved = client, saved
        self.restored = restored
        self._request: Ask = zeros(request_layout(work, unroll))._replace(insert=None)
        self.wanted = 0
        """Items asked for that have not come."""
        self._asked = False
        self.size, self.inserts, self.mass = 0, 0, 0.0

    def learned(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Send new priorities with the next request."""
        sampling = self._request.sampling
        sampling.updated[...] = len(keys)
        sampling.keys[: len(keys)], sampling.priorities[: len(keys)] = keys, priorities

    async def ask(self, version: int) -> None:
        """Ask for the items that are wanted."""
        self._request.kind[...] = SAMPLE
        self._request.sampling.number[...] = self.wanted
        self._request.sampling.version[...] = version
        await self._client.send(self._request)
        self._request.sampling.updated[...] = 0
        self._asked = True

    async def answer(self, patience: float | None) -> Answer | None:
        """Wait for the answer to what was asked; None if there is none in time, or nothing was asked."""
        answer: Answer | None = await self._client.receive(patience) if self._asked else None
        if answer is not None:
            self._asked = False
            self.size, self.inserts, self.mass = int(answer.size), int(answer.inserts), float(answer.mass)
        return answer

    async def save(self) -> Tree:
        """Return what the shard holds; nothing may be asked of it at the time."""
        assert not self._asked
        self._request.kind[...] = SAVE
        await self._client.send(self._request)
        saved = await self._saved.get()
        self._saved.release()
        await self._client.receive()
        return saved

    @property
    def asked(self) -> bool:
        """Whether an answer is on its way."""
        return self._asked


class Gathered:
    """A batch that is put together from the items of all shards, in arrays that are used again."""

    def __init__(self, work: Work, number: int) -> None:
        self.number = number
        self.data: Transitions | Trajectory = zeros(data_layout(work))
        self.keys, self.shards = np.zeros(number, np.int64), np.zeros(number, np.int64)
        self.chances = np.zeros(number)
        """[N] relative to the masses of the shards"""
        self.held = 0

    def put(self, shard: int, answer: Answer) -> None:
        """Take over the items of an answer."""
        number = int(answer.number)
        place = slice(self.held, self.held + number)

        def copy(axis: int, held: np.ndarray, given: np.ndarray) -> None:
            before = (slice(None),) * axis
            held[(*before, place)] = given[(*before, slice(number))]

        map_items(copy, self.data, answer.data)
        self.keys[place] = answer.keys[:number]
        self.chances[place] = answer.probability[:number] * float(answer.mass)
        self.shards[place] = shard
        self.held += number


class ReplayLearner:
    """Learns from one batch while the next one is being sampled; keeps the run's account."""

    def __init__(self, job: Job, parameters: Poster, shards: list[tuple[Client, Writer, Reader]]) -> None:
        self._job, self._parameters = job, parameters
        work = job.work
        experience = work.algorithm.experience
        assert isinstance(experience, Replay)
        self._experience = experience
        self._links = [Link(work, job.settings.unroll, *ends) for ends in shards]
        self._learner = Learner(work.algorithm, work.seeds("learner"))
        self._account = Account(work.actors)
        self._shipment = Shipment(abstract_policy(work))
        self._random = np.random.Generator(np.random.Philox(work.seeds("shards")))
        self._batches = [Gathered(work, experience.batch) for _ in range(2)]
        """The one that is gathered, and the one that is learned from."""
        self._version = 0
        self._sampled = 0

    async def run(self) -> None:
        """Learn until all steps are taken or the run wants to stop."""
        await self._begin()
        await self._send_parameters()
        self._want()
        while self.steps < self._job.work.steps and await self._job.monitor.tick(self):
            if await self._gathered(PATIENCE):
                await self._learn()
        await self._job.monitor.finish(self)

    async def _learn(self) -> None:
        """Ask for the next batch, and learn from this one meanwhile."""
        self._batches.reverse()
        batch, progress = self._batches[1], self._job.work.progress(self.steps)
        self._want()
        await self._ask()
        weight = None
        if self._experience.priority_exponent is not None:
            weight = importance_weights(self._relative(batch), self._experience.importance(progress))
        priorities = self._learner.learn(Replayed(batch.data, weight), progress)
        self._sampled += batch.number
        if self._experience.priority_exponent is not None:
            told = np.asarray(priorities, np.float64)
            for shard, link in enumerate(self._links):
                here = batch.shards == shard
                link.learned(batch.keys[here], told[here])
        self._version += 1
        if self._version % self._job.settings.refresh == 0:
            await self._send_parameters()

    def _relative(self, batch: Gathered) -> np.ndarray:
        """Return how likely [N] items were to be drawn; 1 where one is as likely as any other."""
        size, mass = (sum(getattr(link, name) for link in self._links) for name in ("size", "mass"))
        return batch.chances * size / mass

    def _want(self) -> None:
        """Decide how many items of the next batch each shard gives: as its mass is to that of all."""
        self._batches[0].held = 0
        number, masses = self._experience.batch, np.array([link.mass for link in self._links])
        if len(self._links) == 1 or not (masses > 0).all():
            counts = [len(part) for part in np.array_split(np.arange(number), len(self._links))]
        else:
            counts = self._random.multinomial(number, masses / masses.sum()).tolist()
        for link, count in zip(self._links, counts, strict=True):
            link.wanted = count

    async def _ask(self) -> None:
        for link in self._links:
            if link.wanted and not link.asked:
                await link.ask(self._version)

    async def _gathered(self, patience: float | None, again: bool = True) -> bool:
        """Wait for the items that are wanted; returns whether all have come. What is not there is asked for again."""
        if again:
            await self._ask()
        for shard, link in enumerate(self._links):
            answer = await link.answer(patience)
            if answer is None:
                continue
            self._account.add(answer.counted)
            if int(answer.number):
                self._batches[0].put(shard, answer)
                link.wanted = 0
        return not any(link.wanted for link in self._links)

    async def _send_parameters(self) -> None:
        policy = self._shipment.pack(self._learner.state.policy)
        progress = self._job.work.progress(self.steps)
        await self._parameters.post({"policy": policy, "progress": progress}, self._version)

    @property
    def steps(self) -> int:
        """Agent steps that were stored."""
        return self._account.steps

    @property
    def learning(self) -> bool:
        """Whether the first update is done."""
        return self._learner.updated

    def report(self) -> dict[str, float]:
        """Episode statistics, the algorithm's metrics, what the replay holds, and which part took the time."""
        replay = {
            "replay_items": sum(link.size for link in self._links),
            "samples_per_insert": self._samples_per_insert,
        }
        return {**self._learner.report(), **replay, **self._account.report(self._learner.take_seconds())}

    @property
    def _samples_per_insert(self) -> float:
        return self._sampled / max(sum(link.inserts for link in self._links), 1)

    async def save(self) -> dict[str, Tree]:
        """Return the named parts of a checkpoint; the shards are asked for theirs once they owe no answer."""
        while any(link.asked for link in self._links):
            await self._gathered(None, again=False)
        account = {**self._account.save(), "version": self._version, "sampled": self._sampled}
        return {
            "learner": self._learner.save(),
            "account": account,
            "experience": {str(place): await link.save() for place, link in enumerate(self._links)},
        }

    async def _begin(self) -> None:
        saved: dict[str, Tree] = {"experience": {}}
        if self._job.restore is not None:
            saved = self._job.restore({"learner": self._learner.template(), "account": None, "experience": None})
            self._learner.restore(saved["learner"])
            self._account.restore(saved["account"])
            self._version, self._sampled = int(saved["account"]["version"]), int(saved["account"]["sampled"])
            self._job.monitor.note(begin_anew("the actors' environments"))
        for place, link in enumerate(self._links):
            await link.restored.put(saved["experience"].get(str(place)))

    def close(self) -> None:
        """Nothing to release."""
