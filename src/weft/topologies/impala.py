"""``impala``: actors with copies of the policy send unrolls to one learner or several, and get parameters back.

Espeholt et al. 2018, arXiv:1802.01561. Nobody waits for the slowest actor; unrolls are as old as the queue is long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.errors import WeftError
from weft.program import Program
from weft.settings import positive, within
from weft.topologies.job import Job, Work
from weft.topologies.learners import Actor, Centre, Peer
from weft.topologies.messages import policy_layout, unroll_layout, weight_of
from weft.topologies.team import exchanges


@dataclass(frozen=True)
class Settings:
    """Of the impala topology."""

    batch: int = positive(1)
    """Unrolls that a learner puts side by side for an update."""
    learners: int = positive(1)
    """Learners; each learns from unrolls of its own actors, and their gradients are averaged."""
    reduce: Literal["master", "all"] = "master"
    """How: the first learner gathers gradients and hands out parameters (master), or each one sends its gradients to
    all the others and takes the step itself (all)."""
    queue: int = positive(2)
    """Unrolls of each actor that may wait for the learner, the one being written included."""
    full: Literal["block", "drop oldest"] = "block"
    """What an actor does when the learner is behind: wait, or drop its oldest unroll."""
    delay: int = within(0, 0)
    """Let actors see parameters only after this many updates, to study how learning stands it."""


def impala(job: Job) -> Program:
    """Learner i has the actors i, i + learners, ...; the first one is where the run is accounted for."""
    work, settings, program, layout = job.work, job.settings, Program("impala"), unroll_layout(job.work)
    parameters = program.mailbox("parameters", policy_layout(work))
    unrolls = []
    for learner in range(settings.learners):
        queue = program.queue(f"unrolls {learner}", layout, settings.queue, settings.full, weight_of(layout))
        for index in range(learner, work.actors, settings.learners):
            program.add(f"actor {index}", Actor, work, index, parameters.out, queue.into, restarts=True)
        unrolls.append(queue.out)
    team = exchanges(program, work, settings.learners, settings.reduce) if settings.learners > 1 else [None]
    program.main("learner 0", Centre, job, unrolls[0], parameters.into, team[0])
    for index in range(1, settings.learners):
        program.add(f"learner {index}", Peer, work, settings, index, unrolls[index], team[index], cores=None)
    return program


def check(work: Work, settings: Settings) -> None:
    """Refuse what cannot be done."""
    work.algorithm.experience.check(work.envs * settings.batch)
    if work.actors < settings.learners:
        raise WeftError(f"{settings.learners} learners need at least as many actors, not {work.actors} (--actors).")
