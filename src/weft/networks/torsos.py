"""Torsos: from an encoded observation to features. Fully connected, convolutional and recurrent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx

from weft.networks.convolution import Convolution
from weft.networks.layers import HIDDEN_GAIN, kernel_initialiser, linear
from weft.types import Array, Tree

Activation: TypeAlias = Literal["tanh", "relu", "elu", "silu"]


class MLP(nnx.Module):
    """Fully connected layers, each followed by the activation: [..., inputs] -> [..., features]."""

    def __init__(
        self, inputs: int, hidden: Sequence[int], activation: Activation, *, rngs: nnx.Rngs, orthogonal: bool
    ) -> None:
        sizes = [inputs, *hidden]
        self.features = sizes[-1]
        self.activation = activation
        self.layers = nnx.List(
            [linear(before, after, rngs=rngs, orthogonal=orthogonal) for before, after in pairwise(sizes)]
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., inputs] -> [..., features]."""
        activation: Callable[[jax.Array], jax.Array] = getattr(jax.nn, self.activation)
        for layer in self.layers:
            x = activation(layer(x))
        return x


class ConvolutionalTorso(nnx.Module):
    """Convolutions and one fully connected layer, all with ReLU: [N, height, width, channels] -> [N, features]."""

    def __init__(
        self,
        image: tuple[int, int, int],
        layers: Sequence[tuple[int, int, int]],
        features: int,
        *,
        rngs: nnx.Rngs,
        orthogonal: bool,
    ) -> None:
        """``layers`` are (channels, kernel, stride) of the convolutions."""
        height, width, channels = image
        self.convolutions: nnx.List[Convolution] = nnx.List([])
        initialiser = kernel_initialiser(orthogonal, HIDDEN_GAIN)
        for outputs, kernel, stride in layers:
            self.convolutions.append(
                Convolution(channels, outputs, (kernel, kernel), (stride, stride), rngs=rngs, kernel_init=initialiser)
            )
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            channels = outputs
        self.features = features
        self.linear = linear(height * width * channels, features, rngs=rngs, orthogonal=orthogonal)

    def __call__(self, image: jax.Array) -> jax.Array:
        """[N, height, width, channels], floats or pixels in bytes -> [N, features]."""
        for layer in self.convolutions:
            image = jax.nn.relu(layer(image))
        return jax.nn.relu(self.linear(image.reshape(image.shape[0], -1)))


NATURE_SIDE = 36
"""The smallest side that the Nature network can take."""


def image_torso(image: tuple[int, int, int], *, rngs: nnx.Rngs, orthogonal: bool) -> ConvolutionalTorso:
    """Return the network of Mnih et al. (Nature, 2015) or, for small images, of MinAtar (Young & Tian, 2019)."""
    if min(image[:2]) >= NATURE_SIDE:
        layers, features = [(32, 8, 4), (64, 4, 2), (64, 3, 1)], 512
    else:
        layers, features = [(16, 3, 1)], 128
    return ConvolutionalTorso(image, layers, features, rngs=rngs, orthogonal=orthogonal)


class Recurrent(nnx.Module):
    """A recurrent layer over a sequence whose memory is set to zero wherever an episode begins.

    Subclasses say how many gates there are and how they make the next memory. The inputs' share of the gates is one
    matrix product for the whole sequence; only the memory's share is computed step by step.
    """

    gates: int

    def __init__(self, inputs: int, size: int, *, rngs: nnx.Rngs, orthogonal: bool) -> None:
        self.features = size
        self.from_input = linear(inputs, self.gates * size, rngs=rngs, orthogonal=orthogonal, gain=1.0)
        self.from_memory = linear(size, self.gates * size, rngs=rngs, orthogonal=True, gain=1.0)

    @staticmethod
    def memory(number: int, size: int) -> Tree:
        """Return the memory that episodes begin with, zeros [number, ...]."""
        raise NotImplementedError

    def step(self, projected: jax.Array, memory: Tree) -> tuple[jax.Array, Tree]:
        """(gates' share of the inputs [B, gates * size], memory) -> (output [B, size], memory)."""
        raise NotImplementedError

    def __call__(self, x: jax.Array, memory: Tree, first: Array) -> tuple[jax.Array, Tree]:
        """(x [T, B, inputs], memory [B, ...], first [T, B]) -> (output [T, B, size], memory after the last step)."""

        def advance(memory: Tree, inputs: tuple[jax.Array, Array]) -> tuple[Tree, jax.Array]:
            projected, first_t = inputs
            kept = jax.tree.map(lambda leaf: jnp.where(first_t[:, None], 0.0, leaf), memory)
            output, memory = self.step(projected, kept)
            return memory, output

        projected = self.from_input(x)
        if x.shape[0] == 1:
            memory, output = advance(memory, (projected[0], first[0]))
            return output[None], memory
        memory, outputs = jax.lax.scan(advance, memory, (projected, first))
        return outputs, memory


class GRU(Recurrent):
    """Gated recurrent unit (Cho et al., 2014); the memory is its output, [B, size]."""

    gates = 3

    @staticmethod
    def memory(number: int, size: int) -> jax.Array:
        """Return zeros [number, size]."""
        return jnp.zeros((number, size))

    def step(self, projected: jax.Array, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Update the memory towards a candidate that sees it through the reset gate."""
        reset_x, update_x, candidate_x = jnp.split(projected, 3, axis=-1)
        reset_h, update_h, candidate_h = jnp.split(self.from_memory(memory), 3, axis=-1)
        update = jax.nn.sigmoid(update_x + update_h)
        candidate = jnp.tanh(candidate_x + jax.nn.sigmoid(reset_x + reset_h) * candidate_h)
        memory = update * memory + (1.0 - update) * candidate
        return memory, memory


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997; Gers et al., 2000); the memory is (output, cell).

    The forget gate begins nearly open, by a bias of 1 (Jozefowicz et al., 2015).
    """

    gates = 4

    @staticmethod
    def memory(number: int, size: int) -> tuple[jax.Array, jax.Array]:
        """Return zeros, two of [number, size]."""
        return jnp.zeros((number, size)), jnp.zeros((number, size))

    def step(
        self, projected: jax.Array, memory: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """Forget and write the cell, then show it through the output gate."""
        output, cell = memory
        write, forget, show, candidate = jnp.split(projected + self.from_memory(output), 4, axis=-1)
        cell = jax.nn.sigmoid(forget + 1.0) * cell + jax.nn.sigmoid(write) * jnp.tanh(candidate)
        output = jax.nn.sigmoid(show) * jnp.tanh(cell)
        return output, (output, cell)
