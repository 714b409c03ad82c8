"""Acting on behalf of others: environments, a policy that arrives from elsewhere, and unrolls written where they go."""

from __future__ import annotations

import numpy as np

from weft.algorithm import Policy
from weft.envs.base import AsynchronousEnvironment
from weft.experience.asynchronous import AsynchronousUnrollRecorder
from weft.experience.episodes import EpisodeStatistics
from weft.experience.kinds import Unrolls
from weft.experience.unrolls import UnrollRecorder
from weft.topologies.actor import Actor
from weft.topologies.asynchronous import AsynchronousActor
from weft.topologies.job import AnyEnvironment, Work
from weft.topologies.messages import PARTS, Unroll
from weft.trees import write
from weft.types import EVERY, Trajectory, Tree

AnyActor = Actor | AsynchronousActor


def actor_in(work: Work, environment: AnyEnvironment, index: int = 0, life: int = 0) -> AnyActor:
    """Return the actor for this kind of environments."""
    seeds = work.seeds("actor", index, life)
    if isinstance(environment, AsynchronousEnvironment):
        return AsynchronousActor(work.algorithm, environment, seeds)
    return Actor(work.algorithm, environment, seeds)


def recorder_of(experience: Unrolls, environment: AnyEnvironment) -> UnrollRecorder:
    """Return the recorder for this kind of environments."""
    asynchronous = isinstance(environment, AsynchronousEnvironment)
    return (AsynchronousUnrollRecorder if asynchronous else UnrollRecorder)(experience, environment.number)


class Rollout:
    """The environments of one actor, and what it takes to record unrolls of them."""

    def __init__(self, work: Work, index: int, life: int = 0) -> None:
        experience = work.algorithm.experience
        assert isinstance(experience, Unrolls)
        self._algorithm = work.algorithm
        self._environment = work.make_environment(index)
        self._actor = actor_in(work, self._environment, index, life)
        self._recorder = recorder_of(experience, self._environment)

    @property
    def environment(self) -> str:
        """Name of the environments."""
        return self._environment.name

    @property
    def counts(self) -> tuple[int, int]:
        """(agent steps, finished episodes) so far."""
        return self._actor.agent_steps, self._actor.episodes.episodes

    @property
    def episodes(self) -> EpisodeStatistics:
        """Of these environments."""
        return self._actor.episodes

    def take_seconds(self) -> dict[str, float]:
        """Seconds spent on each part since the last call."""
        return self._actor.take_seconds()

    def act(self, policy: Policy, progress: float, into: Trajectory | None = None) -> Trajectory:
        """Record one unroll with one policy, into the arrays given or the recorder's own."""
        if into is not None:
            self._recorder.begin(into)
        memory, explore = self._actor.memory, self._algorithm.explore(progress)
        for step in self._actor.steps(policy, explore, self._recorder.length):
            self._recorder.record(step.timestep, step.raw, step.extras, step.following, step.ids)
        trajectory = self._recorder.finish(self._actor.timestep, memory)
        if into is not None:
            write(into.memory, EVERY, trajectory.memory)  # type: ignore[arg-type]
        return trajectory

    def fill(self, slot: Unroll, policy: Policy, version: int, progress: float) -> None:
        """Record one unroll into a slot, with what the learner wants to know about it."""
        steps, episodes = self.counts
        self.act(policy, progress, slot.trajectory)
        slot.version[...] = version
        slot.steps[...] = self._actor.agent_steps - steps
        slot.episodes.fill(self._actor.episodes, episodes)
        seconds = self.take_seconds()
        for part in PARTS:
            slot.seconds[part][...] = seconds[part]

    def save(self) -> dict[str, Tree]:
        """Return everything that acting continues from."""
        return {**self._actor.save(), "running_return": np.array(self._recorder.running_return)}

    def restore(self, saved: dict[str, Tree]) -> bool:
        """Continue from what ``save`` returned; returns False where the episodes had to begin anew."""
        continued = self._actor.restore(saved)
        if continued:
            self._recorder.running_return[:] = saved["running_return"]
        return continued

    def close(self) -> None:
        """Release the environments."""
        self._environment.close()
