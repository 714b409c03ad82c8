"""The actor of environments that come back one batch at a time, in the order in which they are ready."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from weft.algorithm import Algorithm, Policy
from weft.envs.base import AsynchronousEnvironment
from weft.topologies.actor import BaseActor, Step, initial_memory
from weft.trees import allocate, map_tree, take, to_numpy, write
from weft.types import Timestep, Tree


class AsynchronousActor(BaseActor[AsynchronousEnvironment]):
    """Acts wherever an environment is ready while the others are still at work.

    Random keys follow from (seeds, times acted), but which environments a key serves depends on the order in which
    they come back: a run cannot be repeated bit for bit.
    """

    def __init__(
        self, algorithm: Algorithm, environment: AsynchronousEnvironment, seeds: np.random.SeedSequence
    ) -> None:
        super().__init__(algorithm, environment, seeds)
        number = environment.number
        self.agent_steps = 0
        """Steps so far, over all environments."""
        self._memory = map_tree(np.array, initial_memory(algorithm, number))
        """[number, ...] before the observation that each environment showed last."""
        self._shown: Tree = None
        """The ``Timestep`` [number] of what each environment showed last, as a tuple without ``final``."""
        self._acted: Tree = None
        """(raw, extras, memory after it) [number, ...] of the action that was taken there."""
        self._begun = np.zeros(number, bool)
        """[number] whether there is such an action: only what an environment begins with is no step."""
        self._ready: tuple[np.ndarray, Timestep] | None = None
        """What came back last and was not acted upon."""

    @property
    def timestep(self) -> Timestep:
        """What each environment showed last; known once there was a step."""
        return Timestep(*self._shown)

    @property
    def memory(self) -> Tree:
        """Memory [number, ...] before that observation."""
        return map_tree(np.copy, self._memory)

    def steps(self, policy: Policy, explore: float, number: int) -> Iterator[Step]:
        """Take steps with one policy until the first environment has taken ``number``.

        Actions that are on their way then become steps of the next call, by the policy that chose them.
        """
        if self._shown is None:
            self.environment.reset((self._environment_seed + self.taken) % 2**31)
        level, taken = np.float32(explore), np.zeros(self.environment.number, np.int64)
        while taken.max() < number:
            if self._ready is not None:
                self._act_in(*self._ready, policy, level)
            step = self._receive()
            if step is not None:
                taken[step.ids] += 1
                yield step

    def save(self) -> dict[str, Tree]:
        """Return the parts ``actor`` and ``environment`` of a checkpoint; the latter cannot be had."""
        actor = {"taken": self.taken, "agent_steps": self.agent_steps, "episodes": self.episodes.save()}
        return {"actor": actor, "environment": None}

    def restore(self, saved: dict[str, Tree]) -> bool:
        """Continue from what ``save`` returned; returns False, as the episodes begin anew."""
        actor = saved["actor"]
        self.taken, self.agent_steps = int(actor["taken"]), int(actor["agent_steps"])
        self.episodes.restore(actor["episodes"], episodes_restarted=True)
        return False

    def _act_in(self, ids: np.ndarray, timestep: Timestep, policy: Policy, level: np.float32) -> None:
        started = perf_counter()
        memory = take(self._memory, ids)
        act = self._act(policy, timestep.observation, memory, timestep.first, self._next_key(), level)
        self.environment.send(ids, to_numpy(act.action))
        acted = to_numpy((act.raw, act.extras, act.memory))
        if self._acted is None:
            self._acted = allocate(acted, self.environment.number)
        write(self._acted, ids, acted)
        self._ready = None
        self.taken += 1
        self._seconds["policy"] += perf_counter() - started

    def _receive(self) -> Step | None:
        """Wait for the next environments; returns the step that they have completed, unless all of them just began."""
        started = perf_counter()
        ids, timestep = self.environment.receive()
        self._seconds["environment"] += perf_counter() - started
        if self._shown is None:
            self._shown = allocate(timestep[:5], self.environment.number)
        step = self._completed(ids, timestep)
        write(self._shown, ids, timestep[:5])
        self._ready = ids, timestep
        return step

    def _completed(self, ids: np.ndarray, following: Timestep) -> Step | None:
        begun = self._begun[ids]
        if not begun.all():
            self._begun[ids] = True
            ids = ids[begun]
            final = None if following.final is None else take(following.final, begun)
            following = Timestep(*take(following[:5], begun))._replace(final=final)
        if not len(ids):
            return None
        timestep, memory = Timestep(*take(self._shown, ids)), take(self._memory, ids)
        raw, extras, memory_after = take(self._acted, ids)
        write(self._memory, ids, memory_after)
        self.agent_steps += len(ids)
        self.episodes.record(timestep, following, ids)
        return Step(timestep, raw, extras, memory, following, ids)
