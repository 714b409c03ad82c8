"""Random numbers for acting and for first weights: the bits of ``jax.random``, each draw one fused kernel.

On the CPU, JAX compiles Threefry as a loop, and each draw or fold becomes a dozen kernels. One of them goes unnoticed,
but programs that make several, as acting in a nested space does, take half as long again. Written out, the same rounds
are a single elementwise kernel, which also compiles faster.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


@functools.partial(jax.jit, inline=True)
def fold_in(key: jax.Array, data: jax.Array | int) -> jax.Array:
    """Return ``jax.random.fold_in(key, data)`` for a ``data`` of 32 bits."""
    words = _threefry(*_words(key), jnp.uint32(0), jnp.asarray(data).astype(jnp.uint32))
    return jax.random.wrap_key_data(jnp.stack(words), impl="threefry2x32")


@functools.partial(jax.jit, static_argnames="shape", inline=True)
def uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return ``jax.random.uniform(key, shape)``: float32 in [0, 1)."""
    index = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    high, low = _threefry(*_words(key), jnp.uint32(0), index)
    mantissa = ((high ^ low) >> 9) | jnp.uint32(0x3F800000)
    return jax.lax.bitcast_convert_type(mantissa, jnp.float32) - 1.0


@functools.partial(jax.jit, static_argnames="shape", inline=True)
def normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return ``jax.random.normal(key, shape)``: float32, by inverting the error function."""
    lowest = np.nextafter(np.float32(-1.0), np.float32(0.0))
    spread = jnp.maximum(lowest, uniform(key, shape) * (1.0 - lowest) + lowest)
    return np.float32(math.sqrt(2.0)) * jax.lax.erf_inv(spread)


def _words(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    data = jax.random.key_data(key)
    return data[0], data[1]


def _threefry(key_0: jax.Array, key_1: jax.Array, x_0: jax.Array, x_1: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011) of a counter (x_0, x_1) under a key."""
    schedule = (key_0, key_1, key_0 ^ key_1 ^ _PARITY)
    x_0, x_1 = x_0 + key_0, x_1 + key_1
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x_0 = x_0 + x_1
            x_1 = ((x_1 << rotation) | (x_1 >> (32 - rotation))) ^ x_0
        x_0 = x_0 + schedule[(group + 1) % 3]
        x_1 = x_1 + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return x_0, x_1
