"""The convolution equals XLA's own, forward and backward, whatever the shapes, chunks and strides."""

import functools

import flax.nnx as nnx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.networks import convolution
from weft.networks.convolution import Convolution, convolve


def reference(images: jax.Array, kernel: jax.Array, strides: tuple[int, int]) -> jax.Array:
    return jax.lax.conv_general_dilated(
        images, kernel, strides, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, int]]:
    """Shapes of images and kernel, and strides: smaller, equal to and larger than the kernel."""
    kernel = draw(st.tuples(*[st.integers(1, 5)] * 2))
    spare = draw(st.tuples(*[st.integers(0, 8)] * 2))
    channels, features, batch = draw(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 9)))
    strides = draw(st.tuples(*[st.integers(1, 4)] * 2))
    return (batch, kernel[0] + spare[0], kernel[1] + spare[1], channels), (*kernel, channels, features), strides


def output_and_gradients(function, images, kernel):
    output, transpose = jax.vjp(function, images, kernel)
    return output, transpose(jnp.cos(output))


@settings(deadline=None, max_examples=12, derandomize=True)
@given(cases(), st.sampled_from([64, 1024, 2**22]))
def test_equals_xla_forward_and_backward(case, chunk_bytes):
    images_shape, kernel_shape, strides = case
    generator = np.random.default_rng(0)
    images = generator.normal(size=images_shape).astype(np.float32)
    kernel = generator.normal(size=kernel_shape).astype(np.float32)

    @jax.jit
    def both(images, kernel):
        functions = convolve, reference
        return [output_and_gradients(functools.partial(f, strides=strides), images, kernel) for f in functions]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "CHUNK_BYTES", chunk_bytes)
        found, expected = both(images, kernel)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), found, expected)


def test_pixels_are_scaled_to_one_and_never_need_a_gradient():
    layer = Convolution(4, 8, (8, 8), (4, 4), rngs=nnx.Rngs(0))
    pixels = np.random.default_rng(0).integers(0, 256, (2, 28, 28, 4), np.uint8)

    @nnx.jit
    @nnx.value_and_grad
    def loss_and_gradient(layer: Convolution, images: jax.Array) -> jax.Array:
        return jnp.sum(jnp.square(layer(images)))

    from_pixels = loss_and_gradient(layer, pixels)
    from_floats = loss_and_gradient(layer, np.float32(pixels / 255))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-4), from_pixels, from_floats)


def test_leading_axes_and_the_bias():
    layer = Convolution(2, 3, (3, 2), (1, 2), rngs=nnx.Rngs(0))
    layer.bias[...] = jnp.arange(3.0)
    images = jax.random.normal(jax.random.key(0), (5, 4, 7, 9, 2))
    expected = reference(images.reshape(20, 7, 9, 2), layer.kernel[...], (1, 2)).reshape(5, 4, 5, 4, 3) + jnp.arange(3)
    apply = nnx.jit(Convolution.__call__)
    np.testing.assert_allclose(apply(layer, images), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(apply(layer, images[0, 0]), expected[0, 0], rtol=1e-4, atol=1e-5)


def test_an_image_smaller_than_the_kernel_is_refused():
    layer = Convolution(1, 2, (8, 8), (4, 4), rngs=nnx.Rngs(0))
    with pytest.raises(WeftError, match="An image of 9x7 is too small for a convolution of 8x8"):
        layer(jnp.zeros((3, 9, 7, 1)))


def test_maps_over_several_networks_at_once():
    images = jax.random.normal(jax.random.key(0), (3, 4, 8, 8, 2))
    kernels = jax.random.normal(jax.random.key(1), (3, 3, 3, 2, 5))
    apply = functools.partial(convolve, strides=(2, 2))
    mapped = jax.jit(jax.vmap(apply))(images, kernels)
    single = jnp.stack([jax.jit(apply)(image, kernel) for image, kernel in zip(images, kernels, strict=True)])
    np.testing.assert_allclose(mapped, single, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("platform", "operation"), [("cpu", "dot_general"), ("cuda", "convolution"), ("tpu", "convolution")]
)
def test_each_platform_has_its_own_way(platform, operation):
    def loss(images, kernel):
        return jnp.sum(jnp.square(convolve(images, kernel, (2, 2))))

    step = jax.jit(jax.grad(loss, argnums=(0, 1))).trace(jnp.zeros((64, 20, 20, 4)), jnp.zeros((4, 4, 4, 8)))
    program = step.lower(lowering_platforms=(platform,)).as_text()
    found = [name for name in ("dot_general", "convolution") if f"stablehlo.{name}" in program]
    assert found == [operation]
