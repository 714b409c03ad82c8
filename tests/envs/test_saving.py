"""Save, continue, restore, continue: the streams are the same bit for bit."""

from __future__ import annotations

import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import EzPickle
from scripted import Episode, Scripted

from weft.envs import EnvironmentSettings, make
from weft.envs.trees import map_tree


class Holds(Scripted):
    """Holds something that pickles without its state, or not at all."""

    def __init__(self, held):
        super().__init__((Episode(3, True, False),))
        self.held = held


class Simulator(EzPickle):
    def __init__(self) -> None:
        super().__init__()
        self.time = 7


SETTINGS = [
    ("CartPole-v1", EnvironmentSettings()),
    ("CartPole-v1", EnvironmentSettings("sync", frame_stack=3, clip_reward=0.5)),
    ("Pendulum-v1", EnvironmentSettings(time_limit=15)),
    ("Taxi-v4", EnvironmentSettings(time_limit=15)),
    ("ALE/Pong-v5", EnvironmentSettings("sync", time_limit=20, frame_stack=2)),
    ("Catch", EnvironmentSettings(frame_stack=2)),
]


def play(environment, actions):
    return [map_tree(np.copy, tuple(environment.step(action))) for action in actions]


def assert_equal(left, right):
    for one, other in zip(left, right, strict=True):
        map_tree(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_restored_environments_continue_bit_for_bit(name, settings):
    environment = make(name, 2, settings=settings)
    environment.spaces.action.seed(0)
    actions = [np.stack([environment.spaces.action.sample() for _ in range(2)]) for _ in range(60)]
    environment.reset(1)
    now = play(environment, actions[:25])[-1]
    saved = pickle.dumps(environment.save())
    expected = play(environment, actions[25:])
    assert any(timestep[3].any() for timestep in expected), "the stream should cross an episode's end"

    other = make(name, 2, settings=settings)
    for restored in (environment, other):
        assert_equal([tuple(restored.restore(pickle.loads(saved)))], [now])
        assert_equal(play(restored, actions[25:]), expected)


def test_wrappers_of_the_user_are_saved_too():
    def wrapped():
        environment = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("Pendulum-v1", max_episode_steps=4))
        return gymnasium.wrappers.NormalizeObservation(
            gymnasium.wrappers.TransformReward(environment, lambda reward: reward / 10)
        )

    environment, other = make(wrapped, 2), make(wrapped, 2)
    actions = [np.full((2, 1), step % 3 - 1, np.float32) for step in range(20)]
    environment.reset(0)
    play(environment, actions)
    saved = environment.save()
    expected = play(environment, actions)
    other.restore(saved)
    assert_equal(play(other, actions), expected)


def test_what_an_environment_came_to_hold_later_is_forgotten():
    class Remembers(Scripted):
        def reset(self, *, seed=None, options=None):
            if self._episode >= 0:
                self.second_episode = True
            return super().reset(seed=seed, options=options)

        def step(self, action):
            observation, _, *ends = super().step(action)
            return observation, float(hasattr(self, "second_episode")), *ends

    environment = make(partial(Remembers, (Episode(1, True, False),)), 1)
    environment.reset(0)
    saved = environment.save()
    actions = [np.zeros(1, int)] * 4
    expected = play(environment, actions)
    assert expected[2][1] == 1
    environment.restore(saved)
    assert_equal(play(environment, actions), expected)


@pytest.mark.parametrize("held", [Simulator(), open, (item for item in "generator"), gymnasium.make("CartPole-v1")])
def test_what_cannot_be_saved_exactly_is_not_saved(held):
    savable = held is open or isinstance(held, gymnasium.Env)
    environment = make(partial(Holds, held), 1)
    environment.reset(0)
    assert (environment.save() is not None) == savable


@pytest.mark.parametrize("name", ["ALE/Pong-v5", "envpool:CartPole-v1"])
def test_simulators_in_other_languages_are_not_saved(name):
    environment = make(name, 1)
    environment.reset(0)
    assert environment.save() is None
    environment.close()


def test_mujoco_continues_bit_for_bit():
    pytest.importorskip("mujoco")
    test_restored_environments_continue_bit_for_bit("Hopper-v5", EnvironmentSettings(time_limit=10))
