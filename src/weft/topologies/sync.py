"""``sync``: rollout workers in lock-step with a trainer; every update waits for an unroll of each worker."""

from __future__ import annotations

from typing import Any

from weft.program import Poster, Program, Reader, Watcher, Writer
from weft.topologies.centre import Account, Tally
from weft.topologies.job import Job, NoSettings, Work
from weft.topologies.learner import Learner
from weft.topologies.messages import Batch, Shipment, Unroll, abstract_policy, begin_anew, policy_layout, unroll_layout
from weft.topologies.rollout import Rollout
from weft.types import Tree


def sync(job: Job) -> Program:
    """One trainer, and workers that wait for its commands."""
    work, program, layout = job.work, Program("sync"), unroll_layout(job.work)
    weight = layout.trajectory.reward.shape[0] * work.envs
    parameters = program.mailbox("parameters", policy_layout(work))
    ends = []
    for index in range(work.actors):
        commands = program.queue(f"commands {index}")
        unrolls = program.queue(f"unrolls {index}", layout, weight=weight)
        states = program.queue(f"states {index}")
        program.add(
            f"worker {index}",
            Worker,
            *(work, index, commands.out, parameters.out, unrolls.into, states.into),
            restarts=True,
        )
        ends.append((commands.into, unrolls.out, states.out))
    program.main("trainer", Trainer, job, parameters.into, *map(list, zip(*ends, strict=True)))
    return program


def check(work: Work, settings: NoSettings) -> None:
    """Refuse what cannot be done."""
    work.algorithm.experience.check(work.envs * work.actors)


class Worker:
    """Does what the trainer commands; a command is done with when its answer is sent, so that none is lost."""

    def __init__(
        self,
        work: Work,
        index: int,
        commands: Reader,
        parameters: Watcher,
        unrolls: Writer,
        states: Writer,
        life: int = 0,
    ) -> None:
        self._commands, self._parameters, self._unrolls, self._states = commands, parameters, unrolls, states
        self._policy = Shipment(abstract_policy(work))
        self._rollout = Rollout(work, index, life)

    async def run(self) -> None:
        """Obey until the program ends."""
        while True:
            command, *arguments = await self._commands.get()
            await getattr(self, f"_{command}")(*arguments)
            self._commands.release()

    async def _act(self, round_: int) -> None:
        version, shipped = await self._parameters.get(round_)
        slot = await self._unrolls.reserve()
        self._rollout.fill(slot, self._policy.unpack(shipped["policy"]), version, float(shipped["progress"]))
        self._unrolls.commit()

    async def _save(self) -> None:
        await self._states.put(self._rollout.save())

    async def _restore(self, saved: Tree) -> None:
        await self._states.put(self._rollout.restore(saved) or self._rollout.environment)

    def close(self) -> None:
        """Release the environments."""
        self._rollout.close()


class Trainer:
    """Sends parameters out, waits for all unrolls, learns from them side by side."""

    def __init__(
        self, job: Job, parameters: Poster, commands: list[Writer], unrolls: list[Reader], states: list[Reader]
    ) -> None:
        self._job, self._parameters, self._commands, self._unrolls, self._states = (
            *(job, parameters, commands, unrolls, states),
        )
        work = job.work
        self._learner = Learner(work.algorithm, work.seeds("learner"))
        self._policy = Shipment(self._learner.state.policy)
        self._batch = Batch(unroll_layout(work).trajectory, work.actors)
        self._tally, self._account = Tally(), Account(work.actors)
        self._round = 0

    async def run(self) -> None:
        """Learn until all steps are taken or the run wants to stop."""
        await self._begin()
        while self.steps < self._job.work.steps and await self._job.monitor.tick(self):
            await self._do_round()
        await self._job.monitor.finish(self)

    async def _do_round(self) -> None:
        progress = self._job.work.progress(self.steps)
        outgoing = {"policy": self._policy.pack(self._learner.state.policy), "progress": progress}
        await self._parameters.post(outgoing, self._round)
        for commands in self._commands:
            await commands.put(("act", self._round))
        for place, unrolls in enumerate(self._unrolls):
            unroll = await self._unroll_of_this_round(unrolls)
            self._tally.count(unroll, self._round)
            self._batch.put(place, unroll.trajectory)
            unrolls.release()
        self._learner.learn(self._batch.trajectory, progress)
        self._account.take(self._tally)
        self._round += 1

    async def _unroll_of_this_round(self, unrolls: Reader) -> Unroll:
        """Return a worker's unroll; one that died after it had sent its unroll sends another, which is too late."""
        while int((unroll := await unrolls.get()).version) != self._round:
            unrolls.release()
        return unroll

    @property
    def steps(self) -> int:
        """Agent steps so far, over all environments."""
        return self._account.steps

    @property
    def learning(self) -> bool:
        """Whether the first update is done."""
        return self._learner.updated

    def report(self) -> dict[str, float]:
        """Episode statistics, the algorithm's metrics, and which part took which share of the time."""
        return {**self._learner.report(), **self._account.report(self._learner.take_seconds())}

    async def save(self) -> dict[str, Tree]:
        """Return the named parts of a checkpoint; the workers, which wait, are asked for theirs."""
        learner, workers = self._learner.save(), await self._ask([("save",)] * len(self._commands))
        return {"learner": learner, "account": {**self._account.save(), "round": self._round}, "workers": workers}

    async def _begin(self) -> None:
        if self._job.restore is None:
            return
        saved = self._job.restore({"learner": self._learner.template(), "account": None, "workers": None})
        self._learner.restore(saved["learner"])
        self._account.restore(saved["account"])
        self._round = int(saved["account"]["round"])
        continued = await self._ask([("restore", worker) for worker in saved["workers"]])
        anew = next((name for name in continued if name is not True), None)
        if anew is not None:
            self._job.monitor.note(begin_anew(anew))

    async def _ask(self, questions: list[tuple[Any, ...]]) -> list[Any]:
        """Send each worker a command and return their answers."""
        for commands, question in zip(self._commands, questions, strict=True):
            await commands.put(question)
        answers = []
        for states in self._states:
            answers.append(await states.get())
            states.release()
        return answers

    def close(self) -> None:
        """Nothing to release."""
