"""What a topology is given to build a program from, and what it tells the run."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.algorithm import Algorithm
from weft.envs.base import AsynchronousEnvironment, Environment
from weft.types import Tree


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

    def save(self) -> dict[str, Tree]:
        """Return the named parts of a checkpoint."""


class Monitor(Protocol):
    """The run, as seen by a program: it decides when to report, to save and to stop."""

    def tick(self, reporter: Reporter) -> bool:
        """Call often; returns False once the program shall come to an end."""

    def finish(self, reporter: Reporter) -> None:
        """Call once, when the program has come to its end."""

    def note(self, text: str) -> None:
        """Tell the user something they should know."""


Restore = Callable[[dict[str, Tree | None]], dict[str, Tree]]
"""Named parts of a checkpoint with their templates (None: as stored) -> the parts."""


@dataclass(frozen=True)
class Job:
    """Everything a topology needs to know; it knows no particular algorithm, environment or runtime."""

    algorithm: Algorithm
    make_environment: Callable[[int], Environment | AsynchronousEnvironment]
    """actor index -> its batch of environments"""
    actors: int
    steps: int
    seed: int
    monitor: Monitor
    restore: Restore | None = None
    """Reads what ``Reporter.save`` returned, to continue from there; None for a new run."""

    def seeds(self, role: str, index: int = 0) -> np.random.SeedSequence:
        """The source of everything random in one node: it depends on (seed, role, index) alone."""
        return np.random.SeedSequence([self.seed, zlib.crc32(role.encode()), index])


def random_key(seeds: np.random.SeedSequence) -> np.ndarray:
    """Raw data of a JAX key, uint32 [2]."""
    return seeds.generate_state(2, np.uint32)
