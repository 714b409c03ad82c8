"""EnvPool's environments, which C++ threads step: all of them together, or whichever are ready."""

from __future__ import annotations

import warnings
from typing import Any

import envpool
import numpy as np

from weft import errors
from weft.envs import layout
from weft.envs.gymnasium_host import first_timestep, next_timestep
from weft.envs.settings import EnvironmentSettings
from weft.envs.trees import as_dtype, map_tree, require_arrays
from weft.errors import WeftError
from weft.types import Spaces, Timestep, Tree


def ids() -> list[str]:
    """Return the ids that EnvPool knows."""
    return envpool.list_all_envs()


def from_id(
    id: str, number: int, settings: EnvironmentSettings, render: bool, asynchronous: bool
) -> tuple[EnvPoolHost | AsynchronousEnvPoolHost, int]:
    """Make ``number`` environments; returns them and how many of their observations to stack."""
    if id not in ids():
        raise errors.unknown("EnvPool environment", id, ids())
    arguments: dict[str, Any] = {"num_envs": number}
    if settings.time_limit is not None:
        arguments["max_episode_steps"] = settings.time_limit
    stack = settings.frame_stack or 1
    try:
        if "noop_max" in envpool.make_spec(id).config._fields:
            arguments.update(_atari(settings))
            stack = settings.frame_stack or 4
        arguments.update(settings.arguments)
        if asynchronous:
            arguments.setdefault("batch_size", max(1, number // 2))
        spec = envpool.make_spec(id, **arguments)
    except (TypeError, AssertionError, ImportError) as error:
        raise WeftError(f"envpool:{id} could not be made: {error}") from error
    if render:
        arguments["render_mode"] = "rgb_array"
    return (AsynchronousEnvPoolHost if asynchronous else EnvPoolHost)(id, arguments, spec), stack


def _spaces(owner: Any, prefix: str = "") -> Spaces:
    """Return the spaces of a pool or of its specification, without the warnings of how EnvPool writes their bounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Spaces(getattr(owner, f"{prefix}observation_space"), getattr(owner, f"{prefix}action_space"))


def _atari(settings: EnvironmentSettings) -> dict[str, Any]:
    atari = settings.atari
    return {
        "stack_num": 1,
        "frame_skip": atari.frame_skip,
        "img_height": atari.size,
        "img_width": atari.size,
        "noop_max": atari.noop_max,
        "episodic_life": atari.life_loss,
        "use_fire_reset": False,
    }


class _Pool:
    """What both ways of using EnvPool share: the pool, made anew by each reset, and the form of its arrays.

    EnvPool takes its seed when it is made. It resets on the step after the last one, as the canonical stream wants
    it. An episode that reaches a terminal state exactly at its time limit counts there as truncated.
    """

    delivers_final = False

    def __init__(self, id: str, arguments: dict[str, Any], spec: Any) -> None:
        observation_space, action_space = _spaces(spec, "gymnasium_")
        self.name = f"envpool:{id}"
        self.number = spec.config.num_envs
        require_arrays(observation_space, "observation", self.name)
        arranged_space, self._arrange = layout.channels_last(observation_space)
        self.spaces = Spaces(arranged_space, action_space)
        self._id = id
        self._arguments = arguments
        self._observation_space = observation_space
        self._as_action = as_dtype(action_space)
        self._pool: Any = None

    def _make(self, seed: int) -> None:
        self.close()
        self._pool = envpool.make_gymnasium(self._id, seed=seed, **self._arguments)
        _spaces(self._pool)

    def _observation(self, observation: Tree) -> Tree:
        return self._arrange(map_tree(_conform, self._observation_space, observation))

    def render(self) -> np.ndarray | None:
        """Return a picture of the first environment, or None where it was not made to be looked at."""
        return None if self._pool is None or self._pool.render_mode is None else self._pool.render()[0]

    def close(self) -> None:
        """End the pool's threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


class EnvPoolHost(_Pool):
    """All environments of a pool, stepped together."""

    def reset(self, seed: int) -> Timestep:
        """Begin new episodes everywhere; the same seed gives the same episodes."""
        self._make(seed)
        observation, _ = self._pool.reset()
        self._timestep = first_timestep(self._observation(observation), self.number)
        return self._timestep

    def step(self, action: Tree) -> Timestep:
        """Act in every environment."""
        observation, reward, terminated, truncated, _ = self._pool.step(self._as_action(action))
        self._timestep = next_timestep(
            self._observation(observation), reward, terminated, truncated, self._timestep.last
        )
        return self._timestep

    def save(self) -> None:
        """Return None: a pool does not show its state."""

    def restore(self, saved: Tree) -> Timestep:
        """Refuse, as nothing was saved."""
        raise NotImplementedError(f"{self.name} cannot be saved")


class AsynchronousEnvPoolHost(_Pool):
    """The environments of a pool, as they become ready."""

    def __init__(self, id: str, arguments: dict[str, Any], spec: Any) -> None:
        super().__init__(id, arguments, spec)
        self.batch = spec.config.batch_size
        self._begins = np.ones(self.number, bool)

    def reset(self, seed: int) -> None:
        """Begin new episodes everywhere."""
        self._make(seed)
        self._begins[:] = True
        self._pool.async_reset()

    def receive(self) -> tuple[np.ndarray, Timestep]:
        """Wait for the next ``batch`` environments that are ready; returns their ids [batch] and timesteps."""
        observation, reward, terminated, truncated, info = self._pool.recv()
        ids = info["env_id"]
        timestep = next_timestep(self._observation(observation), reward, terminated, truncated, self._begins[ids])
        self._begins[ids] = timestep.last
        return ids, timestep

    def send(self, ids: np.ndarray, action: Tree) -> None:
        """Act in the environments ``ids``."""
        self._pool.send(self._as_action(action), ids)


def _conform(leaf: Any, array: np.ndarray) -> np.ndarray:
    """Return the batch with the shape and type that the space says; EnvPool keeps an axis of 1 for some scalars."""
    return np.asarray(array, leaf.dtype).reshape(len(array), *leaf.shape)
