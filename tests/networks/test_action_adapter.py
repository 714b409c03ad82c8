import itertools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from nested_spaces import anything, finite

from weft.errors import WeftError
from weft.networks.action import JointActions, action_adapter
from weft.networks.spaces import tree_of
from weft.types import Tree

KEY = jax.random.key(0)


def contained(space: gymnasium.Space, action: Tree, leading: tuple[int, ...]) -> bool:
    """Whether every element of a batch of actions lies in the space."""
    arrays = jax.tree.map(np.asarray, action)
    return all(
        space.contains(jax.tree.map(lambda leaf, index=index: leaf[*index, ...], arrays))
        for index in np.ndindex(leading)
    )


@given(anything)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_actions_of_any_nested_space_lie_in_it(space):
    adapter = action_adapter(space)
    outputs = 3 * np.random.default_rng(0).normal(size=(2, 3, adapter.size)).astype(np.float32)

    @jax.jit
    def act(outputs):
        distribution = adapter.distribution(outputs)
        sample, mode = distribution.sample(KEY), distribution.mode()
        actions = adapter.to_environment(sample), adapter.to_environment(mode)
        return *actions, distribution.log_prob(sample), distribution.entropy(), distribution.log_prob(mode)

    sample, mode, log_prob, entropy, highest = act(outputs)
    assert contained(space, sample, (2, 3)) and contained(space, mode, (2, 3))
    assert log_prob.shape == entropy.shape == (2, 3)
    assert np.isfinite(log_prob).all() and np.isfinite(entropy).all()
    assert (np.asarray(highest) >= np.asarray(log_prob) - 1e-4).all()


def to_environment(space: spaces.Box, raw: float) -> np.ndarray:
    return np.asarray(action_adapter(space).to_environment(jnp.full(space.shape, raw)))


def test_a_box_maps_the_raw_range_onto_its_bounds_and_clips():
    space = spaces.Box(np.array([-2, 0, -np.inf, 1]), np.array([2, 10, np.inf, np.inf]), dtype=np.float64)
    np.testing.assert_allclose(to_environment(space, 0.0), [0, 5, 0, 1])
    np.testing.assert_allclose(to_environment(space, -1.0), [-2, 0, -1, 1])
    np.testing.assert_allclose(to_environment(space, 0.5), [1, 7.5, 0.5, 1])
    np.testing.assert_allclose(to_environment(space, 7.0), [2, 10, 7, 7])
    assert to_environment(spaces.Box(0, 255, (2, 2), np.uint8), 0.1).tolist() == [[140, 140], [140, 140]]
    wide = np.finfo(np.float32).max
    assert to_environment(spaces.Box(-wide, wide, (1,)), 0.25).tolist() == [0.25]


def test_bounds_that_float32_cannot_hold_are_kept():
    space = spaces.Box(-0.1, 0.1, (1,), np.float64)
    assert float(np.float32(0.1)) > 0.1
    assert space.contains(to_environment(space, 2.0)) and space.contains(to_environment(space, -2.0))


def test_outputs_are_locations_then_scales_in_the_order_of_the_leaves():
    space = spaces.Dict(b=spaces.Box(-1, 1, (2,)), a=spaces.Discrete(3, start=5), c=spaces.Box(-1, 1, ()))
    adapter = action_adapter(space)
    assert (adapter.locations, adapter.scales, adapter.size) == (6, 3, 9)
    outputs = jnp.array([0.0, 9.0, 0.0, 0.1, 0.2, 0.3, -50.0, -50.0, -50.0])
    action = adapter.to_environment(adapter.distribution(outputs).sample(KEY))
    assert action["a"] == 6
    np.testing.assert_allclose(action["b"], [0.1, 0.2], rtol=1e-6)
    np.testing.assert_allclose(action["c"], 0.3, rtol=1e-6)


def test_a_squashed_policy_stays_inside_its_bounds():
    space = spaces.Box(-2, 2, (50,))
    adapter = action_adapter(space, squashed=True)
    raw = adapter.distribution(jnp.full(adapter.size, 1.0)).sample(KEY)
    action = adapter.to_environment(raw)
    np.testing.assert_allclose(action, 2 * raw, rtol=1e-6)
    assert (jnp.abs(raw) < 1).all()


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(5), "Actions of Text"),
        (spaces.Dict(say=spaces.Text(5), go=spaces.Discrete(2)), r"at \['say'\] are not supported"),
        (spaces.Dict(), "empty"),
    ],
)
def test_spaces_that_no_policy_acts_in_are_named(space, message):
    with pytest.raises(WeftError, match=message):
        action_adapter(space)


def elements(space: gymnasium.Space) -> set[tuple[int, ...]]:
    """All elements of a finite space, each as the numbers of its leaves in a row."""
    ranges = []
    for leaf in jax.tree.leaves(tree_of(space)):
        if isinstance(leaf, spaces.Discrete):
            ranges.append(range(leaf.start, leaf.start + leaf.n))
        elif isinstance(leaf, spaces.MultiDiscrete):
            ranges += [range(a, a + n) for a, n in zip(leaf.start.ravel(), leaf.nvec.ravel(), strict=True)]
        else:
            ranges += [range(2)] * int(np.prod(leaf.shape))
    return set(itertools.product(*ranges))


@given(finite)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_joint_actions_are_every_element_once(space):
    try:
        actions = JointActions(space, "dqn", ["ppo"])
    except WeftError as error:
        assert "more than 4096; ppo can" in str(error)
        return
    batch = jax.tree.map(np.asarray, jax.jit(actions.action)(jnp.arange(actions.number)))
    shown = {tuple(int(x) for leaf in jax.tree.leaves(batch) for x in np.ravel(leaf[i])) for i in range(actions.number)}
    assert len(shown) == actions.number and shown == elements(space)
    assert contained(space, jax.tree.map(lambda leaf: leaf[:50], batch), (min(50, actions.number),))


def test_joint_actions_refuse_what_cannot_be_enumerated():
    with pytest.raises(WeftError, match=r"^dqn cannot take a continuous action space Box\(.*\); ppo or sac can\.$"):
        JointActions(spaces.Box(-1, 1, (2,)), "dqn", ["ppo", "sac"])
    with pytest.raises(WeftError, match=r"dqn cannot take .* it has 8192 joint actions, more than 4096; ppo can\.$"):
        JointActions(spaces.MultiBinary(13), "dqn", ["ppo"])
    assert JointActions(spaces.MultiBinary(12), "dqn", ["ppo"]).number == 4096
