"""Small pieces of losses that several algorithms share."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from weft.types import Array


def masked_mean(values: Array, mask: Array) -> jax.Array:
    """Mean of ``values`` where ``mask`` is set; 0 when it is set nowhere."""
    return jnp.where(mask, values, 0.0).sum() / jnp.maximum(mask.sum(), 1)


def actor_critic_loss(
    policy_loss: jax.Array, value_loss: jax.Array, entropy: jax.Array, value_cost: float, entropy_cost: float
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Return the weighted sum that actor-critic algorithms minimise, and its parts as metrics."""
    total = policy_loss + value_cost * value_loss - entropy_cost * entropy
    return total, {"loss": total, "policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}


def masked_standardised(values: Array, mask: Array) -> Array:
    """Shift and scale ``values`` to mean 0 and standard deviation 1 over the entries where ``mask`` is set."""
    mean = masked_mean(values, mask)
    variance = masked_mean(jnp.square(values - mean), mask)
    return (values - mean) * jax.lax.rsqrt(variance + 1e-8)


def huber(error: Array, threshold: float) -> jax.Array:
    """Quadratic within ``threshold`` of 0, linear beyond, with gradients in [-threshold, threshold] (Huber 1964)."""
    magnitude = jnp.abs(error)
    quadratic = jnp.minimum(magnitude, threshold)
    return 0.5 * jnp.square(quadratic) + threshold * (magnitude - quadratic)
