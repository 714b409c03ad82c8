"""What can be chosen about the environments of a run; the fields become command line flags."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from weft.errors import WeftError

Argument = bool | int | float | str


@dataclass(frozen=True)
class AtariSettings:
    """Preprocessing of Atari games (Machado et al. 2018); sticky actions are part of the ``ALE/...-v5`` ids."""

    frame_skip: int = 4
    """Frames that each action is repeated for; the last two are merged by their maximum."""
    size: int = 84
    """Height and width of the grey picture."""
    noop_max: int = 30
    """An episode begins with a random number of idle frames, up to this many."""
    life_loss: bool = False
    """End the episode, for learning, when a life is lost."""


@dataclass(frozen=True)
class EnvironmentSettings:
    """How the environments of a run are made."""

    vectorization: Literal["auto", "sync", "async"] = "auto"
    """How Gymnasium environments become a batch: one after the other (sync), a process each (async), or the
    environment's own vector implementation where it has one and there are several, otherwise sync (auto)."""
    frame_stack: int | None = None
    """The policy sees this many of the latest observations, stacked on the last axis; unset: 4 for Atari, else 1."""
    clip_reward: float | None = None
    """Clip rewards to [-x, x]. Returns are then reported from clipped rewards, except in evaluations."""
    time_limit: int | None = None
    """Truncate episodes after this many steps, instead of the environment's own limit."""
    arguments: dict[str, Argument] = field(default_factory=dict)
    """Keyword arguments for the environment, for example ``continuous True`` for LunarLander-v3."""
    atari: AtariSettings = field(default_factory=AtariSettings)

    def __post_init__(self) -> None:
        for name in ("frame_stack", "clip_reward", "time_limit"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise WeftError(f"{name} must be more than 0, not {value}.")

    def evaluation(self) -> EnvironmentSettings:
        """Return the same environments as they count when scores are reported: true rewards, whole episodes."""
        return replace(self, clip_reward=None, atari=replace(self.atari, life_loss=False))
