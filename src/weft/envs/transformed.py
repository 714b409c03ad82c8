"""Environments whose stream goes through transforms; what ``weft.envs.make`` returns."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np

from weft.envs.base import AsynchronousEnvironment, Environment
from weft.envs.transforms import Rows, Transform
from weft.envs.trees import map_tree
from weft.types import Timestep, Tree

AnyEnvironment = TypeVar("AnyEnvironment", Environment, AsynchronousEnvironment)


class _Transformed(Generic[AnyEnvironment]):
    """What synchronous and asynchronous environments have in common.

    ``name`` is what makes the same environment again, where that is possible. ``index`` tells the actors of a run
    apart: the same seed gives each of them episodes of its own.
    """

    def __init__(self, environment: AnyEnvironment, transforms: list[Transform], name: str, index: int) -> None:
        self.name = name
        self.number = environment.number
        self.delivers_final = environment.delivers_final
        self.spaces = environment.spaces
        for transform in transforms:
            self.spaces = transform.spaces(self.spaces)
        self._environment: AnyEnvironment = environment
        self._transforms = transforms
        self._index = index

    def _transform(self, timestep: Timestep, rows: Rows) -> Timestep:
        for transform in self._transforms:
            timestep = transform(timestep, rows)
        return timestep

    def render(self) -> np.ndarray | None:
        """Return a picture of the first environment, or None where there is none."""
        return self._environment.render()

    def close(self) -> None:
        """Release windows, processes and files."""
        self._environment.close()


class Transformed(_Transformed[Environment]):
    """An ``Environment`` whose stream goes through transforms, one after the other."""

    def reset(self, seed: int) -> Timestep:
        """Begin new episodes everywhere; the same seed gives the same episodes."""
        return self._show(self._environment.reset(actor_seed(seed, self._index)))

    def step(self, action: Tree) -> Timestep:
        """Act in every environment."""
        return self._show(self._environment.step(action))

    def _show(self, timestep: Timestep) -> Timestep:
        self._timestep = self._transform(timestep, slice(None))
        return self._timestep

    def save(self) -> Tree | None:
        """Return everything needed to continue the episodes bit for bit, or None where it cannot be had."""
        saved = self._environment.save()
        if saved is None:
            return None
        return {
            "environment": saved,
            "transforms": [transform.save() for transform in self._transforms],
            "timestep": map_tree(np.copy, tuple(self._timestep)),
        }

    def restore(self, saved: Tree) -> Timestep:
        """Continue from what ``save`` returned; gives the timestep that was current then."""
        self._environment.restore(saved["environment"])
        for transform, remembered in zip(self._transforms, saved["transforms"], strict=True):
            transform.restore(remembered)
        self._timestep = Timestep(*saved["timestep"])
        return self._timestep


class TransformedAsynchronous(_Transformed[AsynchronousEnvironment]):
    """An ``AsynchronousEnvironment`` whose streams go through transforms, one after the other."""

    def __init__(
        self, environment: AsynchronousEnvironment, transforms: list[Transform], name: str, index: int
    ) -> None:
        super().__init__(environment, transforms, name, index)
        self.batch = environment.batch

    def reset(self, seed: int) -> None:
        """Begin new episodes everywhere."""
        self._environment.reset(actor_seed(seed, self._index))

    def receive(self) -> tuple[np.ndarray, Timestep]:
        """Wait for the next ``batch`` environments that are ready; returns their ids [batch] and timesteps."""
        ids, timestep = self._environment.receive()
        return ids, self._transform(timestep, ids)

    def send(self, ids: np.ndarray, action: Tree) -> None:
        """Act in the environments ``ids``."""
        self._environment.send(ids, action)


def actor_seed(seed: int, index: int) -> int:
    """Return the seed of one actor's environments, of 31 bits because simulators in C++ want that."""
    return int(np.random.SeedSequence(seed, spawn_key=(index,)).generate_state(1)[0] >> 1)
