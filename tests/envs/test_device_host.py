"""Device environments served from Python."""

import pickle

import jax
import numpy as np
import pytest

from weft.envs import device
from weft.envs.base import Environment
from weft.envs.device.autoreset import AutoReset
from weft.envs.device.host import DeviceHost

NUMBER = 3


@pytest.fixture(params=device.IDS, scope="module")
def host(request):
    return DeviceHost(device.make(request.param), NUMBER)


def sample(host):
    return np.stack([host.spaces.action.sample() for _ in range(NUMBER)])


def copy(timestep):
    return jax.tree.map(np.array, timestep)


def assert_same(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    jax.tree.map(np.testing.assert_array_equal, left, right)


def test_save_and_restore_continue_bit_for_bit(host):
    assert isinstance(host, Environment)
    host.spaces.action.seed(0)
    host.reset(5)
    for _ in range(20):
        current = copy(host.step(sample(host)))
    saved = pickle.loads(pickle.dumps(host.save()))
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(saved))
    actions = [sample(host) for _ in range(60)]
    expected = [copy(host.step(action)) for action in actions]

    assert_same(host.restore(saved), current)
    assert_same([copy(host.step(action)) for action in actions], expected)
    assert host._step._cache_size() == 1, "compiled once"


def test_observations_are_in_the_space_and_pictures_show_what_happens(host):
    host.spaces.action.seed(0)
    timestep = host.reset(0)
    pictures = []
    for _ in range(25):
        assert all(host.spaces.observation.contains(observation) for observation in timestep.observation)
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(timestep))
        pictures.append(host.render())
        timestep = host.step(sample(host))
    for picture in pictures:
        assert picture.dtype == np.uint8
        assert picture.shape == pictures[0].shape
        assert picture.shape[0] % 2 == picture.shape[1] % 2 == 0, "video encoders want even sides"
        assert picture.mean() > 60, "not black"
    assert len({tuple(pixel) for pixel in pictures[0].reshape(-1, 3)[::7]}) >= 3, "not blank"
    assert any((picture != pictures[0]).any() for picture in pictures)
    host.close()


def test_a_fresh_host_continues_what_another_saved():
    host, other = DeviceHost(device.make("CartPole-v1"), 2), DeviceHost(device.make("CartPole-v1"), 2)
    host.reset(0)
    current, action = copy(host.step(np.array([0, 1]))), np.array([1, 0])
    assert_same(other.restore(host.save()), current)
    assert_same(copy(other.step(action)), copy(host.step(action)))


def test_seed_decides_the_stream_and_it_is_that_of_the_pure_functions():
    host = DeviceHost(device.make("CartPole-v1"), 2)
    first = copy(host.reset(1))
    assert (host.reset(2).observation != first.observation).all()
    assert_same(host.reset(1), first)
    assert (first.observation[0] != first.observation[1]).any()
    _, expected = AutoReset(device.make("CartPole-v1"), 2).init(jax.random.key(1))
    assert_same(first, copy(expected))


def test_pictures_of_final_states_can_be_drawn():
    for name in ("Catch", "DeepSea", "MemoryChain", "RepeatPrevious"):
        host = DeviceHost(device.make(name), 1)
        timestep = host.reset(0)
        while not timestep.last[0]:
            timestep = host.step(np.array([0]))
        assert host.render().mean() > 60
