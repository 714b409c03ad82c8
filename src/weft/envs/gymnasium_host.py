"""Gymnasium's vector environments in weft's canonical form, whichever way they reset themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from weft.envs import layout, saving
from weft.envs.trees import as_dtype, map_tree, require_arrays
from weft.errors import WeftError
from weft.types import Array, Spaces, Timestep, Tree


class GymnasiumHost:
    """A ``gymnasium.vector.VectorEnv`` as an ``Environment``.

    The three autoreset modes (``vector.metadata["autoreset_mode"]``) become the canonical stream as follows:
    next-step ones already are that stream; same-step ones deliver the last observation in ``final``; disabled ones
    are reset here within the step, which makes them the same as same-step ones.
    """

    def __init__(self, vector: VectorEnv, name: str) -> None:
        require_arrays(vector.single_observation_space, "observation", name)
        require_arrays(vector.single_action_space, "action", name)
        observation_space, self._arrange = layout.channels_last(vector.single_observation_space)
        self.name = name
        self.number = vector.num_envs
        self.spaces = Spaces(observation_space, vector.single_action_space)
        self._vector = vector
        self._mode = autoreset_mode(vector, name)
        self.delivers_final = self._mode is not AutoresetMode.NEXT_STEP
        self._as_observation = as_dtype(vector.single_observation_space)
        self._as_action = as_dtype(vector.single_action_space)
        self._timestep: Timestep | None = None

    def reset(self, seed: int) -> Timestep:
        """Begin new episodes everywhere; Gymnasium counts up from the seed for the environments of the batch."""
        observation, _ = self._vector.reset(seed=seed)
        observation = self._observation(observation)
        self._timestep = first_timestep(observation, self.number, observation if self.delivers_final else None)
        return self._timestep

    def step(self, action: Tree) -> Timestep:
        """Act in every environment."""
        assert self._timestep is not None, "reset comes before step"
        observation, reward, terminated, truncated, info = self._vector.step(self._as_action(action))
        timestep = next_timestep(self._observation(observation), reward, terminated, truncated, self._timestep.last)
        self._timestep = self._with_resets(timestep, info) if self.delivers_final else timestep
        return self._timestep

    def _with_resets(self, timestep: Timestep, info: dict[str, Any]) -> Timestep:
        """Return the timestep in which episodes that just ended have begun anew already."""
        done, observation = timestep.last, timestep.observation
        final = observation
        if done.any():
            final = map_tree(np.copy, observation)
            if self._mode is AutoresetMode.DISABLED:
                observation = self._observation(self._vector.reset(options={"reset_mask": done})[0])
            else:
                self._write_final(final, done, info["final_obs"])
        return timestep._replace(observation=observation, first=done, last=np.zeros_like(done), final=final)

    def _write_final(self, final: Tree, done: Array, delivered: Any) -> None:
        """Write the last observations that a same-step reset delivered into the rows of ``final``.

        They come as an object array with an unbatched observation for each environment that is done.
        """
        for row in np.flatnonzero(done):
            unbatched = self._arrange(self._as_observation(delivered[row]))
            map_tree(lambda batch, value, row=row: batch.__setitem__(row, value), final, unbatched)

    def _observation(self, observation: Tree) -> Tree:
        return self._arrange(self._as_observation(observation))

    def render(self) -> np.ndarray | None:
        """Return a picture of the first environment, or None where the environments were not made to be looked at."""
        if self._vector.render_mode != "rgb_array":
            return None
        try:
            if isinstance(self._vector.unwrapped, SyncVectorEnv):
                return np.asarray(self._vector.unwrapped.envs[0].render())
            pictures = self._vector.render()
        except DependencyNotInstalled:
            raise WeftError(f'Pictures of {self.name} need more packages: pip install "weft[video]"') from None
        return None if pictures is None else np.asarray(pictures[0])

    def save(self) -> Tree | None:
        """Return everything needed to continue the episodes bit for bit, or None where it cannot be had."""
        return saving.save(self._vector, self._timestep)

    def restore(self, saved: Tree) -> Timestep:
        """Continue from what ``save`` returned."""
        self._timestep = saving.restore(self._vector, saved)
        return self._timestep

    def close(self) -> None:
        """Release windows, processes and files."""
        self._vector.close()


def first_timestep(observation: Tree, number: int, final: Tree | None = None) -> Timestep:
    """Return the timestep with which ``number`` episodes begin."""
    zeros = np.zeros(number, np.float32)
    return Timestep(observation, zeros, zeros + 1, np.ones(number, bool), np.zeros(number, bool), final)


def next_timestep(observation: Tree, reward: Array, terminated: Array, truncated: Array, first: Array) -> Timestep:
    """Return the timestep of what next-step environments deliver; ``first`` is the ``last`` before it."""
    terminated = np.asarray(terminated)
    discount = (~terminated).astype(np.float32)
    return Timestep(observation, np.asarray(reward, np.float32), discount, first, terminated | np.asarray(truncated))


def autoreset_mode(vector: VectorEnv, name: str) -> AutoresetMode:
    """Return how a vector environment resets itself, which it must say."""
    try:
        return AutoresetMode(vector.metadata["autoreset_mode"])
    except (KeyError, ValueError):
        modes = ", ".join(f"AutoresetMode.{mode.name}" for mode in AutoresetMode)
        raise WeftError(
            f'The vector environment {name} must say in metadata["autoreset_mode"] how it resets: one of {modes}.'
        ) from None
