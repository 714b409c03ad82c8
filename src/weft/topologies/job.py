"""What a topology is given to build a program from, and what the program tells the run."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from weft.algorithm import Algorithm
from weft.compilation import prepare_jax
from weft.envs.base import AsynchronousEnvironment, Environment
from weft.types import Spaces, Tree


class Reporter(Protocol):
    """The part of a program that knows how far the run is and holds what is worth keeping (usually the learner)."""

    @property
    def steps(self) -> int:
        """Agent steps so far, over all environments."""

    @property
    def learning(self) -> bool:
        """Whether the first update is done."""

    def report(self) -> dict[str, float]:
        """One row of metrics about the time since the last report. Raises ``TrainingDiverged`` on NaN."""

    async def save(self) -> dict[str, Tree]:
        """Return the named parts of a checkpoint, asking other nodes for what they hold."""


class Monitor(Protocol):
    """The run, as seen by a program: it decides when to report, to save and to stop."""

    async def tick(self, reporter: Reporter) -> bool:
        """Call often; returns False once the program shall come to an end."""

    async def finish(self, reporter: Reporter) -> None:
        """Call once, when the program has come to its end."""

    def note(self, text: str) -> None:
        """Tell the user something they should know."""


Restore = Callable[[dict[str, Tree | None]], dict[str, Tree]]
"""Named parts of a checkpoint with their templates (None: as stored) -> the parts."""

AnyEnvironment = Environment | AsynchronousEnvironment


@dataclass(frozen=True)
class Work:
    """What every node may know of a run; it pickles. It names no particular algorithm, environment or runtime."""

    build: Callable[[], Algorithm]
    make_environment: Callable[[int], AnyEnvironment]
    """actor index -> its batch of environments"""
    spaces: Spaces
    delivers_final: bool
    """Whether the environments reset within the step, and deliver the last observation of an episode beside it."""
    actors: int
    envs: int
    """Environments of each actor."""
    steps: int
    seed: int

    @cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm, built once in each process."""
        prepare_jax()
        return self.build()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "algorithm"}

    def seeds(self, role: str, index: int = 0, life: int = 0) -> np.random.SeedSequence:
        """The source of everything random in one node: it depends on (seed, role, index, life) alone."""
        lives = [life] if life else []
        return np.random.SeedSequence([self.seed, zlib.crc32(role.encode()), index, *lives])

    def progress(self, steps: int) -> float:
        """Return the share of the run's steps that is done."""
        return min(steps / self.steps, 1.0)


@dataclass(frozen=True)
class NoSettings:
    """Of a topology in which there is nothing to choose."""


@dataclass(frozen=True)
class Job:
    """Everything that a topology needs to know; its monitor is for the main node alone."""

    work: Work
    monitor: Monitor
    settings: Any = NoSettings()
    """The topology's own settings, of the class that it declares."""
    restore: Restore | None = None
    """Reads what ``Reporter.save`` returned, to continue from there; None for a new run."""


def random_key(seeds: np.random.SeedSequence) -> np.ndarray:
    """Raw data of a JAX key, uint32 [2]."""
    return seeds.generate_state(2, np.uint32)
