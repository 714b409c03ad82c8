import gymnasium
import jax
import numpy as np
import pytest

from weft import algorithms
from weft.runs.policy import Policy
from weft.settings import resolve
from weft.types import Spaces

CONTINUOUS = gymnasium.spaces.Box(-2, 2, (2,))
VECTOR = gymnasium.spaces.Box(-1, 1, (3,))
NESTED = gymnasium.spaces.Dict({"b": gymnasium.spaces.Tuple([VECTOR]), "a": gymnasium.spaces.Discrete(4)})


def policy(name="ppo", observation=VECTOR, action=CONTINUOUS, recurrent=None):
    factory = algorithms.find(name)
    settings = {"network": {"hidden": [8], "memory_size": 4, **({"recurrent": recurrent} if recurrent else {})}}
    algorithm = factory(resolve(algorithms.settings_class(factory), settings, name), Spaces(observation, action))
    parameters = jax.jit(algorithm.init)(jax.random.key(3)).policy
    return Policy(algorithm, parameters, Spaces(observation, action))


@pytest.fixture(scope="module")
def recurrent():
    return policy(recurrent="gru")


def observations(*shape):
    return np.random.default_rng(5).uniform(-1, 1, (*shape, 3)).astype(np.float32)


@pytest.mark.parametrize("recurrent", [None, "gru", "lstm"])
def test_a_batch_acts_as_its_members_do_one_by_one(recurrent):
    acting, seen = policy(recurrent=recurrent), observations(12, 3)
    first = np.zeros((12, 3), bool)
    first[4, 0] = first[7, 0] = first[5, 2] = True
    actions, values = [], []
    for row in range(12):
        actions.append(acting.act(seen[row], first=first[row]))
        values.append(acting.value(seen[row]))
    for column in range(3):
        acting.reset()
        for row in range(12):
            action = acting.act(seen[row, column], first=first[row, column])
            assert action.shape == (2,)
            np.testing.assert_allclose(action, actions[row][column], atol=1e-5)
            assert acting.value(seen[row, column]) == pytest.approx(values[row][column], abs=1e-5)
    acting.reset()
    acting.act(-seen[0, 0])
    remembers = not np.allclose(acting.act(seen[1, 0]), actions[1][0], atol=1e-6)
    assert remembers == (recurrent is not None)


def test_memory_begins_anew_when_told_and_when_the_number_changes(recurrent):
    seen = observations(3)
    recurrent.reset()
    begun = recurrent.act(seen[0])
    assert not np.allclose(recurrent.act(seen[0]), begun, atol=1e-6)
    recurrent.reset()
    np.testing.assert_allclose(recurrent.act(seen[0]), begun, atol=1e-6)
    assert recurrent.act(seen).shape == (3, 2)
    np.testing.assert_allclose(recurrent.act(seen[0]), begun, atol=1e-6)


def test_values_leave_the_memory_as_it_is(recurrent):
    seen, actions = observations(4), []
    for asked in (False, True):
        recurrent.reset()
        for row in seen:
            if asked:
                recurrent.value(row)
                recurrent.value(seen)
            actions.append(recurrent.act(row))
    np.testing.assert_array_equal(actions[:4], actions[4:])


def test_sampled_actions_vary_and_deterministic_ones_do_not():
    stochastic, seen = policy(), observations()
    assert len({stochastic.act(seen).tobytes() for _ in range(5)}) == 1
    assert len({stochastic.act(seen, deterministic=False).tobytes() for _ in range(5)}) == 5
    assert stochastic.act(seen, deterministic=False) in CONTINUOUS


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_nested_observations_one_or_many_are_understood(name):
    acting = policy(name, NESTED, gymnasium.spaces.Discrete(5, start=-2))
    many = {"a": np.array([0, 1, 3]), "b": (observations(3),)}
    actions, values = acting.act(many), acting.value(many)
    assert actions.shape == values.shape == (3,) and all(action in acting.spaces.action for action in actions)
    for row in range(3):
        one = {"a": int(many["a"][row]), "b": [many["b"][0][row].tolist()]}
        assert acting.act(one) == actions[row]
        assert isinstance(acting.value(one), float) and acting.value(one) == pytest.approx(values[row], abs=1e-5)


def test_actions_nest_like_their_space():
    space = gymnasium.spaces.Dict({"move": gymnasium.spaces.MultiDiscrete([2, 3]), "push": CONTINUOUS})
    acting, seen = policy(action=space), observations(2)
    assert acting.act(seen[0]) in space and acting.act(seen[0], deterministic=False) in space
    many = acting.act(seen)
    assert many["move"].shape == (2, 2) and many["push"].shape == (2, 2)
