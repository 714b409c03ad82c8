"""Workers that compute gradients, and the servers that hold the parameters and apply them."""

from __future__ import annotations

import math
from functools import partial
from time import perf_counter
from typing import Any

import jax
import numpy as np
import optax

from weft.algorithm import State
from weft.errors import TrainingDiverged
from weft.maths.statistics import pooled
from weft.program import Client, Reader, Request, Server, Writer
from weft.topologies.centre import Account, Tally
from weft.topologies.job import Job, Work
from weft.topologies.learner import Learner, learning_key
from weft.topologies.messages import Finished, Shipment, begin_anew, zeros
from weft.topologies.parts import PULL, PUSH, SAVE, Parts, Pushed, pushed_layout
from weft.topologies.rollout import Rollout
from weft.topologies.team import abstract_state, fresh_statistics
from weft.types import Tree
from weft.update import Steps, passes, stepped

IDLE = 0.5
"""Seconds after which a server that is asked nothing lets the run look after itself."""


class GradientWorker:
    """Acts, computes gradients of what happened, and gets new parameters for each of them."""

    def __init__(self, work: Work, parts: Parts, index: int, servers: list[Client], life: int = 0) -> None:
        self._servers, self._parts = servers, parts
        self._rollout = Rollout(work, index, life)
        self._steps, self._fresh = Steps(work.algorithm), fresh_statistics(work)
        self._statistics = Shipment(abstract_state(work).statistics)
        self._key = learning_key(work.seeds("learner"), index)
        self._messages: list[Pushed] = [zeros(pushed_layout(work, parts, index)) for index in range(len(parts))]
        self._norm = jax.jit(optax.tree.norm)
        self._pushes = math.prod(passes(work.algorithm))

    async def run(self) -> None:
        """Work until the program ends."""
        state = await self._exchange(PULL)
        while True:
            before = self._rollout.counts
            trajectory = self._rollout.act(state.policy, float(state.progress))
            state = await self._learn(state, trajectory, before)

    async def _learn(self, state: State, trajectory: Any, before: tuple[int, int]) -> State:
        self._count(before)
        key = jax.random.fold_in(self._key, state.updates)
        _, data = self._steps.prepare(state, trajectory)
        statistics = self._statistics.pack(self._fresh(trajectory))
        for number, (minibatch, minibatch_key) in enumerate(self._steps.minibatches(data, key), start=1):
            gradients, feedback = self._steps.gradients(state, minibatch, minibatch_key)
            norm, parts = float(self._norm(gradients)), self._parts.gradients_of(gradients)
            metrics: Any = {name: float(value) for name, value in feedback.metrics.items()}
            for place, message in enumerate(self._messages):
                message.version[...], message.progress[...] = state.updates, state.progress
                message.norm[...] = norm
                message.first[...], message.last[...] = number == 1, number == self._pushes
                self._messages[place] = message._replace(gradients=parts[place], metrics=metrics)
            self._messages[0] = self._messages[0]._replace(statistics=statistics)
            state = await self._exchange(PUSH)
        return state

    def _count(self, before: tuple[int, int]) -> None:
        counted = self._messages[0].counted
        counted.steps[...] = self._rollout.counts[0] - before[0]
        counted.episodes.fill(self._rollout.episodes, before[1])
        for part, seconds in self._rollout.take_seconds().items():
            counted.seconds[part][...] = seconds

    async def _exchange(self, kind: int) -> State:
        """Ask all servers at once; returns what they hold now.

        The first server is sent to last, so that what it has got, the others have got or will find waiting.
        """
        for server, message in reversed(list(zip(self._servers, self._messages, strict=True))):
            message.kind[...] = kind
            await server.send(message)
        return self._parts.student([await server.receive() for server in self._servers])

    def close(self) -> None:
        """Release the environments."""
        self._rollout.close()


class _Server:
    """One server's part of the state, and gradients as they come."""

    def __init__(self, work: Work, settings: Any, parts: Parts, index: int, workers: Server) -> None:
        self._work, self._parts, self._index, self._workers = work, parts, index, workers
        self._max_staleness: int | None = settings.max_staleness
        self._apply = jax.jit(partial(stepped, work.algorithm))
        self.state: State
        self.seconds = 0.0
        self.pushes = 0
        self.discarded = 0

    def _push(self, message: Pushed) -> int | None:
        """Apply what a worker sends, unless it is too old; returns how old it was, None if it was not applied."""
        self.pushes += 1
        lag = int(self.state.updates) - int(message.version)
        if self._max_staleness is not None and lag > self._max_staleness:
            self.discarded += 1
            return None
        began = perf_counter()
        # Every server takes the progress that the worker was told, so that all parts of a step are of one size.
        state = self.state._replace(progress=np.asarray(message.progress, np.float32))
        gradients = self._parts.gradients(message.gradients, self._index)
        norm = np.asarray(message.norm, np.float32)
        self.state = jax.block_until_ready(self._apply(state, gradients, norm))
        self.seconds += perf_counter() - began
        return lag

    async def _reply(self, request: Any, state: State) -> None:
        """Answer with what a state holds of the parameters."""
        await self._workers.reply(request, self._parts.outgoing(state, self._index))

    def close(self) -> None:
        """Nothing to release."""


