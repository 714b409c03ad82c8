"""Names and settings of device environments."""

import subprocess
import sys

import pytest

from weft.envs import device
from weft.errors import WeftError


def test_ids_are_known_without_importing_jax():
    code = "import sys; from weft.envs import device; print(*device.IDS); assert 'jax' not in sys.modules"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == sorted(device.IDS)


@pytest.mark.parametrize("name", device.IDS)
def test_every_id_makes_an_environment_of_that_name(name):
    environment = device.make(name)
    assert environment.name == name
    assert hash(environment) == hash(device.make(name))


def test_settings_are_the_fields_of_the_environment():
    assert device.make("CartPole-v1", time_limit=None).time_limit is None
    assert device.make("CartPole-v1", gravity=5).gravity == 5
    assert device.make("Catch", rows=7, columns=3).observation_space.shape == (7, 3)
    assert device.make("RepeatPrevious", decks=2, k=32).cards == 104


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("CartPole-v2", {}, "did you mean CartPole-v1 or CartPole-no-velocity"),
        ("deepsea", {}, "did you mean DeepSea"),
        ("Pong", {}, "there is Acrobot-v1"),
        ("CartPole-v1", {"gravitiy": 1.0}, "did you mean gravity"),
        ("CartPole-v1", {"name": "x"}, "There is no setting of CartPole-v1 named 'name'"),
        ("CartPole-v1", {"gravity": "high"}, "The setting gravity of CartPole-v1 cannot be 'high'"),
        ("CartPole-v1", {"time_limit": 0}, "at least 1"),
        ("DeepSea", {"size": 0}, "at least 1"),
        ("DeepSea", {"size": 2.5}, "cannot be 2.5"),
        ("MemoryChain", {"length": 0}, "at least 1"),
        ("RepeatPrevious", {"k": 52}, "k < 52"),
        ("Catch", {"rows": 1}, "at least 2 rows"),
    ],
)
def test_bad_names_and_settings_get_one_sentence(name, settings, sentence):
    with pytest.raises(WeftError, match=sentence):
        device.make(name, **settings)
