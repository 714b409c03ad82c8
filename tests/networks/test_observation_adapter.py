import jax
import numpy as np
import pytest
from flax import nnx
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from nested_spaces import anything

from weft.errors import WeftError
from weft.networks.observation import ObservationAdapter, image_layout
from weft.types import Tree


def encode(space, observation: Tree) -> np.ndarray:
    """Features of a batch of observations."""

    @jax.jit
    def encode(observation):
        adapter = ObservationAdapter(space, rngs=nnx.Rngs(0), orthogonal=False)
        features = adapter(observation)
        assert features.shape[-1] == adapter.features
        return features

    return np.asarray(encode(observation))


@given(anything)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_any_nested_space_becomes_one_vector(space):
    batched = batch_space(space, 3)
    batched.seed(0)
    features = encode(space, batched.sample())
    assert features.ndim == 2 and features.shape[0] == 3 and features.dtype == np.float32


def test_discrete_values_become_one_hot_vectors():
    space = spaces.Dict(
        a=spaces.Discrete(3, start=-1), b=spaces.MultiDiscrete([2, 3], start=[0, 5]), c=spaces.MultiBinary(2)
    )
    features = encode(space, {"a": np.array([1]), "b": np.array([[0, 7]]), "c": np.array([[1, 0]], np.int8)})
    np.testing.assert_array_equal(features, [[0, 0, 1, 1, 0, 0, 0, 1, 1, 0]])


def test_floats_stay_as_they_are_and_bytes_are_scaled():
    space = spaces.Tuple(
        [spaces.Box(-9, 9, (2,)), spaces.Box(0, 255, (2,), np.uint8), spaces.Box(0, 1, (2,), np.uint8)]
    )
    observation = (np.array([[-7.0, 3.5]]), np.array([[0, 255]], np.uint8), np.array([[0, 1]], np.uint8))
    np.testing.assert_allclose(encode(space, observation), [[-7, 3.5, 0, 1, 0, 1]])


@pytest.mark.parametrize(
    ("shape", "dtype", "layout"),
    [
        ((84, 84, 3), np.uint8, (0, 1, 2)),
        ((84, 84, 1), np.float32, (0, 1, 2)),
        ((4, 84, 84), np.uint8, (1, 2, 0)),
        ((4, 64, 96, 3), np.uint8, (1, 2, 0, 3)),
        ((84, 84), np.uint8, (0, 1)),
        ((84, 84), np.float32, None),
        ((10, 5), np.float32, None),
        ((7, 7, 3), np.uint8, None),
        ((10, 10, 4), np.float32, (0, 1, 2)),
        ((128,), np.uint8, None),
    ],
)
def test_what_counts_as_an_image(shape, dtype, layout):
    assert image_layout(spaces.Box(0, 255, shape, dtype)) == layout


def test_an_image_is_the_same_with_its_channels_in_front_or_as_floats():
    image = np.random.default_rng(0).integers(0, 256, (2, 12, 10, 3), np.uint8)
    last = encode(spaces.Box(0, 255, (12, 10, 3), np.uint8), image)
    floats = encode(spaces.Box(0, 1, (12, 10, 3), np.float32), image.astype(np.float32) / 255)
    stacked = encode(spaces.Box(0, 255, (3, 12, 10, 1), np.uint8), image.transpose(0, 3, 1, 2)[..., None])
    np.testing.assert_allclose(floats, last, atol=1e-5)
    np.testing.assert_allclose(stacked, last, atol=1e-5)
    assert last.shape == (2, 128) and last.std() > 0.01


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Tuple([spaces.Discrete(2), spaces.Text(5)]), r"Observations of Text.* at \[1\] are not supported"),
        (spaces.Sequence(spaces.Discrete(2)), "Observations of Sequence"),
        (spaces.Dict(), "empty"),
    ],
)
def test_spaces_that_no_network_sees_are_named(space, message):
    with pytest.raises(WeftError, match=message):
        ObservationAdapter(space, rngs=nnx.Rngs(0), orthogonal=False)
