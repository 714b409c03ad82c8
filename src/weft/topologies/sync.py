"""``sync``: rollout workers in lock-step with a trainer; every update waits for an unroll of each worker."""

from __future__ import annotations

from typing import Any

from weft.program import Program
from weft.topologies.job import Job, NoSettings, Work
from weft.topologies.lockstep import Commander, Ports, Worker, lockstep
from weft.topologies.messages import Batch, Shipment, abstract_policy, policy_layout, unroll_layout, weight_of


def sync(job: Job) -> Program:
    """One trainer, and workers that wait for its commands."""
    program, layout = Program("sync"), unroll_layout(job.work)
    lockstep(program, job, Sampler, Trainer, policy_layout(job.work), layout, weight_of(layout))
    return program


def check(work: Work, settings: NoSettings) -> None:
    """Refuse what cannot be done."""
    work.algorithm.experience.check(work.envs * work.actors)


class Sampler(Worker):
    """Acts when it is told to."""

    def __init__(self, work: Work, index: int, ports: Ports, life: int = 0) -> None:
        super().__init__(work, index, ports, life)
        self._policy = Shipment(abstract_policy(work))

    async def act(self, round_: int) -> None:
        """Record an unroll with the newest parameters."""
        version, shipped = await self._parameters.get(round_)
        slot = await self._answers.reserve()
        self._rollout.fill(slot, self._policy.unpack(shipped["policy"]), version, float(shipped["progress"]))
        self._answers.commit()


class Trainer(Commander):
    """Learns from the unrolls of all workers, side by side."""

    def __init__(self, job: Job, *ends: Any) -> None:
        super().__init__(job, *ends)
        self._policy = Shipment(self._learner.state.policy)
        self._batch = Batch(unroll_layout(job.work).trajectory, job.work.actors)

    async def _do_round(self, progress: float) -> None:
        policy = self._policy.pack(self._learner.state.policy)
        await self._tell_all("act", {"policy": policy, "progress": progress})
        for place, unrolls in enumerate(self._answers):
            unroll = await self._answer(place)
            self._tally.count(unroll, self._round)
            self._batch.put(place, unroll.trajectory)
            unrolls.release()
        self._learner.learn(self._batch.trajectory, progress)