class Shard(_Server):
    """Any server but the first, which gives it its part and asks for it when a checkpoint is due.

    It asks in the line of the workers, so that in whatever order they came is all there is to know; and it says how
    many pushes it has taken itself, which this server has got too and takes before it hands out its part.
    """

    def __init__(
        self, work: Work, settings: Any, parts: Parts, index: int, workers: Server, first: Reader, states: Writer
    ) -> None:
        super().__init__(work, settings, parts, index, workers)
        self._first, self._states = first, states

    async def run(self) -> None:
        """Serve until the program ends."""
        self.state = jax.device_put(await self._first.get())
        self._first.release()
        due: int | None = None
        while True:
            (request,) = await self._workers.collect(1, 0.0)
            kind = int(request.value.kind)
            if kind == PUSH:
                self._push(request.value)
            elif kind == SAVE:
                due = int(request.value.version)
            await self._reply(request, self.state)
            if due is not None and self.pushes >= due:
                await self._states.put(jax.device_get(self.state))
                due = None


class ParameterServer(_Server):
    """The first server, which also keeps the run's account."""

    def __init__(self, job: Job, parts: Parts, workers: Server, shards: list[tuple[Writer, Client, Reader]]) -> None:
        work = job.work
        super().__init__(work, job.settings, parts, 0, workers)
        self._job, self._shards = job, shards
        self._learner = Learner(work.algorithm, work.seeds("learner"))
        self._statistics = Shipment(self._learner.state.statistics)
        self._tally, self._account = Tally(), Account(work.actors)
        self._pooled = jax.jit(pooled)
        self._metrics: dict[str, list[float]] = {}

    async def run(self) -> None:
        """Serve until all steps are taken or the run wants to stop."""
        self._begin()
        whole = self._learner.state
        self.state = jax.device_put(self._parts.part_of(whole, 0))
        for index, (first, *_) in enumerate(self._shards, start=1):
            await first.put(jax.device_get(self._parts.part_of(whole, index)))
        taken: list[Request] = []
        while self.steps < self._job.work.steps and await self._job.monitor.tick(self):
            # Whoever pushed waits until the run has looked after itself, so that a checkpoint is not overtaken by it.
            for request in taken:
                progress = np.asarray(self._job.work.progress(self.steps), np.float32)
                await self._reply(request, self.state._replace(progress=progress))
            taken = await self._workers.collect(1, 0.0, IDLE)
            for request in taken:
                if int(request.value.kind) == PUSH:
                    self._learn_from(request.value)
        await self._job.monitor.finish(self)

    def _learn_from(self, message: Pushed) -> None:
        """Apply a push and keep account of it."""
        if int(message.first):
            statistics = self._statistics.unpack(message.statistics)
            self.state = self.state._replace(statistics=self._pooled(self.state.statistics, statistics))
        lag = self._push(message)
        if lag is not None:
            self._tally.lag(lag)
            for name, value in message.metrics.items():
                self._metrics.setdefault(name, []).append(float(value))
        if int(message.last):
            counted = message.counted
            seconds = {part: float(value) for part, value in counted.seconds.items()}
            self._tally.add(int(counted.steps), Finished(*counted.episodes), seconds)
        self._account.take(self._tally)

    @property
    def steps(self) -> int:
        """Agent steps so far, over all workers."""
        return self._account.steps

    @property
    def learning(self) -> bool:
        """Whether the first update is done."""
        return int(self.state.updates) > 0

    def report(self) -> dict[str, float]:
        """Episode statistics, the algorithm's metrics, staleness, and which part took which share of the time."""
        seconds, self.seconds = self.seconds, 0.0
        metrics = {name: float(np.mean(values)) for name, values in self._metrics.items()}
        self._metrics = {}
        updates = int(self.state.updates)
        infinite = [name for name, value in metrics.items() if not np.isfinite(value)]
        if infinite:
            raise TrainingDiverged(
                f"Training diverged: {' and '.join(infinite)} became NaN or infinite at update {updates}."
            )
        own = {"updates": updates, "gradients_discarded": self.discarded}
        return {**own, **metrics, **self._account.report(seconds)}

    async def save(self) -> dict[str, Tree]:
        """Return the named parts of a checkpoint."""
        parts = [jax.device_get(self.state)]
        for index, (_, server, states) in enumerate(self._shards, start=1):
            message: Pushed = zeros(pushed_layout(self._work, self._parts, index))
            message.kind[...], message.version[...] = SAVE, self.pushes
            await server.send(message)
            await server.receive()
            parts.append(await states.get())
            states.release()
        self._learner.state = self._parts.whole(parts)
        return {"learner": self._learner.save(), "account": self._account.save()}

    def _begin(self) -> None:
        if self._job.restore is None:
            return
        saved = self._job.restore({"learner": self._learner.template(), "account": None})
        self._learner.restore(saved["learner"])
        self._account.restore(saved["account"])
        self._job.monitor.note(begin_anew("the workers' environments"))
