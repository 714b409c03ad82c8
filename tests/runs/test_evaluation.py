import gymnasium
import numpy as np
import pytest

import weft
from weft.runs.evaluation import evaluate

LENGTHS = {0: 1, 1: 9}
"""Length of the episodes, by whether the environment was made first."""


class Uneven(gymnasium.Env):
    """Episodes of the first environment of a batch are short, those of the others long; each step brings 1."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    made = 0

    def __init__(self, truncates=False):
        self.length = LENGTHS[min(Uneven.made, 1)]
        Uneven.made += 1
        self.truncates = truncates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.step_number += 1
        ended = self.step_number == self.length
        return np.zeros(1, np.float32), 1.0 + action, ended and not self.truncates, ended and self.truncates, {}


class Constant:
    """A policy that remembers how it was asked."""

    def __init__(self):
        self.resets = 0
        self.firsts = []

    def reset(self):
        self.resets += 1

    def act(self, observation, deterministic, first):
        self.firsts.append(np.array(first))
        return np.full(len(observation), int(deterministic))


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize(("number", "episodes"), [(1, 1), (1, 5), (3, 3), (3, 7), (4, 2)])
def test_every_environment_plays_its_share_of_whole_episodes(number, episodes, truncates):
    Uneven.made = 0
    settings = weft.EnvironmentSettings(vectorization="sync", arguments={"truncates": truncates})
    environment = weft.make(Uneven, number, settings=settings)
    assert Uneven.made == number
    policy = Constant()
    result = evaluate(policy, environment, episodes, seed=0, deterministic=True)
    environment.close()
    short = episodes // number + (episodes % number > 0)
    assert sorted(result.lengths) == [1] * short + [9] * (episodes - short)
    np.testing.assert_array_equal(result.returns, 2.0 * result.lengths)
    assert result.mean_return == pytest.approx(np.mean(2.0 * result.lengths))
    assert result.standard_deviation == pytest.approx(np.std(2.0 * result.lengths))
    assert policy.resets == 1 and policy.firsts[0].all()
    assert sum(first[0] for first in policy.firsts) >= short


def test_sampled_actions_are_asked_for():
    Uneven.made = 0
    environment = weft.make(Uneven, 1)
    assert evaluate(Constant(), environment, 1, seed=0, deterministic=False).returns == [1.0]
    environment.close()
