import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from weft.errors import WeftError
from weft.networks import policy
from weft.networks.action import action_adapter
from weft.networks.layers import kernel_initialiser
from weft.networks.network import Network, NetworkSettings, build
from weft.types import Tree

KEY = jax.random.key(1)
STEPS, NUMBER = 4, 3
SMALL = functools.partial(NetworkSettings, hidden=(8,), memory_size=5, orthogonal=False)

VECTOR = spaces.Box(-1, 1, (3,))
OBSERVATIONS = {
    "vector": VECTOR,
    "picture": spaces.Box(0, 255, (36, 37, 2), np.uint8),
    "board": spaces.Box(0, 1, (10, 10, 4)),
    "discrete": spaces.Discrete(4),
    "nested": spaces.Dict(
        see=spaces.Tuple([spaces.Box(0, 1, (2, 2)), spaces.MultiDiscrete([2, 3])]), feel=spaces.MultiBinary(2)
    ),
}
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-2, 2, (2, 2)),
    "nested": spaces.Dict(
        go=spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.MultiBinary(2)]), say=spaces.MultiDiscrete([2, 3])
    ),
}


def sequence_of(space) -> Tree:
    """Observations [STEPS, NUMBER, ...]."""
    batched = batch_space(batch_space(space, NUMBER), STEPS)
    batched.seed(0)
    return batched.sample()


def actor_critic(observation_space, action_space, **settings) -> Network:
    shared = settings.pop("shared", True)
    torso = settings.pop("torso", None)
    heads = {"policy": policy.stochastic(action_adapter(action_space)), "value": policy.value()}
    return build(observation_space, heads, SMALL(**settings), torso, shared=shared)


def check(network: Network, observation: Tree) -> None:
    """Unrolling equals applying step by step, and every parameter has a finite gradient that is not zero."""
    first = np.zeros((STEPS, NUMBER), bool)
    first[2, 1] = True
    params, memory = network.init(KEY), network.memory(NUMBER)

    @jax.jit
    def unroll(params, memory):
        def loss(params):
            outputs, last = network.unroll(params, observation, memory, first)
            return sum(jnp.mean(jnp.square(leaf - 1.0)) for leaf in outputs.values()), (outputs, last)

        return jax.value_and_grad(loss, has_aux=True)(params)

    (_, (outputs, last)), gradients = unroll(params, memory)
    apply = jax.jit(network.apply)
    for t in range(STEPS):
        observation_t = jax.tree.map(lambda leaf, t=t: leaf[t], observation)
        outputs_t, memory = apply(params, observation_t, memory, first[t])
        for name, output in outputs_t.items():
            np.testing.assert_allclose(output, outputs[name][t], atol=1e-5, err_msg=f"{name} at {t}")
    assert jax.tree.structure(memory) == jax.tree.structure(last)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), memory, last)
    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
        place = jax.tree_util.keystr(path)
        assert np.isfinite(gradient).all(), place
        assert np.abs(gradient).max() > 0, place


@pytest.mark.parametrize(
    ("seen", "recurrent"),
    [
        ("vector", None),
        ("vector", "gru"),
        ("nested", "lstm"),
        ("discrete", None),
        ("picture", None),
        ("board", "gru"),
    ],
)
def test_every_observation_space_and_every_torso(seen, recurrent):
    space = OBSERVATIONS[seen]
    check(actor_critic(space, ACTIONS["nested"], recurrent=recurrent), sequence_of(space))


@pytest.mark.parametrize("done", ACTIONS)
def test_every_kind_of_action_space(done):
    check(actor_critic(VECTOR, ACTIONS[done], shared=False), sequence_of(VECTOR))


@pytest.mark.parametrize("recurrent", ["gru", "lstm"])
def test_memory_is_forgotten_where_an_episode_begins(recurrent):
    network = actor_critic(VECTOR, ACTIONS["discrete"], recurrent=recurrent, shared=False)
    params, observation = network.init(KEY), sequence_of(VECTOR)
    empty = jax.tree.leaves(network.memory(NUMBER))
    assert all(leaf.shape == (NUMBER, 5) and not leaf.any() for leaf in empty)
    full = jax.tree.map(jnp.ones_like, network.memory(NUMBER))
    apply = jax.jit(network.apply)
    never, always = jnp.zeros(NUMBER, bool), jnp.ones(NUMBER, bool)
    fresh, _ = apply(params, observation[0], network.memory(NUMBER), never)
    reset, _ = apply(params, observation[0], full, always)
    kept, _ = apply(params, observation[0], full, never)
    one, _ = apply(params, observation[0], full, never.at[1].set(True))
    np.testing.assert_array_equal(reset["value"], fresh["value"])
    assert (kept["value"] != fresh["value"]).all()
    np.testing.assert_array_equal(one["value"] == fresh["value"], [False, True, False])
    unrolled, _ = jax.jit(network.unroll)(params, observation, full, jnp.zeros((STEPS, NUMBER), bool).at[3].set(True))
    after, _ = apply(params, observation[3], network.memory(NUMBER), never)
    np.testing.assert_allclose(unrolled["value"][3], after["value"], atol=1e-6)


def test_heads_share_a_torso_or_have_their_own():
    shared, separate = (actor_critic(VECTOR, ACTIONS["discrete"], shared=shared) for shared in (True, False))
    observation, first = sequence_of(VECTOR)[0], jnp.zeros(NUMBER, bool)

    @functools.partial(jax.jit, static_argnums=0)
    def moved_by_value(network: Network, params):
        def value(params):
            return jnp.sum(network.apply(params, observation, (), first)[0]["value"])

        moved = jax.tree.map(lambda param, grad: param + grad, params, jax.grad(value)(params))
        before, after = (network.apply(p, observation, (), first)[0]["policy"] for p in (params, moved))
        return jnp.max(jnp.abs(after - before))

    assert moved_by_value(shared, shared.init(KEY)) > 0
    assert moved_by_value(separate, separate.init(KEY)) == 0


