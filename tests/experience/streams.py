"""Scripted episodes, as a canonical stream in both forms, and what plain Python derives from the raw episodes.

Every observation is unlike any other: it begins with (environment, episode, step), so that whatever a buffer serves can
be traced back to where it came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from hypothesis import strategies as st

from weft.types import Timestep, Tree

NUMBER = 2


class Episode(NamedTuple):
    length: int
    terminated: bool


class Place(NamedTuple):
    """The observation after ``step`` actions of an episode."""

    environment: int
    episode: int
    step: int


EPISODES = st.lists(st.builds(Episode, st.integers(1, 4), st.booleans()), min_size=1, max_size=4)
SCRIPTS = st.lists(EPISODES, min_size=NUMBER, max_size=NUMBER)
SEEDS = st.integers(0, 2**16)


def observe(place: Place, nested: bool) -> Tree:
    vector = np.array(place, np.float32)
    if not nested:
        return vector
    return {
        "vector": vector,
        "more": (np.full((2, 2, 1), (10 * place.episode + place.step) % 256, np.uint8), np.int32(place.step)),
    }


def place_of(observation: Tree) -> Place:
    """Which observation this is; every leaf of it has to agree."""
    nested = isinstance(observation, dict)
    vector = observation["vector"] if nested else observation
    place = Place(*(int(number) for number in vector))
    if nested:
        expected = observe(place, nested)
        assert (observation["more"][0] == expected["more"][0]).all()
        assert observation["more"][1] == place.step
    return place


def reward_of(place: Place) -> float:
    """Earned by the action that led to ``place``."""
    return float(100 * place.environment + 10 * place.episode + place.step)


def action_at(place: Place) -> int:
    return (3 * place.environment + 5 * place.episode + 7 * place.step) % 11


class Stream:
    """``NUMBER`` environments whose episodes repeat a script, stepped from outside."""

    def __init__(self, scripts: list[list[Episode]], same_step: bool, nested: bool = False) -> None:
        self.scripts = scripts
        self.same_step = same_step
        self.nested = nested
        self.places = [Place(environment, 0, 0) for environment in range(len(scripts))]
        self._ended = [False] * len(scripts)

    def episode(self, place: Place) -> Episode:
        script = self.scripts[place.environment]
        return script[place.episode % len(script)]

    def ends(self, place: Place) -> bool:
        return place.step == self.episode(place).length

    def begin(self) -> Timestep:
        count = len(self.scripts)
        return self._timestep(np.zeros(count), np.ones(count), np.ones(count, bool), self.places)

    def step(self) -> Timestep:
        rewards, discounts, firsts, finals = [], [], [], []
        for index, place in enumerate(self.places):
            if self._ended[index]:
                self.places[index], reached = Place(index, place.episode + 1, 0), None
            else:
                reached = self.places[index] = place._replace(step=place.step + 1)
            ended = reached is not None and self.ends(reached)
            rewards.append(0.0 if reached is None else reward_of(reached))
            discounts.append(float(not (ended and self.episode(place).terminated)))
            finals.append(self.places[index])
            if ended and self.same_step:
                self.places[index] = Place(index, place.episode + 1, 0)
            self._ended[index] = ended and not self.same_step
            firsts.append(reached is None or (ended and self.same_step))
        return self._timestep(rewards, discounts, firsts, finals)

    def actions(self) -> np.ndarray:
        """What is done now; a filler's action is unlike any other."""
        pairs = zip(self.places, self._ended, strict=True)
        return np.array([-1 if ended else action_at(place) for place, ended in pairs], np.int32)

    def _timestep(self, rewards, discounts, firsts, finals: list[Place]) -> Timestep:
        return Timestep(
            observation=self._observations(self.places),
            reward=np.array(rewards, np.float32),
            discount=np.array(discounts, np.float32),
            first=np.array(firsts, bool),
            last=np.array(self._ended, bool),
            final=self._observations(finals) if self.same_step else None,
        )

    def _observations(self, places: list[Place]) -> Tree:
        observations = [observe(place, self.nested) for place in places]
        if not self.nested:
            return np.stack(observations)
        return {
            "vector": np.stack([item["vector"] for item in observations]),
            "more": tuple(np.stack([item["more"][index] for item in observations]) for index in range(2)),
        }


class Row(NamedTuple):
    """One step of every environment, as recorders take it."""

    timestep: Timestep
    action: np.ndarray
    extras: dict[str, np.ndarray]
    memory: np.ndarray
    following: Timestep


def rows(stream: Stream, count: int) -> Iterator[Row]:
    """The first steps of a stream; the memory before each step is its number."""
    now = stream.begin()
    for index in range(count):
        action = stream.actions()
        following = stream.step()
        memory = np.full((len(stream.scripts), 1), index, np.float32)
        yield Row(now, action, {"log_prob": action / np.float32(8)}, memory, following)
        now = following


class Reference(NamedTuple):
    """What an n-step transition from a place has to be."""

    reward: float
    discount: float
    successor: Place


def n_step(stream: Stream, place: Place, n: int, discount: float) -> Reference:
    """Up to n rewards within the episode, by the plainest loop."""
    episode, total, weight = stream.episode(place), 0.0, 1.0
    for _ in range(n):
        place = place._replace(step=place.step + 1)
        total += weight * reward_of(place)
        weight *= discount
        if place.step == episode.length:
            weight *= not episode.terminated
            break
    return Reference(total, weight, place)


def unbatch(tree: Tree, index: int) -> Tree:
    """The element ``index`` of every leaf."""
    if isinstance(tree, dict):
        return {name: unbatch(part, index) for name, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(unbatch(part, index) for part in tree)
    return tree[index]


def assert_equal(left: Tree, right: Tree) -> None:
    """Same structure, same bits."""
    jax.tree.map(np.testing.assert_array_equal, left, right)
