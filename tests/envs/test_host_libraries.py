"""Each library really does what the canonical stream takes it to do: checked against CartPole's own equations."""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from weft.envs import AtariSettings, EnvironmentSettings, make
from weft.errors import WeftError

LIMIT = 15
PHYSICS = CartPoleEnv()
SETTINGS = EnvironmentSettings(time_limit=LIMIT)
CARTPOLES = ["CartPole-v1", "sync", "envpool:CartPole-v1"]


def cartpole(name, number):
    if name == "sync":
        return make("CartPole-v1", number, settings=EnvironmentSettings("sync", time_limit=LIMIT))
    return make(name, number, settings=SETTINGS)


def check_cartpole_rows(before, action, after, steps):
    """``steps`` counts the actions of each row's episode. The dynamics must hold up to the last observation."""
    for row in range(len(action)):
        if before["last"][row]:
            assert after["first"][row] and not after["last"][row]
            assert after["reward"][row] == 0 and after["discount"][row] == 1
            assert np.abs(after["observation"][row]).max() <= 0.05
            steps[row] = 0
            continue
        steps[row] += 1
        PHYSICS.state, PHYSICS.steps_beyond_terminated = before["observation"][row].astype(np.float64), None
        observation, _, terminated, *_ = PHYSICS.step(int(action[row]))
        np.testing.assert_allclose(after["observation"][row], observation, rtol=1e-4, atol=1e-5)
        assert after["reward"][row] == 1 and not after["first"][row]
        assert after["last"][row] == (terminated or steps[row] == LIMIT)
        if not (terminated and steps[row] == LIMIT):  # which EnvPool reports as a truncation alone
            assert after["discount"][row] == (not terminated)


def fields(timestep):
    return {name: np.copy(value) for name, value in timestep._asdict().items() if value is not None}


@pytest.mark.parametrize("name", CARTPOLES)
def test_cartpole_of_every_library_in_canonical_form(name):
    environment = cartpole(name, 4)
    before = fields(environment.reset(0))
    assert before["first"].all() and not before["last"].any()
    assert len(np.unique(before["observation"][:, 0])) == 4
    steps, random, ends, truncations = np.zeros(4, int), np.random.default_rng(0), 0, 0
    for _ in range(150):
        action = random.integers(2, size=4)
        after = fields(environment.step(action))
        check_cartpole_rows(before, action, after, steps)
        ends += after["last"].sum()
        truncations += (after["last"] & (after["discount"] == 1)).sum()
        before = after
    environment.close()
    assert ends > truncations > 0


def test_asynchronous_pool_is_one_canonical_stream_for_each_id():
    environment = make(
        "envpool-async:CartPole-v1", 5, settings=EnvironmentSettings(time_limit=LIMIT, arguments={"batch_size": 2})
    )
    assert environment.batch == 2
    environment.reset(0)
    steps, random = np.zeros(5, int), np.random.default_rng(0)
    before, actions, received = {}, {}, defaultdict(int)
    for _ in range(300):
        ids, timestep = environment.receive()
        after = fields(timestep)
        for row, id in enumerate(ids):
            row_after = {name: value[row : row + 1] for name, value in after.items()}
            if id in before:
                own = steps[id : id + 1]
                check_cartpole_rows(before[id], np.array([actions[id]]), row_after, own)
            else:
                assert row_after["first"][0]
            before[id], actions[id] = row_after, random.integers(2)
            received[id] += 1
        environment.send(ids, np.array([actions[id] for id in ids]))
    environment.close()
    assert len(received) == 5 and min(received.values()) > 50


@pytest.mark.parametrize("name", ["CartPole-v1", "envpool:CartPole-v1", "envpool:Pong-v5", "ALE/Pong-v5"])
def test_same_seed_same_stream_and_everything_else_differs(name):
    def stream(seed, index=0):
        environment = make(name, 2, settings=EnvironmentSettings(time_limit=20), index=index)
        random = np.random.default_rng(0)
        observations = [environment.reset(seed).observation.copy()]
        observations += [environment.step(np.full(2, random.integers(2))).observation.copy() for _ in range(30)]
        environment.close()
        return np.stack(observations)

    one = stream(3)
    np.testing.assert_array_equal(stream(3), one)
    assert (one[:, 0] != one[:, 1]).any()
    for other in (stream(4), stream(3, index=1)):
        assert (other != one).any()


@pytest.mark.parametrize("name", ["ALE/Pong-v5", "envpool:Pong-v5"])
@pytest.mark.parametrize("stack", [None, 2])
def test_atari_pictures_have_their_channels_last(name, stack):
    environment = make(name, 2, settings=EnvironmentSettings(frame_stack=stack, time_limit=6))
    timestep = environment.reset(0)
    shape = (84, 84, stack or 4)
    assert environment.spaces.observation.shape == shape
    lasts = []
    for step in range(9):
        before, timestep = timestep.observation.copy(), environment.step(np.full(2, step % 4))
        assert timestep.observation.shape == (2, *shape) and timestep.observation.flags.c_contiguous
        if not timestep.first.any():
            np.testing.assert_array_equal(timestep.observation[..., :-1], before[..., 1:])
        lasts.append(timestep.last.all())
    environment.close()
    assert lasts == [False] * 5 + [True] + [False] * 3


def test_atari_one_by_one_looks_like_its_vector_environment():
    settings = EnvironmentSettings("sync", time_limit=6, atari=AtariSettings(size=42, noop_max=0))
    one_by_one = make("ALE/Pong-v5", 1, settings=settings)
    together = make("ALE/Pong-v5", 1, settings=EnvironmentSettings(time_limit=6, atari=settings.atari))
    assert one_by_one.spaces == together.spaces
    left, right = one_by_one.reset(0), together.reset(0)
    for _ in range(6):
        left, right = one_by_one.step(np.zeros(1, int)), together.step(np.zeros(1, int))
        difference = np.abs(left.observation[..., -1].astype(int) - right.observation[..., -1])
        assert difference.mean() < 8
    assert left.last.all() and right.last.all()


def test_losing_a_life_ends_the_episode_but_not_the_game():
    settings = EnvironmentSettings(atari=AtariSettings(life_loss=True, noop_max=0))
    environment = make("ALE/Breakout-v5", 1, settings=settings)
    assert settings.evaluation().atari == AtariSettings(life_loss=False, noop_max=0)
    timestep, steps = environment.reset(0), 0
    while not timestep.last[0]:
        timestep, steps = environment.step(np.ones(1, int)), steps + 1
    assert timestep.discount[0] == 0 and steps < 200
    assert environment.step(np.ones(1, int)).first[0]


@pytest.mark.parametrize("name", ["CartPole-v1", "ALE/Pong-v5", "envpool:CartPole-v1", "device:CartPole-v1"])
def test_render_shows_the_first_environment(name, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    environment = make(name, 2, render=True)
    environment.reset(0)
    picture = environment.render()
    environment.close()
    assert picture.ndim == 3 and picture.shape[-1] == 3 and picture.dtype == np.uint8 and picture.std() > 0


def test_pictures_that_need_a_package_say_which_extra_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    environment = make("CartPole-v1", 1, render=True)
    environment.reset(0)
    with pytest.raises(WeftError, match=r"weft\[video\]"):
        environment.render()


def test_without_render_there_is_no_picture():
    environment = make("CartPole-v1", 2)
    environment.reset(0)
    assert environment.render() is None
