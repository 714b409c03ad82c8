"""``a3c``: workers compute gradients on copies of the parameters, and a parameter server applies them as they come.

Mnih et al. 2016, arXiv:1602.01783; the server may be several, each with a part of the parameters (Dean et al. 2012,
'Large scale distributed deep networks'). Or workers learn by themselves and their parameters are merged now and then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from weft.errors import WeftError
from weft.program import Program
from weft.settings import positive, within
from weft.topologies.gradients import GradientWorker, ParameterServer, Shard
from weft.topologies.job import Job, Work
from weft.topologies.lockstep import lockstep
from weft.topologies.merging import Merger, SelfLearner, merge_layout
from weft.topologies.messages import Shipment, unroll_layout, weight_of
from weft.topologies.parts import Parts, pushed_layout
from weft.topologies.team import abstract_state


@dataclass(frozen=True)
class Settings:
    """Of the a3c topology."""

    merge: Literal["gradients", "average", "best"] = "gradients"
    """What workers send: gradients as they come; or, after learning by themselves for ``every`` updates, their
    parameters, of which the average or those of the worker with the best mean return are what all go on with."""
    every: int = positive(4)
    """Updates of each worker between two merges."""
    shards: int = positive(1)
    """Parameter servers, each with a part of the parameters."""
    max_staleness: int | None = within(None, 0)
    """Discard gradients of parameters that have been changed more often than this since."""


def a3c(job: Job) -> Program:
    """Workers and what brings their learning together."""
    work, settings, program = job.work, job.settings, Program("a3c")
    steps = weight_of(unroll_layout(work))
    if settings.merge != "gradients":
        state, weight = Shipment(abstract_state(work)).layout, steps * settings.every
        lockstep(program, job, SelfLearner, Merger, {"state": state}, merge_layout(work), weight)
        return program
    parts = Parts(work, settings.shards)
    calls = [program.call(f"gradients {i}", pushed_layout(work, parts, i), parts.layout(i)) for i in range(len(parts))]
    for index in range(work.actors):
        program.add(
            f"worker {index}", GradientWorker, work, parts, index, [call.client for call in calls], restarts=True
        )
    shards: list[tuple[Any, ...]] = []
    for index in range(1, len(parts)):
        first, states = program.queue(f"state {index}"), program.queue(f"saved {index}")
        program.add(f"server {index}", Shard, work, settings, parts, index, calls[index].server, first.out, states.into)
        shards.append((first.into, calls[index].client, states.out))
    program.main("server 0", ParameterServer, job, parts, calls[0].server, shards)
    return program


def check(work: Work, settings: Settings) -> None:
    """Refuse what cannot be done."""
    work.algorithm.experience.check(work.envs)
    if settings.merge != "gradients" and settings.shards > 1:
        raise WeftError(f"graph.shards is {settings.shards}, but merging by {settings.merge} has no parameter server.")
