"""What experience an algorithm learns from. Declared by the algorithm, carried out by whoever records and serves it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unrolls:
    """On-policy: T consecutive steps of every environment, used once and thrown away. Batches are ``Trajectory``."""

    length: int
    """T, steps of each environment between two updates."""
    epochs: int = 1
    minibatches: int = 1
    return_discount: float | None = None
    """If set, the running discounted return of each environment is recorded as ``extras["running_return"]``, from
    which reward scaling takes its statistics."""


@dataclass(frozen=True)
class Replay:
    """Off-policy: steps are kept and sampled again and again. Batches are ``Transitions`` or, when ``sequence`` is
    set, ``Trajectory`` of that many steps."""

    capacity: int
    """Steps kept, over all environments."""
    batch: int
    """Items in a sampled batch."""
    warmup: int
    """Steps recorded before the first update."""
    steps_per_update: float = 1.0
    """Recorded steps for one update; below 1 for several updates a step."""
    n_step: int = 1
    discount: float = 0.99
    """Used to sum n rewards into one."""
    sequence: int | None = None


Experience = Unrolls | Replay
