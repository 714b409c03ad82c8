"""The actor's role: act in a batch of environments with a policy it is given, and record what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from time import perf_counter
from typing import Generic, NamedTuple, TypeVar

import jax
import numpy as np

from weft.algorithm import Act, Algorithm, Policy
from weft.envs.base import AsynchronousEnvironment, Environment
from weft.experience.episodes import EpisodeStatistics
from weft.topologies.job import random_key
from weft.trees import to_numpy
from weft.types import EVERY, Array, Ids, Timestep, Tree

KEYS_AT_ONCE = 128
"""Random keys are split off in blocks: one by one, splitting would take longer than the policy itself."""

EnvironmentT = TypeVar("EnvironmentT", bound=Environment | AsynchronousEnvironment)


class Step(NamedTuple):
    """One step of the environments ``ids``, as the actor made it."""

    timestep: Timestep
    raw: Tree
    extras: dict[str, Tree]
    memory: Tree
    following: Timestep
    ids: Ids = EVERY


class BaseActor(Generic[EnvironmentT]):
    """What every actor has: environments, a compiled ``act``, and a random key for each call of it."""

    def __init__(self, algorithm: Algorithm, environment: EnvironmentT, seeds: np.random.SeedSequence) -> None:
        self.environment: EnvironmentT = environment
        self.episodes = EpisodeStatistics(environment.number)
        self.taken = 0
        """Times that the policy has acted."""
        self._seconds = {"environment": 0.0, "policy": 0.0}
        environment_seeds, policy_seeds = seeds.spawn(2)
        self._environment_seed = int(environment_seeds.generate_state(1)[0] >> 1)
        self._key = random_key(policy_seeds)
        self._keys = np.zeros((0, 2), np.uint32)
        self._act = _compiled_act(algorithm)

    def take_seconds(self) -> dict[str, float]:
        """Seconds spent in the environment and in the policy since the last call."""
        seconds, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
        return seconds

    def _next_key(self) -> np.ndarray:
        if self.taken % KEYS_AT_ONCE == 0 or not len(self._keys):
            self._keys = np.asarray(_split(self._key, np.int32(self.taken // KEYS_AT_ONCE)))
        return self._keys[self.taken % KEYS_AT_ONCE]


class Actor(BaseActor[Environment]):
    """Steps environments with ``act``; everything random in it follows from (seeds, steps taken)."""

    def __init__(self, algorithm: Algorithm, environment: Environment, seeds: np.random.SeedSequence) -> None:
        super().__init__(algorithm, environment, seeds)
        self.memory = initial_memory(algorithm, environment.number)
        self._timestep: Timestep | None = None
        self._explore = (0.0, jax.device_put(np.float32(0)))

    @property
    def agent_steps(self) -> int:
        """Steps so far, over all environments."""
        return self.taken * self.environment.number

    @property
    def timestep(self) -> Timestep:
        """What the environments show now; they begin when it is first asked for, later on with other episodes."""
        if self._timestep is None:
            self._timestep = self.environment.reset((self._environment_seed + self.taken) % 2**31)
        return self._timestep

    def steps(self, policy: Policy, explore: float, number: int) -> Iterator[Step]:
        """Take ``number`` steps in every environment with one policy."""
        timestep, level = self.timestep, self._on_device(explore)
        for _ in range(number):
            started = perf_counter()
            act = self._act(policy, timestep.observation, self.memory, timestep.first, self._next_key(), level)
            action = to_numpy(act.action)
            acted = perf_counter()
            following = self.environment.step(action)
            self._seconds["policy"] += acted - started
            self._seconds["environment"] += perf_counter() - acted
            memory, self.memory, self._timestep = self.memory, act.memory, following
            self.taken += 1
            self.episodes.record(timestep, following)
            yield Step(timestep, to_numpy(act.raw), to_numpy(act.extras), memory, following)
            timestep = following

    def _on_device(self, explore: float) -> Array:
        """Return ``explore`` as an array; it seldom changes, and is then not brought there again."""
        if explore != self._explore[0]:
            self._explore = (explore, jax.device_put(np.float32(explore)))
        return self._explore[1]

    def save(self) -> dict[str, Tree]:
        """Return the parts ``actor`` and ``environment`` of a checkpoint."""
        actor = {
            "taken": self.taken,
            "memory": jax.device_get(self.memory),
            "episodes": self.episodes.save(),
        }
        return {"actor": actor, "environment": self.environment.save()}

    def restore(self, saved: dict[str, Tree]) -> bool:
        """Continue from what ``save`` returned; returns False where the episodes had to begin anew."""
        actor, environment = saved["actor"], saved["environment"]
        continued = environment is not None
        self.taken = int(actor["taken"])
        self.episodes.restore(actor["episodes"], episodes_restarted=not continued)
        self._keys = self._keys[:0]
        if continued:
            self.memory = jax.tree.map(jax.numpy.asarray, actor["memory"])
            self._timestep = self.environment.restore(environment)
        return continued


def initial_memory(algorithm: Algorithm, number: int) -> Tree:
    """Return the memory that the episodes of ``number`` environments begin with."""
    return jax.jit(algorithm.memory, static_argnums=0)(number)


@jax.jit
def _split(key: jax.Array, block: Array) -> jax.Array:
    block_key = jax.random.fold_in(jax.random.wrap_key_data(key), block)
    return jax.random.key_data(jax.random.split(block_key, KEYS_AT_ONCE))


@lru_cache(maxsize=8)
def _compiled_act(algorithm: Algorithm) -> Callable[..., Act]:
    """Return ``act`` with raw keys, compiled once for all actors of a process."""

    def act(policy: Policy, observation: Tree, memory: Tree, first: Array, key: jax.Array, explore: Array) -> Act:
        return algorithm.act(policy, observation, memory, first, jax.random.wrap_key_data(key), explore)

    return jax.jit(act)
