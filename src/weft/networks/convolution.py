"""Two-dimensional convolution that is fast on the CPU too.

XLA compiles a convolution for GPUs and TPUs well, but its CPU version spends most of a training step in the backward
pass. On the CPU a convolution is therefore written as matrix products, the one thing that XLA does at full speed there:

1. Blocks of ``strides`` pixels become channels (space to depth), which leaves a convolution of stride 1 with a smaller
   kernel of KH x KW taps, over a grid of blocks.
2. One product gives every block times every tap, ``[blocks, KH * KW * O]``; adding these up, each shifted by its tap,
   is the output ("kn2row": Vasudevan, Anderson & Gregg, 2017). No patches of the input are ever written.
3. The backward pass lays the output's gradient out in the same way, once, and is two more products.

The batch goes through in chunks, so that what lies between the steps stays in the cache.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from weft.errors import WeftError
from weft.types import Tree

CHUNK_BYTES = 4 * 2**20
"""What one chunk's product, or what it is a product of, may take: larger falls out of the cache, smaller is dominated
by starting threads."""


class Convolution(nnx.Module):
    """Convolution over images [..., H, W, in_features] without padding, giving [..., H', W', out_features].

    Integer images are pixels: 0..255 stands for 0..1. It is the kernel that is scaled, so that pixels stay bytes until
    they are multiplied.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        kernel_size: tuple[int, int],
        strides: tuple[int, int],
        *,
        rngs: nnx.Rngs,
        kernel_init: jax.nn.initializers.Initializer = nnx.initializers.lecun_normal(),  # noqa: B008
    ) -> None:
        self.kernel = nnx.Param(kernel_init(rngs.params(), (*kernel_size, in_features, out_features), jnp.float32))
        self.bias = nnx.Param(jnp.zeros(out_features))
        self.strides = strides

    def __call__(self, images: jax.Array) -> jax.Array:
        """[..., H, W, in_features], floats or integers -> [..., H', W', out_features]."""
        kernel = self.kernel[...]
        (height, width), (rows, columns) = images.shape[-3:-1], kernel.shape[:2]
        if height < rows or width < columns:
            raise WeftError(f"An image of {height}x{width} is too small for a convolution of {rows}x{columns}.")
        if jnp.issubdtype(images.dtype, jnp.integer):
            kernel = kernel / 255
        batch = images.reshape(-1, *images.shape[-3:])
        features = convolve(batch, kernel, self.strides) + self.bias[...]
        return features.reshape(*images.shape[:-3], *features.shape[1:])


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(images: jax.Array, kernel: jax.Array, strides: tuple[int, int]) -> jax.Array:
    """Convolve images [B, H, W, C] with a kernel [KH, KW, C, O], without padding, by what is fastest on the device."""
    return jax.lax.platform_dependent(
        images,
        kernel,
        cpu=functools.partial(_convolve_cpu, strides=strides),
        default=functools.partial(_convolve_xla, strides=strides),
    )


