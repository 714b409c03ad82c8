"""Every algorithm in every kind of space, with and without memory: build, act, learn once; or a refusal that helps."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest
from batches import KEY, VECTOR, all_finite, jitted, take, trajectory, transitions
from gymnasium import spaces

from weft.algorithm import Algorithm
from weft.algorithms import ALGORITHMS, find, settings_class
from weft.errors import WeftError
from weft.networks.network import NetworkSettings
from weft.types import Spaces
from weft.update import update

T, B = 4, 2
OBSERVATIONS = {
    "vector": VECTOR,
    "image": spaces.Box(0, 255, (6, 7, 2), np.uint8),
    "discrete": spaces.Discrete(4, start=1),
    "nested": spaces.Dict(
        see=spaces.Tuple([spaces.Box(0, 255, (5, 5, 1), np.uint8), spaces.MultiDiscrete([2, 3])]),
        feel=spaces.Dict(touch=spaces.MultiBinary(2), force=spaces.Box(-1, 1, (2, 2))),
    ),
}
FINITE = {
    "discrete": spaces.Discrete(3, start=-1),
    "multi_discrete": spaces.MultiDiscrete([2, 3]),
    "multi_binary": spaces.MultiBinary(3),
    "nested": spaces.Dict(go=spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(2)]), say=spaces.MultiDiscrete([2])),
}
CONTINUOUS = {
    "box": spaces.Box(np.array([-2, 0], np.float32), np.array([2, np.inf], np.float32)),
    "mixed": spaces.Dict(go=spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(2)]), say=spaces.MultiBinary(2)),
}
ACTIONS = {**FINITE, **CONTINUOUS}


ONCE = {"epochs": 1, "minibatches": 1}
SETTINGS: dict[str, dict[str, Any]] = {
    "a2c": {"unroll": T},
    "appo": {"unroll": T, **ONCE},
    "dqn": {"sequence": T},
    "impala": {"unroll": T},
    "ppo": {"unroll": T, **ONCE},
}


def make(name: str, kinds: Spaces, recurrent: Any = None) -> Algorithm:
    return build(name, kinds, NetworkSettings(hidden=(4,), memory_size=3, recurrent=recurrent))


def build(name: str, kinds: Spaces, network: NetworkSettings) -> Algorithm:
    factory = find(name)
    return factory(settings_class(factory)(**SETTINGS[name], network=network), kinds)


def check(algorithm: Algorithm, kinds: Spaces) -> None:
    """Actions are elements of the space, and one update moves the parameters to finite ones."""
    state = jitted(algorithm.init)(KEY)
    batch = trajectory(algorithm, state, kinds.observation, T, B)
    observation, first = take(batch.observation, 0), batch.first[0]
    act = jitted(algorithm.act)(state.policy, observation, algorithm.memory(B), first, KEY, 1.0)
    for index in range(B):
        action = jax.tree.map(lambda leaf, index=index: np.asarray(leaf[index]), act.action)
        assert _as_elements(kinds.action, action) in kinds.action
    flat = algorithm.name == "dqn" and not jax.tree.leaves(batch.memory)
    data = transitions(batch, 0.9) if flat else batch
    learned, feedback = jax.jit(functools.partial(update, algorithm))(state, data, KEY)
    assert learned.updates > 0 and all_finite((learned, feedback))
    pairs = zip(jax.tree.leaves(state.params), jax.tree.leaves(learned.params), strict=True)
    assert any((before != after).any() for before, after in pairs)


def _as_elements(space: Any, action: Any) -> Any:
    """JAX has 32 bits where Gymnasium asks for 64."""
    if isinstance(space, spaces.Dict):
        return {name: _as_elements(part, action[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_as_elements(part, leaf) for part, leaf in zip(space, action, strict=True))
    return space.dtype.type(action) if space.shape == () else action.astype(space.dtype)


STOCHASTIC = ["a2c", "appo", "impala", "ppo"]
TABLE = [
    *(
        (name, *row)
        for name in STOCHASTIC
        for row in (
            ("vector", "box", None),
            ("vector", "mixed", None),
            ("image", "discrete", None),
            ("discrete", "multi_discrete", None),
            ("nested", "multi_binary", None),
            ("image", "nested", "gru"),
            ("nested", "mixed", "lstm"),
        )
    ),
    ("dqn", "vector", "discrete", None),
    ("dqn", "image", "multi_discrete", None),
    ("dqn", "discrete", "nested", None),
    ("dqn", "nested", "multi_binary", None),
    ("dqn", "image", "discrete", "gru"),
    ("dqn", "nested", "nested", "lstm"),
]
"""Every space at least once with every algorithm that takes it, and memory with the hardest ones."""


def test_the_table_misses_no_space():
    for name in ALGORITHMS:
        actions = ACTIONS if name in STOCHASTIC else FINITE
        rows = [row for row in TABLE if row[0] == name]
        assert {row[1] for row in rows} == set(OBSERVATIONS) and {row[2] for row in rows} == set(actions)


@pytest.mark.parametrize(("name", "seen", "done", "recurrent"), TABLE)
def test_builds_acts_and_learns(name, seen, done, recurrent):
    kinds = Spaces(OBSERVATIONS[seen], ACTIONS[done])
    check(make(name, kinds, recurrent), kinds)


@pytest.mark.parametrize("seen", OBSERVATIONS)
@pytest.mark.parametrize("done", CONTINUOUS)
def test_dqn_refuses_continuous_actions_and_names_who_takes_them(seen, done):
    with pytest.raises(WeftError, match=r"^dqn cannot take a continuous action space .*; ppo can\.$"):
        make("dqn", Spaces(OBSERVATIONS[seen], ACTIONS[done]))


def test_dqn_refuses_more_joint_actions_than_it_can_enumerate():
    with pytest.raises(WeftError, match=r"it has 65536 joint actions, more than 4096; ppo can\.$"):
        make("dqn", Spaces(VECTOR, spaces.MultiBinary(16)))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_spaces_that_hold_no_arrays_are_refused(name):
    text = spaces.Text(5)
    with pytest.raises(WeftError, match="Text"):
        make(name, Spaces(text, spaces.Discrete(2)))
    with pytest.raises(WeftError, match="Text"):
        make(name, Spaces(VECTOR, text))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_networks_without_units_are_refused(name):
    with pytest.raises(WeftError, match="at least one unit"):
        build(name, Spaces(VECTOR, spaces.Discrete(2)), NetworkSettings(hidden=(4, 0)))
