"""``apex``: actors put what they see into a replay, a learner samples from it; nobody waits for anybody, within limits.

Horgan et al. 2018, arXiv:1803.00933. Actors explore differently, and tell first priorities themselves. The replay may
be several shards; how often its items are sampled is held at what the algorithm asks for (Cassirer et al. 2021,
arXiv:2102.04736).
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import WeftError
from weft.program import Program
from weft.settings import positive
from weft.topologies.explorers import Explorer
from weft.topologies.job import Job, Work
from weft.topologies.messages import policy_layout
from weft.topologies.replaying import ReplayLearner
from weft.topologies.serving import Shard, reply_layout, request_layout


@dataclass(frozen=True)
class Settings:
    """Of the apex topology."""

    unroll: int = positive(20)
    """Steps of each environment that an actor sends at a time."""
    shards: int = positive(1)
    """Replays, each with the steps of its own actors; batches are drawn from all of them."""
    refresh: int = positive(4)
    """Updates between two versions of the parameters that actors get."""
    slack: float = positive(4.0)
    """How many unrolls of all actors one side may be ahead of the other, where that is more than two batches."""


def apex(job: Job) -> Program:
    """Shard i has the actors i, i + shards, ..."""
    work, settings, program = job.work, job.settings, Program("apex")
    request, reply = request_layout(work, settings.unroll), reply_layout(work)
    parameters = program.mailbox("parameters", policy_layout(work))
    shards = []
    for shard in range(settings.shards):
        replay = program.call(f"replay {shard}", request, reply)
        for index in range(shard, work.actors, settings.shards):
            program.add(f"actor {index}", Explorer, work, settings, index, parameters.out, replay.client, restarts=True)
        first, saved = program.queue(f"restored {shard}"), program.queue(f"saved {shard}")
        program.add(f"replay {shard}", Shard, work, settings, shard, replay.server, first.out, saved.into)
        shards.append((replay.client, first.into, saved.out))
    program.main("learner", ReplayLearner, job, parameters.into, shards)
    return program


def check(work: Work, settings: Settings) -> None:
    """Refuse what cannot be done."""
    work.algorithm.experience.check(work.envs * work.actors)
    if work.actors < settings.shards:
        raise WeftError(f"{settings.shards} shards need at least as many actors, not {work.actors} (--actors).")