def _forward(
    images: jax.Array, kernel: jax.Array, strides: tuple[int, int]
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return convolve(images, kernel, strides), (images, kernel)


def _backward(
    strides: tuple[int, int], inputs: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array | None, jax.Array]:
    """Return the gradients of the images (None for integers) and of the kernel, given that of the output."""
    images, kernel = inputs
    gradients = jax.lax.platform_dependent(
        images,
        kernel,
        gradient,
        cpu=functools.partial(_gradients_cpu, strides=strides),
        default=functools.partial(_gradients_xla, strides=strides),
    )
    return (gradients.get("images"), gradients["kernel"])


convolve.defvjp(_forward, _backward)


def _convolve_xla(images: jax.Array, kernel: jax.Array, strides: tuple[int, int]) -> jax.Array:
    return jax.lax.conv_general_dilated(
        images.astype(kernel.dtype), kernel, strides, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _gradients_xla(
    images: jax.Array, kernel: jax.Array, gradient: jax.Array, strides: tuple[int, int]
) -> dict[str, jax.Array]:
    if jnp.issubdtype(images.dtype, jnp.integer):
        _, transpose = jax.vjp(lambda kernel: _convolve_xla(images, kernel, strides), kernel)
        return {"kernel": transpose(gradient)[0]}
    _, transpose = jax.vjp(lambda images, kernel: _convolve_xla(images, kernel, strides), images, kernel)
    return dict(zip(("images", "kernel"), transpose(gradient), strict=True))


class Grid(NamedTuple):
    """A convolution seen as one of stride 1 over a grid of blocks."""

    strides: tuple[int, int]
    """Pixels in a block."""
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    taps: tuple[int, int]
    """Blocks that the kernel spans."""
    output: tuple[int, int]

    @classmethod
    def of(cls, images: jax.Array, kernel: jax.Array, strides: tuple[int, int]) -> Grid:
        """Return the grid for images [B, H, W, C] and a kernel [KH, KW, C, O]."""
        height, width, *_ = kernel.shape
        taps = -(-height // strides[0]), -(-width // strides[1])
        output = (images.shape[1] - height) // strides[0] + 1, (images.shape[2] - width) // strides[1] + 1
        return cls(strides, images.shape[1:], kernel.shape, taps, output)

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks that the output depends on, down and across."""
        return self.output[0] + self.taps[0] - 1, self.output[1] + self.taps[1] - 1

    @property
    def width(self) -> int:
        """Columns of the product: every tap times every output feature."""
        return math.prod(self.taps) * self.kernel[3]

    @property
    def depth(self) -> int:
        """Rows of the kernel's matrix: every pixel of a block times every channel."""
        return math.prod(self.strides) * self.image[2]

    @property
    def shifts(self) -> list[tuple[int, int]]:
        """Where each tap lies, in the order of the product's columns."""
        return [(row, column) for row in range(self.taps[0]) for column in range(self.taps[1])]

    def chunks(self, batch: int) -> int:
        """Return in how many parts to take a batch: a power of two, which batches can mostly be divided by."""
        size = batch * math.prod(self.blocks) * max(self.width, self.depth) * 4
        return min(batch, 1 << max(0, math.ceil(math.log2(size / CHUNK_BYTES))))

    def to_rows(self, images: jax.Array, dtype: jnp.dtype) -> jax.Array:
        """[B, H, W, C] -> [B * blocks, block's pixels * C]."""
        (rows, columns), (down, across), channels = self.blocks, self.strides, self.image[2]
        images = _fit(images, (len(images), rows * down, columns * across, channels))
        blocks = images.reshape(-1, rows, down, columns, across * channels).swapaxes(2, 3)
        return blocks.reshape(-1, down * across * channels).astype(dtype)

    def from_rows(self, blocks: jax.Array) -> jax.Array:
        """Undo ``to_rows``: pixels that no output depends on are 0."""
        (rows, columns), (down, across), channels = self.blocks, self.strides, self.image[2]
        images = blocks.reshape(-1, rows, columns, down, across * channels).swapaxes(2, 3)
        images = images.reshape(-1, rows * down, columns * across, channels)
        return _fit(images, (len(images), *self.image))

    def to_matrix(self, kernel: jax.Array) -> jax.Array:
        """[KH, KW, C, O] -> [block's pixels * C, taps * O]."""
        (rows, columns), (down, across), (_, _, channels, features) = self.taps, self.strides, self.kernel
        kernel = _fit(kernel, (rows * down, columns * across, channels, features))
        kernel = kernel.reshape(rows, down, columns, across, channels, features).transpose(1, 3, 4, 0, 2, 5)
        return kernel.reshape(down * across * channels, self.width)

    def from_matrix(self, matrix: jax.Array) -> jax.Array:
        """Undo ``to_matrix``."""
        (rows, columns), (down, across), (_, _, channels, features) = self.taps, self.strides, self.kernel
        kernel = matrix.reshape(down, across, channels, rows, columns, features).transpose(3, 0, 4, 1, 2, 5)
        return _fit(kernel.reshape(rows * down, columns * across, channels, features), self.kernel)

    def add_taps(self, products: jax.Array) -> jax.Array:
        """[B * blocks, taps * O] -> [B, H', W', O], the sum over taps, each read from where it lies."""
        (height, width), features = self.output, self.kernel[3]
        products = products.reshape(-1, *self.blocks, self.width)
        parts = [
            products[:, row : row + height, column : column + width, index * features : (index + 1) * features]
            for index, (row, column) in enumerate(self.shifts)
        ]
        return functools.reduce(jnp.add, parts)

    def spread_taps(self, gradient: jax.Array) -> jax.Array:
        """[B, H', W', O] -> [B * blocks, taps * O], the transpose of ``add_taps``."""
        (rows, columns), (down, across) = self.blocks, (self.taps[0] - 1, self.taps[1] - 1)
        halo = jnp.pad(gradient, ((0, 0), (down, down), (across, across), (0, 0)))
        parts = [
            halo[:, down - row : down - row + rows, across - column : across - column + columns]
            for row, column in self.shifts
        ]
        return jnp.concatenate(parts, axis=-1).reshape(-1, self.width)


def _convolve_cpu(images: jax.Array, kernel: jax.Array, strides: tuple[int, int]) -> jax.Array:
    grid = Grid.of(images, kernel, strides)
    matrix = grid.to_matrix(kernel)

    def forward(_: tuple[()], images: jax.Array) -> tuple[tuple[()], jax.Array]:
        return (), grid.add_taps(grid.to_rows(images, kernel.dtype) @ matrix)

    return _scan(forward, (), images, grid.chunks(len(images)))[1]


def _gradients_cpu(
    images: jax.Array, kernel: jax.Array, gradient: jax.Array, strides: tuple[int, int]
) -> dict[str, jax.Array]:
    grid = Grid.of(images, kernel, strides)
    matrix = grid.to_matrix(kernel)

    def backward(total: jax.Array, chunk: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
        images, gradient = chunk
        spread = grid.spread_taps(gradient)
        # XLA would fold this transpose into the product, which is then 2 to 4 times slower.
        columns = jax.lax.optimization_barrier(grid.to_rows(images, kernel.dtype).T)
        total = total + columns @ spread
        if jnp.issubdtype(images.dtype, jnp.integer):
            return total, {}
        return total, {"images": grid.from_rows(spread @ matrix.T)}

    total, gradients = _scan(backward, jnp.zeros_like(matrix), (images, gradient), grid.chunks(len(images)))
    return gradients | {"kernel": grid.from_matrix(total)}


def _fit(array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Cut an array to a shape, or extend it with zeros at the end of each axis."""
    array = array[tuple(slice(size) for size in shape)]
    return jnp.pad(array, [(0, size - now) for size, now in zip(shape, array.shape, strict=True)])


def _scan(body: Callable[[Tree, Tree], tuple[Tree, Tree]], carry: Tree, arrays: Tree, chunks: int) -> tuple[Tree, Tree]:
    """Scan over ``arrays`` [B, ...] in chunks, filled up with zeros; ``body`` takes and gives [B / chunks, ...]."""
    if chunks == 1:
        return body(carry, arrays)
    batch = len(jax.tree.leaves(arrays)[0])
    size = -(-batch // chunks)
    arrays = jax.tree.map(lambda leaf: _fit(leaf, (chunks * size, *leaf.shape[1:])), arrays)
    arrays = jax.tree.map(lambda leaf: leaf.reshape(chunks, size, *leaf.shape[1:]), arrays)
    carry, outputs = jax.lax.scan(body, carry, arrays)
    return carry, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:batch], outputs)