def test_shapes_and_scales_of_the_heads():
    continuous = action_adapter(spaces.Box(-1, 1, (2,)))
    heads = {
        "stochastic": policy.stochastic(continuous),
        "state dependent": policy.stochastic(continuous, state_dependent=True),
        "deterministic": policy.deterministic(2),
        "value": policy.value(),
        "action values": policy.action_values(4),
        "dueling": policy.dueling(4),
        "distributional": policy.distributional(4, 7),
    }
    network = build(VECTOR, heads, SMALL(hidden=(), orthogonal=True))
    params, observation = network.init(KEY), sequence_of(VECTOR)[0]
    outputs, _ = jax.jit(network.apply)(params, observation, (), jnp.zeros(NUMBER, bool))
    assert {name: output.shape[1:] for name, output in outputs.items()} == {
        "stochastic": (4,),
        "state dependent": (4,),
        "deterministic": (2,),
        "value": (),
        "action values": (4,),
        "dueling": (4,),
        "distributional": (4, 7),
    }
    outputs, parts = jax.tree.map(np.asarray, outputs), params["branches"][0]["heads"]
    assert parts["stochastic"]["log_std"].shape == (2,) and (outputs["stochastic"][:, 2:] == 0).all()
    assert "log_std" not in parts["state dependent"] and (outputs["state dependent"][:, 2:] != 0).all()
    for name in ("stochastic", "state dependent", "deterministic"):
        assert 0 < np.abs(outputs[name]).max() < 0.02, name
    for name in ("value", "action values", "dueling", "distributional"):
        assert np.abs(outputs[name]).max() > 0.1, name
    value = observation @ parts["dueling"]["value"]["kernel"] + parts["dueling"]["value"]["bias"]
    np.testing.assert_allclose(outputs["dueling"].mean(-1), value[:, 0], rtol=1e-5)
    assert outputs["dueling"].std(-1).min() > 0.01


@pytest.mark.parametrize("shape", [(64, 8), (8, 64), (16, 16), (3, 3, 4, 8)])
def test_orthogonal_initialisation(shape):
    kernel = jax.jit(lambda key: kernel_initialiser(True, 1.5)(key, shape))(KEY)
    matrix = np.asarray(kernel).reshape(-1, shape[-1]) / 1.5
    matrix = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(matrix.shape[1]), atol=2e-5)


def test_the_same_key_gives_the_same_parameters_and_another_gives_others():
    network = actor_critic(VECTOR, ACTIONS["discrete"], orthogonal=True)
    once, again, other = network.init(KEY), network.init(KEY), network.init(jax.random.key(2))
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), once, again))
    assert not jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), once, other))


class OwnTorso(nnx.Module):
    def __init__(self, observation_space, *, rngs):
        self.layer = nnx.Linear(observation_space.shape[0], 6, rngs=rngs)

    def __call__(self, observation):
        return jax.nn.relu(self.layer(observation))


def test_an_own_nnx_module_as_torso_under_memory():
    network = actor_critic(VECTOR, ACTIONS["discrete"], recurrent="gru", torso=OwnTorso, shared=False)
    check(network, sequence_of(VECTOR))


def test_an_own_linen_module_as_torso():
    module = linen.Sequential([linen.Dense(6), linen.tanh])
    network = actor_critic(VECTOR, ACTIONS["discrete"], torso=(module.init, module.apply))
    check(network, sequence_of(VECTOR))
    assert network.init(KEY)["branches"][0]["torso"]["params"]["params"]["layers_0"]["kernel"].shape == (3, 6)


def test_own_functions_as_torso():
    space = OBSERVATIONS["nested"]

    def init(key, observation):
        assert observation["feel"].shape == (1, 2)
        return [jax.random.normal(key, (2, 6)), (jnp.zeros(6),)]

    def apply(params, observation):
        weight, (bias,) = params
        return jnp.tanh(observation["feel"] @ weight + bias)

    check(actor_critic(space, ACTIONS["discrete"], torso=(init, apply)), sequence_of(space))


class Normalising(OwnTorso):
    def __init__(self, observation_space, *, rngs):
        super().__init__(observation_space, rngs=rngs)
        self.norm = nnx.BatchNorm(6, rngs=rngs)


@pytest.mark.parametrize(
    ("torso", "message"),
    [
        ((lambda key, x: {}, lambda params, x: x[:, 0]), r"\[3, features\]; this one returned \(3,\)"),
        ((lambda key, x: {}, lambda params, x: x.reshape(1, -1)), r"this one returned \(1, 9\)"),
        ((lambda key, x: {}, lambda params, x: (x, x)), r"this one returned \(\(3, 3\), \(3, 3\)\)"),
        (Normalising, "Normalising keeps state other than parameters"),
    ],
)
def test_a_torso_that_does_not_fit_is_explained(torso, message):
    with pytest.raises(WeftError, match=message):
        actor_critic(VECTOR, ACTIONS["discrete"], torso=torso)


def test_a_layer_without_units_is_refused():
    with pytest.raises(WeftError, match=r"network.hidden is \(8, 0\)"):
        build(VECTOR, {"value": policy.value()}, NetworkSettings(hidden=(8, 0)))
