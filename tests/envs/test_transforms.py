"""Frame stacking, reward clipping, the check for finite numbers, and the layout of images."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from scripted import Episode, Scripted

from weft.envs import EnvironmentSettings, make
from weft.envs.layout import channels_last
from weft.envs.transforms import CheckFinite, ClipReward, FrameStack
from weft.errors import TrainingDiverged, WeftError
from weft.types import Spaces, Timestep


def timestep(observation, first, reward=0.0, final=None):
    number = len(first)
    return Timestep(
        observation,
        np.full(number, reward, np.float32),
        np.ones(number, np.float32),
        np.array(first),
        np.zeros(number, bool),
        final,
    )


@pytest.mark.parametrize(("shape", "stacked"), [((3,), (6,)), ((4, 5), (4, 5, 2)), ((4, 5, 3), (4, 5, 6)), ((), (2,))])
def test_frames_are_stacked_on_the_last_axis(shape, stacked):
    space = spaces.Box(-9, 9, shape, np.float32)
    stack = FrameStack(space, 2, 2, "it")
    assert stack.spaces(Spaces(space, space)).observation == spaces.Box(-9, 9, stacked, np.float32)
    full = partial(np.full, (2, *shape), dtype=np.float32)
    halves = partial(np.split, indices_or_sections=2, axis=-1)
    old, new = halves(stack(timestep(full(1.0), [True, True]), slice(None)).observation)
    assert (old == 1).all() and (new == 1).all()
    stacked_observation = stack(timestep(full(2.0), [False, True]), slice(None)).observation
    assert stacked_observation.shape == (2, *stacked)
    old, new = halves(stacked_observation)
    assert (old[0] == 1).all() and (old[1] == 2).all() and (new == 2).all()


def test_final_continues_the_frames_of_its_own_episode():
    stack = FrameStack(spaces.Box(0, 9, (1,), np.float32), 1, 3, "it")
    for number, first in ((1, True), (2, False), (3, False)):
        stack(timestep(np.array([[number]], np.float32), [first]), slice(None))
    ended = stack(timestep(np.array([[7.0]]), [True], final=np.array([[4.0]])), slice(None))
    np.testing.assert_array_equal(ended.final, [[2, 3, 4]])
    np.testing.assert_array_equal(ended.observation, [[7, 7, 7]])


def test_frames_are_kept_for_each_id():
    stack = FrameStack(spaces.Box(0, 99, (1,), np.float32), 3, 2, "it")
    for ids, first in (([2, 0], True), ([1], True), ([0, 1], False), ([2], False), ([1, 2], False)):
        numbers = np.array(ids)
        shown = stack(timestep(numbers[:, None] + (0 if first else 10), [first] * len(ids)), numbers).observation
    np.testing.assert_array_equal(shown, [[11, 11], [12, 12]])


def test_frames_of_what_is_not_a_box_are_refused():
    single = partial(Scripted, (Episode(2, True, False),), nested=True)
    with pytest.raises(WeftError, match=r"more\.1 is not a Box"):
        make(single, settings=EnvironmentSettings(frame_stack=2))


def test_rewards_are_clipped_unless_evaluated():
    settings = EnvironmentSettings(clip_reward=0.25)
    assert ClipReward(0.25)(timestep(np.zeros((1, 1)), [True], -3), slice(None)).reward == np.float32(-0.25)
    for chosen, reward in ((settings, 0.25), (settings.evaluation(), 1.0)):
        environment = make("CartPole-v1", 2, settings=chosen)
        environment.reset(0)
        assert (environment.step(np.zeros(2, int)).reward == np.float32(reward)).all()


class Breaks(gymnasium.Env):
    observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(2)})
    action_space = spaces.Discrete(2)

    def __init__(self, at: int, observation: float = 0.0, reward: float = 0.0) -> None:
        self._at, self._observation, self._reward = at, observation, reward

    def reset(self, *, seed=None, options=None):
        self._step = 0
        return {"a": np.zeros(2, np.float32), "b": 0}, {}

    def step(self, action):
        self._step += 1
        now = self._step == self._at
        leaf = np.array([0, self._observation if now else 0], np.float32)
        return {"a": leaf, "b": 0}, self._reward if now else 0.0, False, False, {}


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"observation": np.nan}, r"observation 'a' of environment 1 of SyncVectorEnv is not finite after 3 steps"),
        ({"observation": -np.inf}, r"observation 'a' of environment 1"),
        ({"reward": np.inf}, r"reward of environment 1 of SyncVectorEnv is not finite after 3 steps"),
    ],
)
def test_what_is_not_finite_stops_training_and_is_named(broken, says):
    environment = make(SyncVectorEnv([partial(Breaks, 0), partial(Breaks, 3, **broken)]))
    environment.reset(0)
    for _ in range(2):
        environment.step(np.zeros(2, int))
    with pytest.raises(TrainingDiverged, match=says):
        environment.step(np.zeros(2, int))


def test_huge_but_finite_numbers_pass():
    check = CheckFinite("it")
    huge = timestep(np.full((1, 3), 3e38, np.float32), [True])
    assert check(huge, slice(None)) is huge


def test_asynchronous_checks_name_the_id():
    broken = timestep(np.array([[0.0], [np.nan]], np.float32), [True, True])
    with pytest.raises(TrainingDiverged, match="environment 7 of it"):
        CheckFinite("it")(broken, np.array([4, 7]))


@pytest.mark.parametrize("shape", [(3, 8, 9), (2, 3, 8, 9)])
def test_channels_come_last(shape):
    pixel = spaces.Box(0, 255, (3, 8, 9), np.uint8)
    other = spaces.Box(0, 255, (8, 9, 3), np.uint8)
    images = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    space, arrange = channels_last(pixel)
    assert space == other and arrange(images).flags.c_contiguous
    np.testing.assert_array_equal(arrange(images), np.moveaxis(images, -3, -1))
    nested, arrange = channels_last(spaces.Dict({"image": pixel, "rest": spaces.Tuple([other, spaces.Discrete(3)])}))
    assert nested["image"] == other and nested["rest"][0] == other
    kept = np.moveaxis(images, -3, -1)
    arranged = arrange({"image": images, "rest": (kept, 1)})
    assert arranged["rest"][0] is kept and arranged["image"].shape == kept.shape


@pytest.mark.parametrize("mode", AutoresetMode)
def test_images_in_the_stream_and_in_final_have_channels_last(mode):
    class Pictures(Scripted):
        def __init__(self):
            super().__init__((Episode(2, False, True),))
            self.observation_space = spaces.Box(0, 255, (1, 4, 5), np.uint8)

        def _observe(self, action):
            return np.full((1, 4, 5), 10 * self._step, np.uint8)

    environment = make(SyncVectorEnv([Pictures], autoreset_mode=mode), settings=EnvironmentSettings(frame_stack=2))
    environment.reset(0)
    environment.step(np.zeros(1, int))
    ended = environment.step(np.zeros(1, int))
    last = ended.observation if mode is AutoresetMode.NEXT_STEP else ended.final
    assert last.shape == (1, 4, 5, 2) == (1, *environment.spaces.observation.shape)
    assert (last == [10, 20]).all()
