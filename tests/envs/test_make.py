"""Names, factories and settings of ``weft.envs.make``."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from scripted import Episode, Scripted

from weft.envs import EnvironmentSettings, known, make
from weft.envs.base import AsynchronousEnvironment, Environment
from weft.errors import WeftError

SCRIPT = (Episode(2, True, False),)


def make_scripted(length: int = 2) -> gymnasium.Env:
    return Scripted((Episode(length, True, False),))


class Plain(Scripted):
    def __init__(self) -> None:
        super().__init__(SCRIPT)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("CartPole-v1", "CartPole-v1"),
        ("gymnasium:CartPole-v1", "gymnasium:CartPole-v1"),
        ("gymnasium.envs.classic_control:CartPole-v1", "gymnasium.envs.classic_control:CartPole-v1"),
        ("gymnasium.envs.classic_control:CartPoleEnv", "gymnasium.envs.classic_control:CartPoleEnv"),
        ("device:CartPole-v1", "device:CartPole-v1"),
        ("Catch", "Catch"),
        ("envpool:CartPole-v1", "envpool:CartPole-v1"),
        ("test_make:make_scripted", "test_make:make_scripted"),
        (Plain, "test_make:Plain"),
        (make_scripted, "test_make:make_scripted"),
    ],
)
def test_names_that_are_known(given, name):
    environment = make(given, 3)
    assert isinstance(environment, Environment) and not isinstance(environment, AsynchronousEnvironment)
    assert environment.name == name and environment.number == 3
    timestep = environment.reset(0)
    action = np.stack([environment.spaces.action.sample() for _ in range(3)])
    for array in (*timestep[1:5], *environment.step(action)[1:5]):
        assert array.shape == (3,)
    environment.close()


def test_asynchronous_name():
    environment = make("envpool-async:CartPole-v1", 4)
    assert isinstance(environment, AsynchronousEnvironment) and not isinstance(environment, Environment)
    assert (environment.name, environment.number, environment.batch) == ("envpool-async:CartPole-v1", 4, 2)


def test_a_vector_environment_brings_its_own_number():
    vector = gymnasium.vector.SyncVectorEnv([Plain] * 3)
    environment = make(vector, 7)
    assert environment.number == 3 and environment.name == "SyncVectorEnv"
    with pytest.raises(WeftError, match="already made"):
        make(vector, settings=EnvironmentSettings(time_limit=5))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("CartPole-v7", "did you mean .*CartPole-v1"),
        ("cartpole-v1", "did you mean .*CartPole-v1"),
        ("Cacth", "did you mean Catch"),
        ("ALE/Pongg-v5", "did you mean .*ALE/Pong-v5"),
        ("no such thing at all", "weft list environments"),
        ("gymnasium:Catch-v9", "no Gymnasium environment"),
        ("device:Cach", "did you mean Catch"),
        ("envpool:CartPole", "did you mean .*CartPole-v1"),
        ("envpool-async:Pongg-v5", "did you mean .*Pong-v5"),
        ("no_such_module:make", "no module named 'no_such_module'"),
        ("test_make:make_script", "did you mean .*make_scripted"),
    ],
)
def test_names_that_are_unknown(given, says):
    with pytest.raises(WeftError, match=says) as raised:
        make(given)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("given", "missing", "extra"),
    [
        ("LunarLander-v3", "Box2D", "box2d"),
        ("envpool:CartPole-v1", "envpool", "envpool"),
        ("ALE/Pong-v5", "ale_py", "atari"),
    ],
)
def test_what_is_missing_says_which_extra_brings_it(given, missing, extra):
    """In a process of its own, where importing the module fails as if it were not installed."""
    code = f"""
import sys; sys.modules[{missing!r}] = None
from weft.envs import make
try: make({given!r})
except Exception as error: print(type(error).__name__, error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert out.startswith("WeftError") and f'pip install "weft[{extra}]"' in out


def test_arguments_reach_the_environment():
    settings = EnvironmentSettings(arguments={"length": 4})
    environment = make(make_scripted, settings=settings)
    environment.reset(0)
    assert [bool(environment.step(np.zeros(1, int)).last[0]) for _ in range(4)] == [False, False, False, True]
    rewarded = EnvironmentSettings(arguments={"sutton_barto_reward": True})
    for vectorization in ("auto", "sync"):
        pole = make("CartPole-v1", 2, settings=EnvironmentSettings(vectorization, arguments=rewarded.arguments))
        pole.reset(0)
        assert pole.step(np.zeros(2, int)).reward[0] == 0
    for name in ("CartPole-v1", "envpool:CartPole-v1", "device:CartPole-v1"):
        with pytest.raises(WeftError, match="lenght"):
            make(name, settings=EnvironmentSettings(arguments={"lenght": 4}))


def test_vector_implementations_are_for_several(monkeypatch):
    made, make_vec = [], gymnasium.make_vec
    monkeypatch.setattr(
        gymnasium, "make_vec", lambda spec, number, *rest: made.append(number) or make_vec(spec, number, *rest)
    )
    for number in (1, 2):
        make("CartPole-v1", number).close()
    assert made == [2]


def test_processes_by_choice():
    environment = make(partial(Scripted, SCRIPT), 2, settings=EnvironmentSettings("async"))
    environment.reset(0)
    assert not environment.step(np.zeros(2, int)).last.any() and environment.step(np.zeros(2, int)).last.all()
    assert environment.save() is None
    environment.close()


def test_spaces_that_are_not_arrays_are_refused():
    class Talking(Plain):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Dict({"said": spaces.Text(5)})

    with pytest.raises(WeftError, match=r"observation space of .* has Text at 'said'"):
        make(Talking)


def test_a_vector_environment_must_say_how_it_resets():
    vector = gymnasium.vector.SyncVectorEnv([Plain])
    del vector.metadata["autoreset_mode"]
    with pytest.raises(WeftError, match="autoreset_mode"):
        make(vector)


@pytest.mark.parametrize("broken", [{"frame_stack": 0}, {"clip_reward": -1.0}, {"time_limit": 0}])
def test_settings_out_of_range(broken):
    with pytest.raises(WeftError, match="must be more than 0"):
        EnvironmentSettings(**broken)
    with pytest.raises(WeftError, match="at least one"):
        make("CartPole-v1", 0)


def test_known_lists_every_library():
    groups = known()
    assert "Catch" in groups["device"] and "Pong-v5" in groups["envpool"]
    assert {"CartPole-v1", "ALE/Pong-v5"} <= set(groups["gymnasium"])


def test_importing_the_package_loads_no_library():
    code = "import weft.envs, sys; print({'jax', 'gymnasium', 'envpool', 'ale_py', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
