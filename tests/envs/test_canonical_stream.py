"""The canonical stream holds exactly the transitions that a plain loop over single environments meets."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Episode, Scripted, assert_same, from_stream, reference

from weft.envs import EnvironmentSettings, make
from weft.envs.transformed import actor_seed

ENDS = st.sampled_from([(True, False), (False, True), (True, True)])
EPISODES = st.builds(lambda length, end: Episode(length, *end), st.integers(1, 4), ENDS)
SCRIPTS = st.lists(st.lists(EPISODES, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3)
SCRIPT = (Episode(1, True, False), Episode(3, False, True), Episode(1, False, True), Episode(2, True, True))


def check(vector, scripts, *, seed=3, index=0, stack=1, nested=False, count=12):
    environment = make(vector, settings=EnvironmentSettings(frame_stack=stack), index=index)
    streams = from_stream(environment, seed, count, nested)
    environment.close()
    for row, script in enumerate(scripts):
        own_seed = actor_seed(seed, index) + row
        assert_same(streams[row], reference(Scripted(script, nested), own_seed, count, stack))


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("copy", [True, False])
@settings(deadline=None, max_examples=25, derandomize=True)
@given(scripts=SCRIPTS, stack=st.integers(1, 3), index=st.integers(0, 2))
def test_every_autoreset_mode_gives_the_transitions_of_a_plain_loop(mode, copy, scripts, stack, index):
    singles = [partial(Scripted, script) for script in scripts]
    check(SyncVectorEnv(singles, copy=copy, autoreset_mode=mode), scripts, index=index, stack=stack)


@pytest.mark.parametrize("mode", AutoresetMode)
@settings(deadline=None, max_examples=10, derandomize=True)
@given(scripts=SCRIPTS)
def test_nested_spaces_in_and_out(mode, scripts):
    singles = [partial(Scripted, script, nested=True) for script in scripts]
    check(SyncVectorEnv(singles, autoreset_mode=mode), scripts, nested=True)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_environments_in_processes(mode):
    scripts = [SCRIPT, SCRIPT[1:]]
    singles = [partial(Scripted, script, nested=True) for script in scripts]
    check(AsyncVectorEnv(singles, context="spawn", copy=False, autoreset_mode=mode), scripts, nested=True)


def test_final_is_there_for_same_step_resets_only():
    for mode in AutoresetMode:
        environment = make(SyncVectorEnv([partial(Scripted, SCRIPT)], autoreset_mode=mode))
        timesteps = [environment.reset(0), *(environment.step(np.zeros(1, int)) for _ in range(5))]
        assert all((timestep.final is None) == (mode is AutoresetMode.NEXT_STEP) for timestep in timesteps)
        assert any(timestep.last.any() for timestep in timesteps) == (mode is AutoresetMode.NEXT_STEP)


def test_nested_final_has_every_leaf_of_the_last_observation():
    script = (Episode(2, False, True),)
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
        environment = make(SyncVectorEnv([partial(Scripted, script, nested=True)] * 2, autoreset_mode=mode))
        environment.reset(0)
        for move in (3, 4):
            action = {"move": np.full(2, move), "idle": (np.zeros((2, 2), np.int8),)}
            timestep = environment.step(action)
        picture, last_move = timestep.final["more"]
        assert timestep.first.all() and (picture == 24).all() and (last_move == 4).all()
        assert (timestep.observation["more"][0] == 0).all()


def test_time_limit_truncates_with_the_true_last_observation():
    script = (Episode(9, True, False),)
    environment = make(partial(Scripted, script), 1, settings=EnvironmentSettings(time_limit=2))
    environment.reset(0)
    timesteps = [environment.step(np.zeros(1, int)) for _ in range(3)]
    assert [bool(timestep.last[0]) for timestep in timesteps] == [False, True, False]
    assert timesteps[1].discount[0] == 1 and timesteps[2].first[0]


def streams(seed, index=0):
    environment = make(partial(Scripted, SCRIPT), 3, index=index)
    return np.stack(
        [environment.reset(seed).observation[:, 0].copy(), environment.step(np.zeros(3, int)).observation[:, 0]]
    )


def test_same_seed_same_stream_and_everything_else_differs():
    np.testing.assert_array_equal(streams(5), streams(5))
    numbers = np.concatenate([streams(5)[0], streams(6)[0], streams(5, index=1)[0]])
    assert len(np.unique(numbers)) == 9


def test_resetting_again_with_the_same_seed_repeats_the_episodes():
    environment = make("CartPole-v1", 3)
    first = environment.reset(1).observation.copy()
    for _ in range(20):
        environment.step(np.ones(3, int))
    np.testing.assert_array_equal(environment.reset(1).observation, first)
