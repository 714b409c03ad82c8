"""Use a network of your own between observations and heads: a Flax NNX module, or any (init, apply) pair.

The same from a shell in this folder: weft train ppo CartPole-v1 --torso own_network:Residual
"""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
from flax import nnx

import weft


class Residual(nnx.Module):
    """A residual block: [B, observation] -> [B, 64]."""

    def __init__(self, space: gymnasium.spaces.Box, *, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(space.shape[0], 64, rngs=rngs)
        self.second = nnx.Linear(64, 64, rngs=rngs)
        self.norm = nnx.LayerNorm(64, rngs=rngs)

    def __call__(self, observation: jax.Array) -> jax.Array:
        features = jax.nn.silu(self.first(observation))
        return features + jax.nn.silu(self.second(self.norm(features)))


def init(key: jax.Array, observation: jax.Array) -> dict[str, Any]:
    """Return the parameters; ``observation`` is a batch of one, for its shape."""
    return {"kernel": nnx.initializers.orthogonal()(key, (observation.shape[-1], 64)), "bias": jnp.zeros(64)}


def apply(params: dict[str, Any], observation: jax.Array) -> jax.Array:
    """Map observations [B, ...] to features [B, 64]."""
    return jnp.tanh(observation @ params["kernel"] + params["bias"])


def main() -> None:
    for torso in (Residual, (init, apply)):
        run = weft.train("ppo", "CartPole-v1", torso=torso, steps=12_000, settings={"learning_rate": 1e-3})
        print(f"mean return {run.evaluate(episodes=10).mean_return:.0f}")


if __name__ == "__main__":
    main()
