"""The classics step exactly as Gymnasium's do: same states, same actions, float32 against float64."""

import gymnasium
import jax
import numpy as np
import pytest

from weft.envs import device
from weft.envs.device.host import DeviceHost

CLASSICS = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]

STATES = {
    "CartPole-v1": ([-2.4, -3, -0.21, -3], [2.4, 3, 0.21, 3]),
    "Acrobot-v1": ([-np.pi, -np.pi, -12, -28], [np.pi, np.pi, 12, 28]),
    "MountainCar-v0": ([-1.2, -0.07], [0.6, 0.07]),
    "MountainCarContinuous-v0": ([-1.2, -0.07], [0.6, 0.07]),
    "Pendulum-v1": ([-7, -8], [7, 8]),
}


@pytest.fixture(params=CLASSICS)
def pair(request):
    theirs = gymnasium.make(request.param)
    theirs.action_space.seed(0)
    yield device.make(request.param), theirs
    theirs.close()


def their_step(theirs, state, action):
    """One step of Gymnasium's bare environment from a given state."""
    bare = theirs.unwrapped
    bare.state = np.asarray(state, np.float64)
    bare.steps_beyond_terminated = None
    observation, reward, terminated, _, _ = bare.step(action)
    return observation, reward, terminated


def test_spaces_and_time_limit_are_gymnasiums(pair):
    ours, theirs = pair
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.time_limit == theirs.spec.max_episode_steps
    assert ours.name == theirs.spec.id


def test_steps_from_any_state_equal_gymnasiums(pair):
    ours, theirs = pair
    theirs.reset(seed=0)
    low, high = STATES[ours.name]
    states = np.random.default_rng(0).uniform(low, high, (2000, len(low))).astype(np.float32)
    actions = np.stack([theirs.action_space.sample() for _ in states])
    expected = [their_step(theirs, state, action) for state, action in zip(states, actions, strict=True)]
    observations, rewards, terminations = map(np.array, zip(*expected, strict=True))

    _, observation, reward, terminated = jax.jit(jax.vmap(ours.step, in_axes=(0, 0, None)))(
        states, actions, jax.random.key(0)
    )
    # Acrobot's fastest states amplify rounding; whole episodes, below, are compared at the tighter tolerance.
    atol = 2e-3 if ours.name == "Acrobot-v1" else 2e-5
    np.testing.assert_allclose(observation, observations, rtol=1e-4, atol=atol)
    np.testing.assert_allclose(np.broadcast_to(reward, rewards.shape), rewards, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(terminated, terminations)
    assert all(ours.observation_space.contains(row) for row in np.asarray(observation))
    if ours.name != "Pendulum-v1":
        assert 0 < terminations.sum() < len(terminations), "the sample tests both outcomes"


def test_initial_states_have_gymnasiums_range(pair):
    ours, theirs = pair
    ours_first = np.asarray(jax.vmap(ours.reset)(jax.random.split(jax.random.key(0), 400))[1])
    theirs_first = np.stack([theirs.reset(seed=seed)[0] for seed in range(400)])
    scale = np.maximum(theirs_first.std(axis=0), 1e-6)
    assert all(ours.observation_space.contains(row) for row in ours_first)
    np.testing.assert_allclose((ours_first.mean(axis=0) - theirs_first.mean(axis=0)) / scale, 0, atol=0.3)
    np.testing.assert_allclose((ours_first.min(axis=0) - theirs_first.min(axis=0)) / scale, 0, atol=0.3)
    np.testing.assert_allclose((ours_first.max(axis=0) - theirs_first.max(axis=0)) / scale, 0, atol=0.3)


def balance(observation, sampled):
    """Keep CartPole's pole up, so that its episode meets the time limit."""
    return int(observation[2] + observation[3] + 0.1 * observation[1] + 0.02 * observation[0] > 0)


def at_random(observation, sampled):
    return sampled


def follow(name, act, steps):
    """Step ours and Gymnasium's side by side, each step from our state; count how episodes end."""
    theirs = gymnasium.make(name)
    theirs.action_space.seed(1)
    host = DeviceHost(device.make(name))
    timestep = host.reset(seed=1)
    terminations = truncations = 0
    for _ in range(steps):
        if timestep.first[0]:
            theirs.reset(seed=0)
        state = host.save()[0][0][0]
        theirs.unwrapped.state = state.astype(np.float64)
        action = act(timestep.observation[0], theirs.action_space.sample())
        ended = timestep.last[0]
        timestep = host.step(np.array([action]))
        if ended:
            assert timestep.first[0]
            assert timestep.reward[0] == 0
            continue
        observation, reward, terminated, truncated, _ = theirs.step(action)
        np.testing.assert_allclose(timestep.observation[0], observation, rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(timestep.reward[0], reward, rtol=1e-5, atol=1e-5)
        assert timestep.last[0] == (terminated or truncated)
        assert timestep.discount[0] == 1 - terminated
        terminations += terminated
        truncations += truncated and not terminated
    theirs.close()
    return terminations, truncations


@pytest.mark.parametrize(
    ("name", "act", "steps", "terminates", "truncates"),
    [
        ("CartPole-v1", at_random, 1000, True, False),
        ("CartPole-v1", balance, 1100, False, True),
        ("Acrobot-v1", at_random, 1100, False, True),
        ("MountainCar-v0", at_random, 1000, False, True),
        ("MountainCarContinuous-v0", at_random, 1050, False, True),
        ("Pendulum-v1", at_random, 1000, False, True),
    ],
)
def test_whole_episodes_equal_gymnasiums(name, act, steps, terminates, truncates):
    terminations, truncations = follow(name, act, steps)
    assert (terminations > 0) == terminates
    assert (truncations > 0) == truncates


def test_cartpole_without_velocity_is_cartpole_with_half_the_observation():
    whole, half = DeviceHost(device.make("CartPole-v1"), 3), DeviceHost(device.make("CartPole-no-velocity"), 3)
    theirs, ours = whole.reset(0), half.reset(0)
    for step in range(60):
        np.testing.assert_array_equal(ours.observation, theirs.observation[:, [0, 2]])
        np.testing.assert_array_equal(ours.last, theirs.last)
        action = np.array([step % 2, 0, 1])
        theirs, ours = whole.step(action), half.step(action)
    assert half.spaces.observation.shape == (2,)
