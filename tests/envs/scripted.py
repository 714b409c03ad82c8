"""A small Gymnasium environment whose episodes follow a script, and two ways of listing its transitions."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces


class Episode(NamedTuple):
    length: int
    terminated: bool
    truncated: bool


class Scripted(gymnasium.Env):
    """Observes (random number of the episode, episode, step, action taken); nested once more if asked for."""

    def __init__(self, script: tuple[Episode, ...], nested: bool = False) -> None:
        self._script = script
        self._nested = nested
        self._episode = -1
        vector = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space: spaces.Space = spaces.Discrete(5)
        self.observation_space: spaces.Space = vector
        if nested:
            self.action_space = spaces.Dict({"move": spaces.Discrete(5), "idle": spaces.Tuple([spaces.MultiBinary(2)])})
            picture = spaces.Box(0, 255, (2, 3, 1), np.uint8)
            self.observation_space = spaces.Dict(
                {"vector": vector, "more": spaces.Tuple([picture, spaces.Discrete(5)])}
            )

    def _observe(self, action: int) -> Any:
        vector = np.array([self._number, self._episode, self._step, action], np.float32)
        if not self._nested:
            return vector
        return {"vector": vector, "more": (np.full((2, 3, 1), 10 * self._step + action, np.uint8), np.int64(action))}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode += 1
        self._step = 0
        self._number = self.np_random.random()
        return self._observe(0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = int(action["move"] if self._nested else action)
        self._step += 1
        episode = self._script[self._episode % len(self._script)]
        ended = self._step == episode.length
        assert self._step <= episode.length, "stepped after the end of an episode"
        reward = 100.0 * self._episode + self._step + move / 10
        return self._observe(move), reward, ended and episode.terminated, ended and episode.truncated, {}


class Transition(NamedTuple):
    """What learning is made of: the successor is the one before any reset."""

    observation: Any
    action: int
    reward: float
    discount: float
    successor: Any


def vector_of(observation: Any) -> np.ndarray:
    return observation["vector"] if isinstance(observation, dict) else observation


def policy(observation: Any) -> np.ndarray:
    """The action is a function of the newest observation, so that the streams do not depend on fillers."""
    vector = vector_of(observation)[..., -4:]
    return (vector[..., 1] * 2 + vector[..., 2] * 3).astype(np.int64) % 5


def reference(environment: Scripted, seed: int, count: int, stack: int = 1) -> list[Transition]:
    """The first transitions of a single environment, by the plainest loop there is."""
    observation, _ = environment.reset(seed=seed)
    frames = deque([observation] * stack, maxlen=stack)
    transitions = []
    for _ in range(count):
        before = np.concatenate([vector_of(frame) for frame in frames])
        action = int(policy(observation))
        nested = {"move": action, "idle": (np.zeros(2, np.int8),)}
        observation, reward, terminated, truncated, _ = environment.step(nested if environment._nested else action)
        frames.append(observation)
        after = np.concatenate([vector_of(frame) for frame in frames])
        transitions.append(Transition(before, action, reward, 1.0 - terminated, after))
        if terminated or truncated:
            observation, _ = environment.reset()
            frames = deque([observation] * stack, maxlen=stack)
    return transitions


def from_stream(environment: Any, seed: int, count: int, nested: bool = False) -> list[list[Transition]]:
    """The first transitions of each environment of a batch, read off the canonical stream."""
    transitions: list[list[Transition]] = [[] for _ in range(environment.number)]
    now = environment.reset(seed)
    while min(map(len, transitions)) < count:
        before, ended = vector_of(now.observation).copy(), now.last.copy()
        action = policy(now.observation)
        idle = (np.zeros((environment.number, 2), np.int8),)
        now = environment.step({"move": action, "idle": idle} if nested else action)
        assert now.reward.dtype == now.discount.dtype == np.float32
        for row in range(environment.number):
            if ended[row]:
                assert now.first[row] and now.reward[row] == 0 and now.discount[row] == 1
                continue
            at_once = now.first[row]
            successor = vector_of(now.final if at_once else now.observation)[row].copy()
            transitions[row].append(
                Transition(before[row], int(action[row]), float(now.reward[row]), float(now.discount[row]), successor)
            )
    return [row[:count] for row in transitions]


def assert_same(left: list[Transition], right: list[Transition]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for field in range(5):
            np.testing.assert_allclose(one[field], other[field], rtol=1e-6)
