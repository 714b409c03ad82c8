"""What experience an algorithm learns from. Declared by the algorithm, carried out by whoever records and serves it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.errors import WeftError


@dataclass(frozen=True)
class Unrolls:
    """On-policy: T consecutive steps of every environment, used once and thrown away. Batches are ``Trajectory``."""

    length: int
    """T, steps of each environment between two updates."""
    epochs: int = 1
    minibatches: int = 1
    whole: bool = False
    """Draw minibatches of whole unrolls (for recurrent memory) rather than of single steps."""
    return_discount: float | None = None
    """If set, the running discounted return of each environment is recorded as ``extras["running_return"]``, from
    which reward scaling takes its statistics."""

    def check(self, number: int) -> None:
        """Refuse minibatches that do not divide what ``number`` environments bring."""
        samples, what = (number, "environments") if self.whole else (number * self.length, "steps of a batch")
        if samples % self.minibatches:
            raise WeftError(
                f"{samples} {what} cannot be split into {self.minibatches} minibatches of equal size: "
                f"choose a number of minibatches that divides {samples}, or other environments."
            )


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

    @property
    def rows_needed(self) -> int:
        """Steps of each environment without which there may be nothing to sample: an item, and two that may not be
        learned from (the filler between two episodes, and the step at which a resumed run began a new one)."""
        return (self.sequence or self.n_step) + 3

    def check(self, number: int) -> None:
        """Refuse a replay too small for what ``number`` environments bring."""
        least = number * max(math.ceil(self.warmup / number), self.rows_needed)
        if self.capacity < least:
            raise WeftError(
                f"A replay of {self.capacity} steps is too small: it has to hold the warm-up of {self.warmup} steps "
                f"and {self.rows_needed} steps of each of {number} environments, so at least {least}."
            )


Experience = Unrolls | Replay
