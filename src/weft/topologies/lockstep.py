"""Workers in lock-step: they do what they are told, all at once, and everything waits for the last of them."""

from __future__ import annotations

from typing import Any

from weft.program import Poster, Program, Reader, Watcher, Writer
from weft.topologies.centre import Account, Tally
from weft.topologies.job import Job, Work
from weft.topologies.learner import Learner
from weft.topologies.messages import begin_anew
from weft.topologies.rollout import Rollout
from weft.types import Tree

Ports = tuple[Reader, Watcher, Writer, Writer]
"""Of a worker: commands, parameters, answers, states."""


class Worker:
    """Does what it is told; a command is done with when its answer is sent, so that none is lost when a worker dies.

    A subclass has a method for each command of its own, which ends by sending ``self._answers`` what came of it.
    """

    def __init__(self, work: Work, index: int, ports: Ports, life: int = 0) -> None:
        self._commands, self._parameters, self._answers, self._states = ports
        self._rollout = Rollout(work, index, life)

    async def run(self) -> None:
        """Obey until the program ends."""
        while True:
            command, *arguments = await self._commands.get()
            await getattr(self, command)(*arguments)
            self._commands.release()

    async def save(self) -> None:
        """Send everything that this worker continues from."""
        await self._states.put(self._rollout.save())

    async def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` sent; sends whether that could be done."""
        await self._states.put(self._rollout.restore(saved) or self._rollout.environment)

    def close(self) -> None:
        """Release the environments."""
        self._rollout.close()


class Commander:
    """Round by round sends parameters out, tells all workers what to do, and waits for all their answers."""

    def __init__(
        self, job: Job, parameters: Poster, commands: list[Writer], answers: list[Reader], states: list[Reader]
    ) -> None:
        self._job, self._parameters = job, parameters
        self._commands, self._answers, self._states = commands, answers, states
        self._learner = Learner(job.work.algorithm, job.work.seeds("learner"))
        self._tally, self._account = Tally(), Account(job.work.actors)
        self._round = 0

    async def run(self) -> None:
        """Learn until all steps are taken or the run wants to stop."""
        await self._begin()
        while self.steps < self._job.work.steps and await self._job.monitor.tick(self):
            await self._do_round(self._job.work.progress(self.steps))
            self._account.take(self._tally)
            self._round += 1
        await self._job.monitor.finish(self)

    async def _do_round(self, progress: float) -> None:
        raise NotImplementedError

    async def _tell_all(self, command: str, parameters: Tree, *arguments: Any) -> None:
        await self._parameters.post(parameters, self._round)
        for commands in self._commands:
            await commands.put((command, self._round, *arguments))

    async def _answer(self, place: int) -> Any:
        """Return a worker's answer; one that died after it had answered answers again, which is too late."""
        answers = self._answers[place]
        while int((answer := await answers.get()).version) != self._round:
            answers.release()
        return answer

    @property
    def steps(self) -> int:
        """Agent steps so far, over all environments."""
        return self._account.steps

    @property
    def learning(self) -> bool:
        """Whether the first update is done."""
        return self._round > 0

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
        """Send each worker a command and return what they say."""
        for commands, question in zip(self._commands, questions, strict=True):
            await commands.put(question)
        said = []
        for states in self._states:
            said.append(await states.get())
            states.release()
        return said

    def close(self) -> None:
        """Nothing to release."""


def lockstep(
    program: Program, job: Job, worker: type[Worker], commander: type[Commander], down: Tree, up: Tree, weight: int
) -> None:
    """Add workers, their commander, and the channels between them; ``down`` and ``up`` are what travels."""
    parameters = program.mailbox("parameters", down)
    ends: list[tuple[Any, ...]] = []
    for index in range(job.work.actors):
        commands, states = program.queue(f"commands {index}"), program.queue(f"states {index}")
        answers = program.queue(f"answers {index}", up, weight=weight)
        ports = (commands.out, parameters.out, answers.into, states.into)
        program.add(f"worker {index}", worker, job.work, index, ports, restarts=True)
        ends.append((commands.into, answers.out, states.out))
    program.main("trainer", commander, job, parameters.into, *map(list, zip(*ends, strict=True)))
