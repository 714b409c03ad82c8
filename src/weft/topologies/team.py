"""Several learners that act as one: each has a batch of its own, every step is along the mean of their gradients."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from weft.algorithm import State
from weft.maths.statistics import pooled
from weft.program import Poster, Program, Reader, Watcher, Writer
from weft.topologies.centre import Counted, Tally
from weft.topologies.job import Work
from weft.topologies.learner import Learner, added, no_totals
from weft.topologies.messages import REAL, Shipment, leaves_like
from weft.types import Array, Tree
from weft.update import Steps, stepped


class Contribution(NamedTuple):
    """What one learner brings to one step."""

    gradients: tuple[Array, ...]
    """their leaves"""
    statistics: tuple[Array, ...]
    """leaves of what the batch alone adds to the running statistics; read with a batch's first step only"""
    progress: Array
    """[] the share of the run's steps that is done, as far as this learner knows"""
    counted: Counted


class Exchange(Protocol):
    """How the steps of one learner become those of all."""

    async def begin(self, state: State) -> State:
        """Return the state that all begin with."""

    async def step(self, state: State, gradients: Tree, statistics: Tree | None, tally: Tally) -> tuple[State, Any]:
        """Return the state after the step of all, and what the others counted; with ``statistics``, the batch's first.

        What this learner counted itself stays in ``tally``, unless it is not the one that keeps the run's account.
        """


class TeamLearner(Learner):
    """A learner whose every step is one of all."""

    def __init__(self, work: Work, index: int, exchange: Exchange) -> None:
        super().__init__(work.algorithm, work.seeds("learner"), index)
        self._steps = Steps(work.algorithm)
        self._exchange = exchange
        self._fresh = fresh_statistics(work)
        self._add = jax.jit(added)

    async def begin(self) -> None:
        """Agree with the others on the state."""
        self.state = await self._exchange.begin(self.state)

    async def learn_together(self, batch: Tree, progress: float, tally: Tally) -> list[Counted]:
        """Update the state; returns what the other learners counted."""
        waited, began = 0.0, perf_counter()
        state = self.state._replace(progress=np.asarray(progress, np.float32))
        statistics: Tree | None = self._fresh(batch)
        _, data = self._steps.prepare(state, batch)
        others: list[Counted] = []
        for minibatch, key in self._steps.minibatches(data, self._key_of(state)):
            gradients, feedback = self._steps.gradients(state, minibatch, key)
            self._totals = self._add(self._totals or no_totals(feedback.metrics), feedback, state.updates)
            waits = perf_counter()
            state, counted = await self._exchange.step(state, gradients, statistics, tally)
            waited += perf_counter() - waits
            others += counted
            statistics = None
        self.state = state
        self._seconds += perf_counter() - began - waited
        self.updated = True
        return others


class _Team:
    """What all exchanges have."""

    def __init__(self, work: Work) -> None:
        state = abstract_state(work)
        self._gradients = Shipment(state.params)
        self._statistics = Shipment(state.statistics)
        self._no_statistics = tuple(np.zeros(leaf.shape, leaf.dtype) for leaf in self._statistics.layout)
        self._apply = jax.jit(partial(stepped, work.algorithm))
        self._pooled = jax.jit(pooled)

    async def _send(
        self, writer: Writer, state: State, gradients: tuple[Array, ...], statistics: Tree, tally: Tally | None
    ) -> None:
        slot: Contribution = await writer.reserve()
        slot.progress[...] = state.progress
        for held, leaf in zip(slot.gradients, gradients, strict=True):
            held[...] = leaf
        leaves = self._no_statistics if statistics is None else self._statistics.pack(statistics)
        for held, leaf in zip(slot.statistics, leaves, strict=True):
            held[...] = leaf
        if tally is not None:
            tally.hand_on(slot.counted)
        writer.commit()

    def _stepped(self, state: State, gradients: list[tuple[Array, ...]], statistics: list[Tree] | None) -> State:
        """Take the step along the mean of everyone's gradients, in the order of the learners."""
        mean = tuple(np.mean(leaves, axis=0, dtype=leaves[0].dtype) for leaves in zip(*gradients, strict=True))
        if statistics is not None:
            state = state._replace(statistics=self._pooled(state.statistics, *statistics))
        return self._apply(state, self._gradients.unpack(mean))


class Master(_Team):
    """The first learner gathers gradients and hands out parameters."""

    def __init__(self, work: Work, gathered: list[Reader], state: Poster) -> None:
        super().__init__(work)
        self._gathered, self._state = gathered, state
        self._student = Shipment(student_of(abstract_state(work)))

    async def begin(self, state: State) -> State:
        """Hand out the state that all begin with."""
        await self._hand_out(state)
        return state

    async def step(self, state: State, gradients: Tree, statistics: Tree | None, tally: Tally) -> tuple[State, Any]:
        """Gather, take the step, hand out."""
        contributions: list[Contribution] = [await reader.get() for reader in self._gathered]
        theirs = [self._statistics.unpack(contribution.statistics) for contribution in contributions]
        all_gradients = [self._gradients.pack(gradients), *(contribution.gradients for contribution in contributions)]
        state = self._stepped(state, all_gradients, None if statistics is None else [statistics, *theirs])
        counted = [copy_of_counted(contribution.counted) for contribution in contributions]
        for reader in self._gathered:
            reader.release()
        await self._hand_out(state)
        return state, counted

    async def _hand_out(self, state: State) -> None:
        await self._state.post(self._student.pack(student_of(state)), int(state.updates))


