"""The layers that all networks are made of, with the initialisation conventional in reinforcement learning."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from weft.networks import noise

HIDDEN_GAIN = math.sqrt(2.0)
"""The gain of orthogonal initialisation for hidden layers."""


def kernel_initialiser(orthogonal: bool, gain: float) -> nnx.Initializer:
    """Return orthogonal initialisation with a gain (Saxe et al., 2014), or Flax's default, LeCun's normal."""
    return _orthogonal(gain) if orthogonal else nnx.initializers.lecun_normal()


def _orthogonal(gain: float) -> nnx.Initializer:
    """Return the initialiser of uniformly distributed orthogonal matrices times ``gain``.

    The polar factor of a normal matrix, found by matrix products alone. The usual QR decomposition has the same
    distribution, but on the CPU it has JAX import SciPy's LAPACK: a third of the time until the weights are there.
    """

    def initialise(key: jax.Array, shape: Any, dtype: Any = jnp.float32, out_sharding: Any = None) -> jax.Array:
        rows, columns = math.prod(shape[:-1]), shape[-1]
        long, short = max(rows, columns), min(rows, columns)
        scale = 1.0 / (math.sqrt(long) + math.sqrt(short))
        matrix = _nearest_orthogonal(scale * noise.normal(key, (long, short)))
        return gain * (matrix if rows >= columns else matrix.T).reshape(shape).astype(dtype)

    return initialise


def _nearest_orthogonal(matrix: jax.Array) -> jax.Array:
    """Return the polar factor of [long, short] with singular values in (0, sqrt 3), by Newton-Schulz iteration."""
    identity = jnp.eye(matrix.shape[1])

    def error(matrix: jax.Array) -> jax.Array:
        return identity - jnp.matmul(matrix.T, matrix, precision="highest")

    def unfinished(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        _, left, iterations = state
        return (jnp.max(jnp.abs(left)) > 1e-5) & (iterations < 60)

    def improve(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        matrix, left, iterations = state
        matrix = matrix + 0.5 * jnp.matmul(matrix, left, precision="highest")
        return matrix, error(matrix), iterations + 1

    return jax.lax.while_loop(unfinished, improve, (matrix, error(matrix), jnp.int32(0)))[0]


def linear(inputs: int, outputs: int, *, rngs: nnx.Rngs, orthogonal: bool, gain: float = HIDDEN_GAIN) -> nnx.Linear:
    """Return a fully connected layer, [..., inputs] -> [..., outputs]; its bias begins at 0."""
    return nnx.Linear(inputs, outputs, kernel_init=kernel_initialiser(orthogonal, gain), rngs=rngs)
