"""A trained policy, ready to act: what ``run.policy`` is."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np

from weft.algorithm import Algorithm
from weft.algorithm import Policy as Parameters
from weft.trees import map_tree, to_numpy
from weft.types import Array, Spaces, Timestep, Tree


class Policy:
    """Acts in one environment or a batch of them, and keeps the recurrent memory of each."""

    def __init__(self, algorithm: Algorithm, parameters: Parameters, spaces: Spaces, seed: int = 0) -> None:
        self.spaces = spaces
        self.parameters = parameters
        self._algorithm = algorithm
        self._key = jax.random.key(seed)
        self._memory: Tree = None
        self._first = np.ones(0, bool)
        self._act = jax.jit(self._acted)
        self._value = jax.jit(algorithm.value)

    def act(self, observation: Tree, deterministic: bool = True, first: Array | None = None) -> Tree:
        """Return the action for one observation, or for a batch of them [B, ...].

        Memory follows the calls: it begins anew after ``reset``, when the number of environments changes, and in
        those environments [B] where ``first`` says that an episode begins.
        """
        batch, single = self._batched(observation)
        number = len(jax.tree.leaves(batch)[0])
        self._begin(number, first)
        act, self._key = self._act(
            self.parameters, batch, self._memory, self._first, self._key, np.float32(not deterministic)
        )
        self._memory, self._first = act.memory, np.zeros(number, bool)
        action = to_numpy(act.action)
        return map_tree(lambda leaf: leaf[0], action) if single else action

    def follow(self, timestep: Timestep) -> Tree:
        """Return the deterministic actions at a timestep of a batch of environments."""
        return self.act(timestep.observation, first=timestep.first)

    def value(self, observation: Tree) -> np.ndarray | float:
        """Return the estimated value of one observation, or of a batch of them [B], with the memory as it is."""
        batch, single = self._batched(observation)
        number = len(jax.tree.leaves(batch)[0])
        memory, first = self._memory, self._first
        if len(first) != number:
            memory, first = self._algorithm.memory(number), np.ones(number, bool)
        value = np.asarray(self._value(self.parameters, batch, memory, first))
        return float(value[0]) if single else value

    def reset(self) -> None:
        """Forget: the next observations begin new episodes."""
        self._first = np.ones(0, bool)

    def _begin(self, number: int, first: Array | None) -> None:
        if len(self._first) != number:
            self._memory, self._first = self._algorithm.memory(number), np.ones(number, bool)
        if first is not None:
            self._first = self._first | np.broadcast_to(np.asarray(first, bool), (number,))

    def _acted(
        self, parameters: Parameters, observation: Tree, memory: Tree, first: Array, key: jax.Array, explore: Array
    ) -> tuple[Any, jax.Array]:
        key, act_key = jax.random.split(key)
        return self._algorithm.act(parameters, observation, memory, first, act_key, explore), key

    def _batched(self, observation: Tree) -> tuple[Tree, bool]:
        """Return the observation as a batch, and whether it was a single one."""
        arrays = _arrays(self.spaces.observation, observation)
        dimensions, single = _leaf_dimensions(self.spaces.observation, arrays)
        return (map_tree(lambda part: part[None], arrays) if dimensions == single else arrays), dimensions == single


def _arrays(space: gymnasium.Space, observation: Tree) -> Tree:
    """Nest like the space, with numpy arrays for leaves."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: _arrays(part, observation[name]) for name, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(_arrays(part, item) for part, item in zip(space.spaces, observation, strict=True))
    return np.asarray(observation, space.dtype)


def _leaf_dimensions(space: gymnasium.Space, arrays: Tree) -> tuple[int, int]:
    """Return how many dimensions the first leaf has, and how many that of a single observation has."""
    if isinstance(space, gymnasium.spaces.Dict):
        name, part = next(iter(space.spaces.items()))
        return _leaf_dimensions(part, arrays[name])
    if isinstance(space, gymnasium.spaces.Tuple):
        return _leaf_dimensions(space.spaces[0], arrays[0])
    return arrays.ndim, len(space.shape or ())
