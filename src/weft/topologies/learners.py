"""Actors that feed learners, and learners that are fed: whatever has arrived is learned from, however old it is."""

from __future__ import annotations

from collections import deque
from typing import Any

from weft.program import Poster, Reader, Watcher, Writer
from weft.topologies.centre import Account, Tally
from weft.topologies.job import Job, Work
from weft.topologies.learner import Learner
from weft.topologies.messages import Batch, Shipment, Unroll, abstract_policy, begin_anew, unroll_layout
from weft.topologies.rollout import Rollout
from weft.topologies.team import TeamLearner
from weft.types import Trajectory, Tree

PATIENCE = 0.5
"""Seconds after which a learner that has nothing to learn from lets the run look after itself."""


class Actor:
    """Acts with the newest parameters, one unroll after the other."""

    def __init__(self, work: Work, index: int, parameters: Watcher, unrolls: Writer, life: int = 0) -> None:
        self._parameters, self._unrolls = parameters, unrolls
        self._shipment = Shipment(abstract_policy(work))
        self._rollout = Rollout(work, index, life)

    async def run(self) -> None:
        """Act until the program ends."""
        seen, policy = -1, None
        while True:
            slot = await self._unrolls.reserve()
            version, shipped = await self._parameters.get()
            if version != seen:
                seen, policy = version, self._shipment.unpack(shipped["policy"])
            assert policy is not None
            self._rollout.fill(slot, policy, version, float(shipped["progress"]))
            self._unrolls.commit()

    def close(self) -> None:
        """Release the environments."""
        self._rollout.close()


class Intake:
    """Unrolls as they arrive, side by side in batches."""

    def __init__(self, work: Work, number: int, unrolls: Reader) -> None:
        self._number, self._unrolls = number, unrolls
        self._batch = Batch(unroll_layout(work).trajectory, number) if number > 1 else None
        self._held = 0

    async def get(self, version: int, tally: Tally, patience: float | None = None) -> Trajectory | None:
        """Wait for a batch; None if one more unroll was waited for in vain, after which waiting goes on."""
        while self._held < self._number:
            unroll: Unroll | None = await self._unrolls.get(patience)
            if unroll is None:
                return None
            tally.count(unroll, version)
            if self._batch is None:
                self._held = 1
                return unroll.trajectory
            self._batch.put(self._held, unroll.trajectory)
            self._unrolls.release()
            self._held += 1
        assert self._batch is not None
        return self._batch.trajectory

    def done(self) -> None:
        """Give back what the batch was made of."""
        if self._batch is None:
            self._unrolls.release()
        self._held = 0


class Centre:
    """The learner that sends parameters to the actors and keeps the run's account; alone, or the first of a team."""

    def __init__(self, job: Job, unrolls: Reader, parameters: Poster, exchange: Any) -> None:
        self._job, self._parameters = job, parameters
        work, settings = job.work, job.settings
        self._team = None if exchange is None else TeamLearner(work, 0, exchange[0](*exchange[1:]))
        self._learner = self._team or Learner(work.algorithm, work.seeds("learner"))
        self._intake, self._tally = Intake(work, settings.batch, unrolls), Tally()
        self._account = Account(work.actors)
        self._shipment = Shipment(abstract_policy(work))
        self._version = 0
        self._delayed: deque[Tree] = deque(maxlen=settings.delay + 1)

    async def run(self) -> None:
        """Learn until all steps are taken or the run wants to stop."""
        self._begin()
        if self._team is not None:
            await self._team.begin()
        await self._send_parameters()
        while self.steps < self._job.work.steps and await self._job.monitor.tick(self):
            batch = await self._intake.get(self._version, self._tally, PATIENCE)
            if batch is not None:
                await self._learn(batch)
        await self._job.monitor.finish(self)

    async def _learn(self, batch: Trajectory) -> None:
        progress = self._job.work.progress(self.steps)
        if self._team is None:
            self._learner.learn(batch, progress)
        else:
            for counted in await self._team.learn_together(batch, progress, self._tally):
                self._account.add(counted)
        self._intake.done()
        self._account.take(self._tally)
        self._version += 1
        await self._send_parameters()

    async def _send_parameters(self) -> None:
        policy = self._shipment.pack(self._learner.state.policy)
        self._delayed.append({"policy": policy, "progress": self._job.work.progress(self.steps)})
        await self._parameters.post(self._delayed[0], max(self._version - self._delayed.maxlen + 1, 0))  # type: ignore[operator]

    @property
    def steps(self) -> int:
        """Agent steps that were learned from."""
        return self._account.steps

    @property
    def learning(self) -> bool:
        """Whether the first update is done."""
        return self._learner.updated

    def report(self) -> dict[str, float]:
        """Episode statistics, the algorithm's metrics, policy lag, and which part took which share of the time."""
        return {**self._learner.report(), **self._account.report(self._learner.take_seconds())}

    async def save(self) -> dict[str, Tree]:
        """Return the named parts of a checkpoint; what is on its way is not among them."""
        return {"learner": self._learner.save(), "account": {**self._account.save(), "version": self._version}}

    def _begin(self) -> None:
        if self._job.restore is None:
            return
        saved = self._job.restore({"learner": self._learner.template(), "account": None})
        self._learner.restore(saved["learner"])
        self._account.restore(saved["account"])
        self._version = int(saved["account"]["version"])
        self._job.monitor.note(begin_anew("the actors' environments"))

    def close(self) -> None:
        """Nothing to release."""


class Peer:
    """Any other learner of a team."""

    def __init__(self, work: Work, settings: Any, index: int, unrolls: Reader, exchange: Any) -> None:
        self._work = work
        self._learner = TeamLearner(work, index, exchange[0](*exchange[1:]))
        self._intake, self._tally = Intake(work, settings.batch, unrolls), Tally()
        self._version = 0

    async def run(self) -> None:
        """Learn until the program ends."""
        await self._learner.begin()
        while True:
            batch = await self._intake.get(self._version, self._tally)
            assert batch is not None
            await self._learner.learn_together(batch, float(self._learner.state.progress), self._tally)
            self._intake.done()
            self._version += 1

    def close(self) -> None:
        """Nothing to release."""
