"""A batch of small environments in which everything depends on the actions, and a run that watches a program."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from weft.algorithm import Algorithm
from weft.program import Program
from weft.runtime.inline import Inline
from weft.topologies.job import Job, Reporter, Restore, Work
from weft.topologies.local import local
from weft.types import Spaces, Timestep, Tree

LIMIT = 7
SPACES = Spaces(spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(3))


class Walk:
    """Stay near 0: an episode terminates beyond 2 and is truncated after ``LIMIT`` steps; next-step resets."""

    name = "Walk"
    spaces = SPACES
    delivers_final = False

    def __init__(self, number: int, savable: bool = True) -> None:
        self.number = number
        self.closed = False
        self.resets = 0
        self._savable = savable
        self._timestep: Timestep | None = None

    def reset(self, seed: int) -> Timestep:
        self.resets += 1
        self._random = np.random.default_rng(seed)
        self._position = self._random.normal(size=self.number).astype(np.float32)
        self._clock = np.zeros(self.number, np.int64)
        self._last = np.zeros(self.number, bool)
        zeros = np.zeros(self.number, np.float32)
        return self._show(zeros, zeros + 1, np.ones(self.number, bool))

    def step(self, action: np.ndarray) -> Timestep:
        first, noise = self._last, self._random.normal(0, 0.3, size=self.number)
        moved = np.where(first, noise, self._position + 0.5 * (action - 1) + noise)
        self._position = moved.astype(np.float32)
        self._clock = np.where(first, 0, self._clock + 1)
        terminated = ~first & (np.abs(self._position) > 2)
        self._last = terminated | (self._clock == LIMIT)
        reward = np.where(first, 0, 1 - np.abs(self._position)).astype(np.float32)
        return self._show(reward, (~terminated).astype(np.float32), first)

    def _show(self, reward: np.ndarray, discount: np.ndarray, first: np.ndarray) -> Timestep:
        observation = np.stack([self._position, self._clock.astype(np.float32)], axis=1)
        self._timestep = Timestep(observation, reward, discount, first, self._last)
        return self._timestep

    def render(self) -> None:
        return None

    def save(self) -> dict[str, Any] | None:
        if not self._savable or self._timestep is None:
            return None
        arrays = {"position": self._position, "clock": self._clock, "last": self._last}
        return {**arrays, "random": self._random.bit_generator.state, "timestep": self._timestep}

    def restore(self, saved: dict[str, Any]) -> Timestep:
        self._random = np.random.default_rng()
        self._random.bit_generator.state = saved["random"]
        self._position, self._clock, self._last = saved["position"], saved["clock"], saved["last"]
        self._timestep = Timestep(*saved["timestep"])
        return self._timestep

    def close(self) -> None:
        self.closed = True


class Watcher:
    """A run that calls ``at`` with the reporter before every cycle and keeps what it was told."""

    def __init__(self, at: Callable[[Reporter], bool | None] = lambda reporter: None) -> None:
        self.at = at
        self.ticks: list[int] = []
        self.notes: list[str] = []
        self.reporter: Reporter | None = None

    async def tick(self, reporter: Reporter) -> bool:
        self.ticks.append(reporter.steps)
        answer = self.at(reporter)
        return (await answer if inspect.isawaitable(answer) else answer) is not False

    async def finish(self, reporter: Reporter) -> None:
        assert self.reporter is None
        self.reporter = reporter

    def note(self, text: str) -> None:
        self.notes.append(text)


def program_of(
    algorithm: Algorithm, watcher: Watcher, walk: Walk, steps: int, seed: int = 0, restore: Restore | None = None
) -> Program:
    work = Work(lambda: algorithm, lambda index: walk, walk.spaces, False, 1, walk.number, steps, seed)
    return local(Job(work, watcher, restore=restore))


def run(algorithm: Algorithm, watcher: Watcher, walk: Walk, steps: int, **options: Any) -> Reporter:
    """Train to the end; returns the agent as it is then."""
    Inline(program_of(algorithm, watcher, walk, steps, **options)).run()
    assert watcher.reporter is not None
    return watcher.reporter


def saved(reporter: Reporter) -> dict[str, Tree]:
    """The parts of a checkpoint, of a reporter that need not wait for them."""
    try:
        reporter.save().send(None)  # type: ignore[attr-defined]
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")
