"""``local``: actor, experience and learner in one process, called one after the other; nothing travels."""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from weft.envs.base import AsynchronousEnvironment
from weft.errors import WeftError
from weft.experience.asynchronous import AsynchronousReplayBuffer
from weft.experience.kinds import Replay, Unrolls
from weft.experience.replay import ReplayBuffer
from weft.experience.unrolls import UnrollRecorder
from weft.program import Program
from weft.topologies.job import AnyEnvironment, Job, NoSettings, Work
from weft.topologies.learner import Learner
from weft.topologies.messages import begin_anew
from weft.topologies.rollout import AnyActor, actor_in, recorder_of
from weft.types import Tree


def local(job: Job) -> Program:
    """One agent that acts and learns in turn."""
    program = Program("local")
    program.main("agent", Agent, job)
    return program


def check(work: Work, settings: NoSettings) -> None:
    """Refuse what cannot be done."""
    if work.actors != 1:
        raise WeftError(f"local has one actor, not {work.actors}: give it more environments (--envs) instead.")
    work.algorithm.experience.check(work.envs)


class Cycle(Protocol):
    """How experience passes from the actor to the learner."""

    def advance(self, actor: AnyActor, learner: Learner, progress: float) -> None:
        """Act for a while, then learn what is due."""

    def save(self) -> Tree:
        """Everything as a tree of arrays."""

    def restore(self, saved: Tree, episodes_restarted: bool) -> None:
        """Continue from what ``save`` returned."""


class UnrollCycle:
    """On-policy: one unroll, one update, and the unroll is forgotten."""

    def __init__(self, recorder: UnrollRecorder) -> None:
        self._recorder = recorder

    def advance(self, actor: AnyActor, learner: Learner, progress: float) -> None:
        """Record one unroll and learn from it."""
        memory, explore = actor.memory, learner.algorithm.explore(progress)
        for step in actor.steps(learner.state.policy, explore, self._recorder.length):
            self._recorder.record(step.timestep, step.raw, step.extras, step.following, step.ids)
        learner.learn(self._recorder.finish(actor.timestep, memory), progress)

    def save(self) -> Tree:
        """Between two unrolls only the running returns are worth keeping."""
        return {"running_return": self._recorder.running_return}

    def restore(self, saved: Tree, episodes_restarted: bool) -> None:
        """Continue from what ``save`` returned."""
        if not episodes_restarted:
            self._recorder.running_return[:] = saved["running_return"]


class ReplayCycle:
    """Off-policy: every step goes into the replay; updates from its samples keep pace with the steps."""

    def __init__(self, experience: Replay, replay: ReplayBuffer) -> None:
        self._experience = experience
        self._replay = replay
        self._unlearned = 0.0
        """Steps taken since the updates that they call for."""

    def advance(self, actor: AnyActor, learner: Learner, progress: float) -> None:
        """Take one step in every environment that is ready, then the updates that are due for it."""
        before = actor.agent_steps
        for step in actor.steps(learner.state.policy, learner.algorithm.explore(progress), 1):
            self._replay.add(step.timestep, step.raw, step.extras, step.memory, step.following, step.ids)
        if not self._replay.ready:
            return
        self._unlearned += actor.agent_steps - before
        while self._unlearned >= self._experience.steps_per_update:
            self._unlearned -= self._experience.steps_per_update
            learner.learn(self._replay.sample(), progress)

    def save(self) -> Tree:
        """Everything as a tree of arrays."""
        return {"unlearned": self._unlearned, "replay": self._replay.save()}

    def restore(self, saved: Tree, episodes_restarted: bool) -> None:
        """Continue from what ``save`` returned."""
        self._unlearned = float(saved["unlearned"])
        self._replay.restore(saved["replay"], episodes_restarted)


class Agent:
    """An actor and a learner that take turns."""

    def __init__(self, job: Job) -> None:
        self._job = job
        work = job.work
        environment = work.make_environment(0)
        self._actor = actor_in(work, environment)
        self._learner = Learner(work.algorithm, work.seeds("learner"))
        self._cycle = _cycle(job, environment)
        if job.restore is not None:
            parts = {"learner": self._learner.template(), "actor": None, "environment": None, "experience": None}
            self._restore(job.restore(parts))
        self._reported_at = perf_counter()

    async def run(self) -> None:
        """Act and learn until all steps are taken or the run wants to stop."""
        while self.steps < self._job.work.steps and await self._job.monitor.tick(self):
            self._cycle.advance(self._actor, self._learner, self._job.work.progress(self.steps))
        await self._job.monitor.finish(self)

    def close(self) -> None:
        """Release the environments."""
        self._actor.environment.close()

    @property
    def steps(self) -> int:
        """Agent steps so far, over all environments."""
        return self._actor.agent_steps

    @property
    def learning(self) -> bool:
        """Whether the first update is done."""
        return self._learner.updated

    def report(self) -> dict[str, float]:
        """Episode statistics, the algorithm's metrics, and which part took which share of the time."""
        learned = self._learner.report()
        now = perf_counter()
        elapsed, self._reported_at = now - self._reported_at, now
        spent = {**self._actor.take_seconds(), "learning": self._learner.take_seconds()}
        shares = {f"share_{part}": seconds / elapsed for part, seconds in spent.items()}
        return {**self._actor.episodes.report(), **learned, **shares}

    async def save(self) -> dict[str, Tree]:
        """Return the named parts of a checkpoint."""
        return {"learner": self._learner.save(), **self._actor.save(), "experience": self._cycle.save()}

    def _restore(self, saved: dict[str, Tree]) -> None:
        self._learner.restore(saved["learner"])
        continued = self._actor.restore(saved)
        self._cycle.restore(saved["experience"], episodes_restarted=not continued)
        if not continued:
            self._job.monitor.note(begin_anew(self._actor.environment.name))


def _cycle(job: Job, environment: AnyEnvironment) -> Cycle:
    experience, number = job.work.algorithm.experience, environment.number
    if isinstance(experience, Unrolls):
        return UnrollCycle(recorder_of(experience, environment))
    buffer = AsynchronousReplayBuffer if isinstance(environment, AsynchronousEnvironment) else ReplayBuffer
    return ReplayCycle(experience, buffer(experience, number, job.work.seeds("replay")))
