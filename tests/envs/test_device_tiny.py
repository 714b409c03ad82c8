"""Golden checks of the small diagnostic environments: streams by hand, and the returns of known policies."""

import jax
import numpy as np
import pytest

from weft.envs import device


def episode(environment, act, seed=0):
    """Play one episode with ``act(state, observation)``; returns (observations, rewards)."""
    state, observation = environment.reset(jax.random.key(seed))
    step = jax.jit(environment.step)
    observations, rewards, terminated = [np.asarray(observation)], [], False
    while not terminated:
        state, observation, reward, terminated = step(state, act(state, observations[-1]), jax.random.key(0))
        observations.append(np.asarray(observation))
        rewards.append(float(reward))
        assert environment.observation_space.contains(observations[-1])
    return observations, rewards


def chase(state, observation):
    """Catch: read ball and paddle from the board and move towards the ball."""
    ball = observation[:-1].sum(axis=0).argmax()
    return 1 + int(np.sign(ball - observation[-1].argmax()))


def test_catch_is_always_won_by_chasing_the_ball():
    for seed in range(8):
        observations, rewards = episode(device.make("Catch"), chase, seed)
        assert rewards == [0] * 8 + [1]
        assert [board.sum() for board in observations[:-1]] == [2] * 9
        assert observations[-1].sum() == 1, "ball and paddle are in one place"


def test_catch_is_lost_when_the_paddle_stands_elsewhere():
    rewards = [episode(device.make("Catch"), lambda state, observation: 0, seed)[1][-1] for seed in range(8)]
    columns = [int(device.make("Catch").reset(jax.random.key(seed))[1][0].argmax()) for seed in range(8)]
    assert rewards == [1 if column == 0 else -1 for column in columns]
    assert len(set(columns)) > 2


@pytest.mark.parametrize("size", [1, 5, 10])
@pytest.mark.parametrize("mapping_seed", [None, 42])
def test_deep_sea_pays_the_diver_who_always_goes_right(size, mapping_seed):
    sea = device.make("DeepSea", size=size, mapping_seed=mapping_seed)
    observations, rewards = episode(sea, lambda state, observation: sea.right[state.row, state.column])
    assert len(rewards) == size
    assert sum(rewards) == pytest.approx(0.99)
    assert rewards[-1] > 0.9
    np.testing.assert_array_equal(np.sum(observations, axis=0), np.eye(size))


def test_deep_sea_pays_nothing_to_the_left_and_costs_for_a_late_turn():
    sea = device.make("DeepSea", size=4)
    observations, rewards = episode(sea, lambda state, observation: 1 - sea.right[state.row, state.column])
    assert rewards == [0] * 4
    np.testing.assert_array_equal(np.sum(observations, axis=0)[:, 0], 1)
    _, rewards = episode(sea, lambda state, observation: sea.right[state.row, state.column] ^ (state.row == 0))
    assert rewards == pytest.approx([0, -0.0025, -0.0025, -0.0025])


def test_deep_sea_mapping_is_drawn_from_its_seed():
    assert (device.make("DeepSea", mapping_seed=None).right == 1).all()
    assert 0 < device.make("DeepSea").right.mean() < 1
    assert (device.make("DeepSea", mapping_seed=1).right != device.make("DeepSea", mapping_seed=2).right).any()


@pytest.mark.parametrize("seed", range(4))
def test_memory_chain_shows_the_bit_asks_for_it_and_judges(seed):
    chain = device.make("MemoryChain", length=4)
    bit = int(chain.reset(jax.random.key(seed))[0].bit)
    sign = 2 * bit - 1
    observations, rewards = episode(chain, lambda state, observation: bit, seed)
    np.testing.assert_array_equal(observations, [[1, sign], [1, sign], [0.75, 0], [0.5, 0], [0.25, 0], [0, 0]])
    assert rewards == [0, 0, 0, 0, 1]
    assert episode(chain, lambda state, observation: 1 - bit, seed)[1] == [0, 0, 0, 0, -1]


def test_memory_chain_draws_both_bits():
    bits, _ = jax.vmap(device.make("MemoryChain").reset)(jax.random.split(jax.random.key(0), 200))
    assert 0.4 < np.asarray(bits.bit).mean() < 0.6


def test_repeat_previous_pays_one_for_perfect_memory_and_minus_one_for_none_right():
    game, seen = device.make("RepeatPrevious"), []

    def recall(state, observation):
        seen.append(int(observation))
        return seen[-4] if len(seen) >= 4 else 0

    observations, rewards = episode(game, recall)
    assert sum(rewards) == pytest.approx(1.0)
    assert rewards == pytest.approx([0] * 3 + [1 / 48] * 48)
    np.testing.assert_array_equal(np.bincount(observations), [13] * 4)

    seen.clear()
    _, rewards = episode(game, lambda state, observation: (recall(state, observation) + 1) % 4)
    assert sum(rewards) == pytest.approx(-1.0)


def test_repeat_previous_guessed_returns_minus_a_half():
    returns = [sum(episode(device.make("RepeatPrevious"), lambda state, obs: 2, seed)[1]) for seed in range(5)]
    assert np.mean(returns) == pytest.approx(-0.5, abs=0.1)
    assert len({tuple(map(int, episode(device.make("RepeatPrevious"), lambda *_: 0, s)[0])) for s in (0, 1)}) == 2
