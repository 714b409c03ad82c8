"""Workers that learn by themselves, and whose parameters are merged now and then."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from weft.algorithm import State
from weft.maths.statistics import pooled
from weft.topologies.centre import Counted
from weft.topologies.job import Job, Work
from weft.topologies.learner import Learner
from weft.topologies.lockstep import Commander, Ports, Worker
from weft.topologies.messages import NUMBER, REAL, Finished, Shipment
from weft.topologies.team import abstract_state, fresh_statistics
from weft.types import Array, Tree


class Learned(NamedTuple):
    """What a worker has made of a round."""

    state: tuple[Array, ...]
    statistics: tuple[Array, ...]
    """leaves of what the round alone adds to the running statistics"""
    mean_return: np.ndarray
    """[] of the worker's recent episodes; -infinity before the first"""
    version: np.ndarray
    """[] the round"""
    metrics: dict[str, Array]
    counted: Counted


def merge_layout(work: Work) -> Learned:
    """Return the layout of what workers send."""
    from weft.topologies.parts import metric_names

    state = abstract_state(work)
    statistics = Shipment(state.statistics).layout
    metrics = dict.fromkeys(metric_names(work), REAL)
    return Learned(Shipment(state).layout, statistics, REAL, NUMBER, metrics, Counted.layout())  # type: ignore[arg-type]


class SelfLearner(Worker):
    """Acts and learns for some updates, beginning with what was merged last."""

    def __init__(self, work: Work, index: int, ports: Ports, life: int = 0) -> None:
        super().__init__(work, index, ports, life)
        self._work = work
        self._learner = Learner(work.algorithm, work.seeds("learner"), index)
        self._shipment = Shipment(abstract_state(work))
        self._fresh, self._pooled = fresh_statistics(work), jax.jit(pooled)

    async def learn(self, round_: int, updates: int, steps: int) -> None:
        """Make some updates; ``steps`` were taken by all workers before, and all take the same number each."""
        _, shipped = await self._parameters.get(round_)
        self._learner.state = self._shipment.unpack(shipped["state"])
        before, statistics = self._rollout.counts, None
        for _ in range(updates):
            taken = (self._rollout.counts[0] - before[0]) * self._work.actors
            progress = self._work.progress(steps + taken)
            trajectory = self._rollout.act(self._learner.state.policy, progress)
            fresh = self._fresh(trajectory)
            statistics = fresh if statistics is None else self._pooled(statistics, fresh)
            self._learner.learn(trajectory, progress)
        await self._send(round_, before, statistics)

    async def _send(self, round_: int, before: tuple[int, int], statistics: Tree) -> None:
        slot: Learned = await self._answers.reserve()
        for place, leaf in zip(slot.state, self._shipment.pack(self._learner.state), strict=True):
            place[...] = leaf
        for place, leaf in zip(slot.statistics, jax.device_get(jax.tree.leaves(statistics)), strict=True):
            place[...] = leaf
        report = self._learner.report()
        for name, value in slot.metrics.items():
            value[...] = report[name]
        slot.version[...] = round_
        slot.mean_return[...] = self._rollout.episodes.report().get("mean_return", -np.inf)
        slot.counted.steps[...] = self._rollout.counts[0] - before[0]
        slot.counted.episodes.fill(self._rollout.episodes, before[1])
        for part, seconds in self._rollout.take_seconds().items():
            slot.counted.seconds[part][...] = seconds
        self._answers.commit()


class Merger(Commander):
    """Makes one state out of those of all workers."""

    def __init__(self, job: Job, *ends: Any) -> None:
        super().__init__(job, *ends)
        self._settings = job.settings
        self._shipment = Shipment(self._learner.state)
        self._statistics = Shipment(self._learner.state.statistics)
        self._merge = jax.jit({"average": averaged, "best": chosen}[job.settings.merge])
        self._pooled = jax.jit(pooled)
        self._metrics: dict[str, float] = {}

    async def _do_round(self, progress: float) -> None:
        learner, every = self._learner, self._settings.every
        await self._tell_all("learn", {"state": self._shipment.pack(learner.state)}, every, self.steps)
        learned = [jax.tree.map(np.array, await self._answer(place)) for place in range(len(self._answers))]
        for answers in self._answers:
            answers.release()
        for each in learned:
            counted = each.counted
            self._tally.add(
                int(counted.steps), Finished(*counted.episodes), {k: float(v) for k, v in counted.seconds.items()}
            )
        states = [self._shipment.unpack(each.state) for each in learned]
        returns = np.array([each.mean_return for each in learned])
        fresh = [self._statistics.unpack(each.statistics) for each in learned]
        merged: State = self._merge(states, returns)
        learner.state = merged._replace(statistics=self._pooled(learner.state.statistics, *fresh))
        self._metrics = {name: float(np.mean([each.metrics[name] for each in learned])) for name in learned[0].metrics}

    def report(self) -> dict[str, float]:
        """Add the workers' metrics."""
        return {**super().report(), **self._metrics}


def averaged(states: list[State], returns: Array) -> State:
    """Return the mean of what is real, and the largest of what is counted."""

    def mean(*leaves: Array) -> jax.Array:
        stacked = jnp.stack(leaves)
        return stacked.mean(0) if jnp.issubdtype(stacked.dtype, jnp.inexact) else stacked.max(0)

    return jax.tree.map(mean, *states)


def chosen(states: list[State], returns: Array) -> State:
    """Return the state of the worker with the highest mean return, the first of equals."""
    best = jnp.argmax(jnp.asarray(returns))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves)[best], *states)
