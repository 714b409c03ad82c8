"""The layers that all networks are made of, with the initialisation conventional in reinforcement learning."""

from __future__ import annotations

import math

from flax import nnx

HIDDEN_GAIN = math.sqrt(2.0)
"""The gain of orthogonal initialisation for hidden layers."""


def kernel_initialiser(orthogonal: bool, gain: float) -> nnx.Initializer:
    """Return orthogonal initialisation with a gain (Saxe et al., 2014), or Flax's default, LeCun's normal."""
    return nnx.initializers.orthogonal(gain) if orthogonal else nnx.initializers.lecun_normal()


def linear(inputs: int, outputs: int, *, rngs: nnx.Rngs, orthogonal: bool, gain: float = HIDDEN_GAIN) -> nnx.Linear:
    """Return a fully connected layer, [..., inputs] -> [..., outputs]; its bias begins at 0."""
    return nnx.Linear(inputs, outputs, kernel_init=kernel_initialiser(orthogonal, gain), rngs=rngs)


def convolution(inputs: int, outputs: int, *, kernel: int, stride: int, rngs: nnx.Rngs, orthogonal: bool) -> nnx.Conv:
    """Return a square convolution without padding, [N, height, width, inputs] -> [N, ..., outputs]."""
    return nnx.Conv(
        inputs,
        outputs,
        (kernel, kernel),
        (stride, stride),
        padding="VALID",
        kernel_init=kernel_initialiser(orthogonal, HIDDEN_GAIN),
        rngs=rngs,
    )
