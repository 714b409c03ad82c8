"""What is done to the canonical stream of any environment: frame stacking, reward clipping, checks."""

from __future__ import annotations

import math
from typing import NoReturn, Protocol

import numpy as np
from gymnasium.spaces import Box, Space

from weft.envs.trees import leaves, map_space, map_tree
from weft.errors import TrainingDiverged, WeftError
from weft.types import Array, Spaces, Timestep, Tree

Rows = slice | np.ndarray
"""Which of the environments a timestep is of: all of them, or ids [B]."""


class Transform(Protocol):
    """A change to a stream of timesteps; what it remembers, it remembers for each environment."""

    def spaces(self, before: Spaces) -> Spaces:
        """Return the spaces after the change."""

    def __call__(self, timestep: Timestep, rows: Rows) -> Timestep:
        """Return the changed timestep of the environments ``rows``."""

    def save(self) -> Tree:
        """Return what it remembers."""

    def restore(self, saved: Tree) -> None:
        """Remember what ``save`` returned."""


class _Memoryless:
    def spaces(self, before: Spaces) -> Spaces:
        return before

    def save(self) -> Tree:
        return ()

    def restore(self, saved: Tree) -> None:
        pass


class ClipReward(_Memoryless):
    """Clip rewards to [-limit, limit]."""

    def __init__(self, limit: float) -> None:
        self._limit = limit

    def __call__(self, timestep: Timestep, rows: Rows) -> Timestep:
        """Return the timestep with its reward clipped."""
        return timestep._replace(reward=np.clip(timestep.reward, -self._limit, self._limit))


class CheckFinite(_Memoryless):
    """Stop at the first observation or reward that is NaN or infinite, before anything is learned from it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._steps = -1

    def __call__(self, timestep: Timestep, rows: Rows) -> Timestep:
        """Return the timestep as it is, or raise ``TrainingDiverged``."""
        self._steps += 1
        if not _is_finite(timestep.reward):
            self._stop("reward", timestep.reward, rows)
        if isinstance(timestep.observation, np.ndarray):
            if not _is_finite(timestep.observation):
                self._stop("observation", timestep.observation, rows)
        else:
            for path, leaf in leaves(timestep.observation):
                if not _is_finite(leaf):
                    self._stop(f"observation {path!r}", leaf, rows)
        return timestep

    def _stop(self, what: str, leaf: Array, rows: Rows) -> NoReturn:
        row = np.flatnonzero(~np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1))[0]
        number = np.arange(len(leaf))[row] if isinstance(rows, slice) else rows[row]
        raise TrainingDiverged(
            f"The {what} of environment {number} of {self._name} is not finite after {self._steps} steps: {leaf[row]}."
        )

    def save(self) -> Tree:
        """Return the number of steps."""
        return self._steps

    def restore(self, saved: Tree) -> None:
        """Count on from ``saved``."""
        self._steps = int(saved)


class FrameStack:
    """Show the latest ``length`` observations at once, oldest first, joined on the last axis.

    Images [H, W, C] become [H, W, length * C], pictures without channels [H, W] become [H, W, length], and vectors
    [D] become [length * D]. An episode begins with its first observation repeated.
    """

    def __init__(self, space: Space, number: int, length: int, name: str) -> None:
        for path, leaf in leaves(space):
            if not isinstance(leaf, Box):
                raise WeftError(f"Frames of {name} cannot be stacked: {path or 'the observation'} is not a Box.")
        self._length = length
        self._number = number
        self._frames = map_tree(lambda leaf: np.zeros((length, number, *_channels(leaf.shape)), leaf.dtype), space)

    def spaces(self, before: Spaces) -> Spaces:
        """Return the spaces with the stacked observation."""
        return before._replace(observation=map_space(self._stacked_space, before.observation))

    def _stacked_space(self, space: Box) -> Box:
        low, high = (
            np.concatenate([bound.reshape(_channels(space.shape))] * self._length, axis=-1)
            for bound in (space.low, space.high)
        )
        return Box(low, high, dtype=space.dtype)

    def __call__(self, timestep: Timestep, rows: Rows) -> Timestep:
        """Return the timestep with the latest observations, in ``final`` too."""
        final = timestep.final
        if final is not None:
            final = map_tree(lambda frames, latest: _join([*frames[1:, rows], latest]), self._frames, final)
        for (_, frames), (_, latest) in zip(leaves(self._frames), leaves(timestep.observation), strict=True):
            _push(frames, latest, timestep.first, rows)
        observation = map_tree(lambda frames: _join(list(frames[:, rows])), self._frames)
        return timestep._replace(observation=observation, final=final)

    def save(self) -> Tree:
        """Return the frames [length, B, ...]."""
        return map_tree(np.copy, self._frames)

    def restore(self, saved: Tree) -> None:
        """Take the frames that ``save`` returned."""
        self._frames = map_tree(np.copy, saved)


def _is_finite(array: Array) -> bool:
    """Whether no element is NaN or infinite. The squared norm tells, unless it overflows."""
    return array.dtype.kind != "f" or math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def _channels(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one frame: pictures [H, W] and scalars get a last axis to stack on."""
    return shape if len(shape) in (1, 3) else (*shape, 1)


def _join(frames: list[np.ndarray]) -> np.ndarray:
    """[..., C] each -> [..., length * C]. Frame by frame, which numpy does 3 times faster than ``concatenate``."""
    channels = frames[0].shape[-1]
    joined = np.empty((*frames[0].shape[:-1], len(frames) * channels), frames[0].dtype)
    for position, frame in enumerate(frames):
        joined[..., position * channels : (position + 1) * channels] = frame.reshape(frames[0].shape)
    return joined


def _push(frames: np.ndarray, latest: np.ndarray, first: Array, rows: Rows) -> None:
    """Put the latest observations [B, ...] into ``frames`` [length, number, ...]; a first one fills all of them."""
    latest = latest.reshape(len(latest), *frames.shape[2:])
    frames[:-1, rows] = frames[1:, rows]
    frames[-1, rows] = latest
    if first.any():
        frames[:, np.flatnonzero(first) if isinstance(rows, slice) else rows[first]] = latest[first]
