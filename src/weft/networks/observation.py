"""The observation adapter: from elements of any observation space to one vector of features."""

from __future__ import annotations

import math

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from gymnasium import spaces

from weft.errors import WeftError
from weft.networks.spaces import flatten
from weft.networks.torsos import image_torso
from weft.types import Tree

IMAGE_SIDE = 8
"""A Box with two sides of at least this many points, and channels, is an image; smaller ones are flattened."""


class ObservationAdapter(nnx.Module):
    """Encodes every leaf of an observation by its own kind and concatenates the results: [B, ...] -> [B, features].

    Images pass through a convolutional torso, other Boxes are flattened, discrete values become one-hot vectors.
    """

    def __init__(self, space: gymnasium.Space, *, rngs: nnx.Rngs, orthogonal: bool) -> None:
        named, structure = flatten(space)
        if not named:
            raise WeftError(f"The observation space {space} is empty: there is nothing to see.")
        self.structure = structure
        self.encoders = nnx.List([_encoder(leaf, place, rngs, orthogonal) for place, leaf in named])
        self.features = sum(encoder.features for encoder in self.encoders)

    @property
    def image(self) -> bool:
        """Whether the observation is one image and nothing else."""
        return len(self.encoders) == 1 and isinstance(self.encoders[0], Image)

    def __call__(self, observation: Tree) -> jax.Array:
        """Return the features [B, features] of a batch of observations."""
        leaves = self.structure.flatten_up_to(observation)
        encoded = [encoder(leaf) for encoder, leaf in zip(self.encoders, leaves, strict=True)]
        return encoded[0] if len(encoded) == 1 else jnp.concatenate(encoded, axis=-1)


class Flat(nnx.Module):
    """Numbers as they are, divided by their greatest value where they are bytes: [B, *shape] -> [B, prod(shape)]."""

    def __init__(self, space: spaces.Box | spaces.MultiBinary) -> None:
        self.features = math.prod(space.shape)
        self.scale = _scale(space)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Flatten."""
        return x.reshape(x.shape[0], self.features).astype(jnp.float32) * self.scale


class OneHot(nnx.Module):
    """One-hot vectors of all discrete values in a row: [B, *shape] -> [B, sum(sizes)]."""

    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete) -> None:
        sizes = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
        self.sizes = tuple(sizes.tolist())
        self.starts = tuple(np.ravel(space.start).tolist())
        self.features = sum(self.sizes)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Compare each value with all that it can take."""
        values = np.concatenate([start + np.arange(size) for start, size in zip(self.starts, self.sizes, strict=True)])
        owner = np.repeat(np.arange(len(self.sizes)), self.sizes)
        flat = x.reshape(x.shape[0], len(self.sizes))
        return (flat[:, owner] == values).astype(jnp.float32)


class Image(nnx.Module):
    """A convolutional torso behind whatever brings the image to [B, height, width, channels]."""

    def __init__(self, space: spaces.Box, layout: tuple[int, ...], *, rngs: nnx.Rngs, orthogonal: bool) -> None:
        self.layout = layout
        self.scale = _scale(space)
        self.pixels = self.scale == 1 / 255  # the convolution scales these itself, and is faster for it
        self.size = _image_size(space.shape, layout)
        self.torso = image_torso(self.size, rngs=rngs, orthogonal=orthogonal)
        self.features = self.torso.features

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, *shape] -> [B, features]."""
        x = x.transpose(0, *(axis + 1 for axis in self.layout)).reshape(x.shape[0], *self.size)
        return self.torso(x if self.pixels else x.astype(jnp.float32) * self.scale)


def is_image(space: gymnasium.Space) -> bool:
    """Whether observations are one picture and nothing else."""
    return isinstance(space, spaces.Box) and image_layout(space) is not None


def image_layout(space: spaces.Box) -> tuple[int, ...] | None:
    """Return the order of axes that makes the space's arrays (height, width, channels...), or None if no image.

    Channels are the last axis, or the first where that one is shorter (frames stacked in front); a picture in bytes
    may have none, and a stack of pictures both.

    >>> image_layout(spaces.Box(0, 255, (84, 84, 3), "uint8")), image_layout(spaces.Box(0, 255, (4, 84, 84), "uint8"))
    ((0, 1, 2), (1, 2, 0))
    """
    shape = space.shape
    match len(shape):
        case 2 if space.dtype == np.uint8:
            layout: tuple[int, ...] = (0, 1)
        case 3:
            layout = (1, 2, 0) if shape[0] < shape[2] else (0, 1, 2)
        case 4:
            layout = (1, 2, 0, 3)
        case _:
            return None
    return layout if min(shape[layout[0]], shape[layout[1]]) >= IMAGE_SIDE else None


def _image_size(shape: tuple[int, ...], layout: tuple[int, ...]) -> tuple[int, int, int]:
    height, width, *channels = (shape[axis] for axis in layout)
    return height, width, math.prod(channels)


def _scale(space: spaces.Box | spaces.MultiBinary) -> float:
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return 1.0
    return 1.0 / max(float(np.max(space.high)), 1.0)


def _encoder(space: gymnasium.Space, place: str, rngs: nnx.Rngs, orthogonal: bool) -> Flat | OneHot | Image:
    match space:
        case spaces.Box():
            layout = image_layout(space)
            return Flat(space) if layout is None else Image(space, layout, rngs=rngs, orthogonal=orthogonal)
        case spaces.Discrete() | spaces.MultiDiscrete():
            return OneHot(space)
        case spaces.MultiBinary():
            return Flat(space)
    where = f" at {place}" if place else ""
    raise WeftError(
        f"Observations of {space}{where} are not supported: a network sees Box, Discrete, MultiDiscrete and "
        "MultiBinary spaces and Dict and Tuple of these."
    )