class Follower(_Team):
    """The other learners send gradients to the first and take over its parameters."""

    def __init__(self, work: Work, gradients: Writer, state: Watcher) -> None:
        super().__init__(work)
        self._to_master, self._state = gradients, state
        self._student = Shipment(student_of(abstract_state(work)))

    async def begin(self, state: State) -> State:
        """Take over the state that all begin with."""
        return await self._taken_over(0)

    async def step(self, state: State, gradients: Tree, statistics: Tree | None, tally: Tally) -> tuple[State, Any]:
        """Send, and take over what comes of it."""
        await self._send(self._to_master, state, self._gradients.pack(gradients), statistics, tally)
        return await self._taken_over(int(state.updates) + 1), []

    async def _taken_over(self, updates: int) -> State:
        _, student = await self._state.get(updates)
        return self._student.unpack(student)


class Everyone(_Team):
    """Each learner sends its gradients to all the others and takes the step itself."""

    def __init__(self, work: Work, index: int, to: list[Writer], of: list[Reader], state: Poster | Watcher) -> None:
        super().__init__(work)
        self._index, self._to, self._of, self._state = index, to, of, state
        self._whole = Shipment(abstract_state(work))

    async def begin(self, state: State) -> State:
        """Take over the state of the first."""
        if self._index == 0:
            await self._state.post(self._whole.pack(state), 0)  # type: ignore[union-attr]
            return state
        return self._whole.unpack((await self._state.get())[1])  # type: ignore[union-attr]

    async def step(self, state: State, gradients: Tree, statistics: Tree | None, tally: Tally) -> tuple[State, Any]:
        """Send to all, receive from all, take the step."""
        own = self._gradients.pack(gradients)
        for place, writer in enumerate(self._to):
            await self._send(writer, state, own, statistics, tally if self._index and place == 0 else None)
        contributions: list[Contribution] = [await reader.get() for reader in self._of]
        all_gradients = [contribution.gradients for contribution in contributions]
        all_gradients.insert(self._index, own)
        all_statistics = None
        if statistics is not None:
            all_statistics = [self._statistics.unpack(contribution.statistics) for contribution in contributions]
            all_statistics.insert(self._index, statistics)
        if self._index:
            state = state._replace(progress=np.asarray(contributions[0].progress, np.float32))
        state = self._stepped(state, all_gradients, all_statistics)
        counted = [] if self._index else [copy_of_counted(contribution.counted) for contribution in contributions]
        for reader in self._of:
            reader.release()
        return state, counted


def exchanges(program: Program, work: Work, learners: int, how: str) -> list[tuple[Any, ...]]:
    """Add the channels between learners; returns for each one what its exchange is made of: a class and arguments."""
    layout, others = contribution_layout(work), range(1, learners)
    if how == "master":
        state = program.mailbox("state", Shipment(student_of(abstract_state(work))).layout)
        queues = [program.queue(f"gradients {index}", layout) for index in others]
        return [
            (Master, work, [queue.out for queue in queues], state.into),
            *((Follower, work, queue.into, state.out) for queue in queues),
        ]
    state = program.mailbox("state", Shipment(abstract_state(work)).layout)
    pairs = {
        (i, j): program.queue(f"gradients {i} {j}", layout) for i in range(learners) for j in range(learners) if i != j
    }
    return [
        (
            *(Everyone, work, index),
            [pairs[index, other].into for other in range(learners) if other != index],
            [pairs[other, index].out for other in range(learners) if other != index],
            state.out if index else state.into,
        )
        for index in range(learners)
    ]


def abstract_state(work: Work) -> State:
    """Return the shapes of an algorithm's state."""
    return jax.eval_shape(work.algorithm.init, jax.random.key(0))


def student_of(state: State) -> State:
    """Return what computing gradients needs of a state: all but the optimiser's."""
    return state._replace(optimiser=())


def contribution_layout(work: Work) -> Contribution:
    """Return the layout of a contribution."""
    state = abstract_state(work)
    leaves = [tuple(map(leaves_like, jax.tree.leaves(tree))) for tree in (state.params, state.statistics)]
    return Contribution(leaves[0], leaves[1], REAL, Counted.layout())  # type: ignore[arg-type]


def copy_of_counted(counted: Counted) -> Counted:
    """Return what was counted, in arrays of its own."""
    return jax.tree.map(np.array, Counted(*counted))


def fresh_statistics(work: Work) -> Any:
    """Return the compiled function from a batch to what it alone adds to the running statistics."""
    algorithm = work.algorithm
    beginning = jax.jit(algorithm.init)(jax.random.key(0))
    return jax.jit(lambda batch: algorithm.prepare(beginning, batch)[0].statistics)
