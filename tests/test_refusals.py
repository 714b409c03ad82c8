"""What cannot be done is refused before anything is left behind."""

import gymnasium
import jax
import numpy as np
import pytest

import weft
from weft.config import name_of
from weft.update import random_order


def test_a_refused_launch_leaves_no_folder(tmp_path):
    with pytest.raises(weft.WeftError, match="local has one actor, not 2"):
        weft.train("ppo", "CartPole-v1", actors=2, folder=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_torso_without_a_name_has_to_be_given_again(tmp_path, tiny):
    def init(key, observation):
        return {"kernel": jax.random.normal(key, (observation.shape[-1], 8))}

    def apply(params, observation):
        return observation @ params["kernel"]

    run = tiny(torso=(init, apply))
    loaded = weft.load(run.folder)
    assert loaded.summary["finished"]
    with pytest.raises(weft.WeftError, match=r"weft.load\(folder, torso=...\)"):
        loaded.evaluate(1)
    assert weft.load(run.folder, torso=(init, apply)).evaluate(1).returns.shape == (1,)


class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_an_evaluation_without_end_is_given_up(monkeypatch, tiny):
    monkeypatch.setattr("weft.runs.evaluation.LONGEST_EPISODE", 50)
    run = tiny(environment=Endless)
    with pytest.raises(weft.WeftError, match="time limit"):
        run.evaluate(2)


def test_names_of_the_users_own_code():
    assert name_of("ppo") == "ppo"
    assert name_of(Endless) == f"{__name__}:Endless"
    assert name_of(lambda: None) == "<function>"
    assert name_of((len, max)) == "<tuple>"


@pytest.mark.parametrize("size", [1, 2, 7, 1024, 70_000])
def test_random_order_is_a_permutation_that_depends_on_the_key(size):
    orders = [np.asarray(random_order(size, jax.random.key(seed))) for seed in (0, 1)]
    for order in orders:
        assert np.array_equal(np.sort(order), np.arange(size))
    assert size < 7 or not np.array_equal(*orders)


def test_random_order_favours_no_place():
    """Each of 8 items is at each of 8 places in an eighth of 4,000 orders, to five standard deviations."""
    orders = np.asarray(jax.vmap(lambda key: random_order(8, key))(jax.random.split(jax.random.key(0), 4000)))
    counts = np.array([[np.sum(orders[:, place] == item) for item in range(8)] for place in range(8)])
    assert np.abs(counts - 500).max() < 5 * np.sqrt(4000 * 7 / 64)
