"""When a table takes an item and when it serves one, so that neither side runs away from the other.

The rules are those of Reverb's rate limiter (Cassirer et al. 2021, 'Reverb: A Framework for Experience Replay',
arXiv:2102.04736, section 3.4): what counts is diff = inserts * samples_per_insert - samples.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from weft.errors import WeftError
from weft.types import Tree


@dataclass(frozen=True)
class Limiter:
    """Bounds of diff, which inserting an item raises by ``samples_per_insert`` and sampling one lowers by 1.

    They count from ``min_size`` items on; with fewer, inserting is always allowed and sampling never.
    """

    min_size: int
    samples_per_insert: float = 1.0
    min_diff: float = -math.inf
    max_diff: float = math.inf

    def __post_init__(self) -> None:
        if self.min_size < 1:
            raise WeftError(f"The least number of items to sample from must be at least 1, not {self.min_size}.")
        ratio = self.samples_per_insert
        if not 0 < ratio < math.inf:
            raise WeftError(f"The samples per insert must be a finite number above 0, not {ratio}.")
        whole = all(float(number).is_integer() for number in (ratio, self.min_diff, self.max_diff))
        least = ratio if whole else 2 * max(1.0, ratio)  # 1 + ratio, but for rounding
        if not self.max_diff - self.min_diff >= least:
            raise WeftError(
                f"The bounds {self.min_diff} and {self.max_diff} must be at least {least} apart: any closer, and a "
                f"table of {ratio} samples per insert could come to where it may neither insert nor sample."
            )

    @property
    def centre(self) -> float:
        """A diff at which neither side has to wait; infinite where nothing holds back inserting."""
        if self.min_diff == -math.inf:
            return self.max_diff - self.samples_per_insert
        return (self.min_diff + self.max_diff) / 2


def minimum_size(number: int) -> Limiter:
    """Sample as often as one likes, once there are ``number`` items."""
    return Limiter(number)


def samples_per_insert(ratio: float, min_size: int, error_buffer: float | tuple[float, float]) -> Limiter:
    """Sample every item ``ratio`` times in the mean, once there are ``min_size`` items.

    How far the two sides may be apart is given by ``error_buffer``: so many samples too few or too many, or else the
    two bounds of diff themselves.
    """
    if isinstance(error_buffer, tuple):
        return Limiter(min_size, ratio, *error_buffer)
    least = 2 * max(1, ratio)
    if not error_buffer >= least:
        raise WeftError(
            f"An error buffer of {error_buffer} is too small for {ratio} samples per insert, as inserting and sampling "
            f"would wait for each other: it must be at least {least}."
        )
    centre = ratio * min_size
    return Limiter(min_size, ratio, centre - error_buffer, centre + error_buffer)


def queue(number: int) -> Limiter:
    """Sample every item once, and hold at most ``number`` that have not been sampled yet."""
    if number < 1:
        raise WeftError(f"A queue must have room for at least 1 item, not {number}.")
    return Limiter(1, 1.0, 0.0, float(number))


def stack(number: int) -> Limiter:
    """Hold back like ``queue``; that the newest item is served first is for the selectors to see to."""
    return queue(number)


class Flow:
    """Counts what went into a table and what was sampled of it, and says how much more may be."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.inserts = 0
        self.samples = 0

    @property
    def diff(self) -> float:
        """What the limiter keeps within bounds."""
        return self._diff(self.inserts, self.samples)

    def may_insert(self, size: int, number: int = 1) -> int:
        """Return how many of ``number`` items may be inserted now, one after the other, into a table of ``size``."""
        free = min(number, max(0, self.limiter.min_size - size))
        most = self.limiter.max_diff
        return free + bisect_left(
            range(free, number), True, key=lambda done: self._diff(self.inserts + done + 1, self.samples) > most
        )

    def may_sample(self, size: int, number: int = 1) -> int:
        """Return how many of ``number`` items may be sampled now, one after the other, from a table of ``size``."""
        if size < self.limiter.min_size:
            return 0
        least = self.limiter.min_diff
        return bisect_left(
            range(number), True, key=lambda done: self._diff(self.inserts, self.samples + done + 1) < least
        )

    def inserted(self, number: int) -> None:
        """Count items that were inserted."""
        self.inserts += number

    def sampled(self, number: int) -> None:
        """Count items that were sampled."""
        self.samples += number

    def save(self) -> Tree:
        """Return the counters."""
        return {"inserts": self.inserts, "samples": self.samples}

    def restore(self, saved: Tree, size: int, same: bool) -> None:
        """Continue from what ``save`` returned, with a table of ``size`` items; ``same`` if the limiter is the same.

        Old counts mean nothing to another limiter, and could have it wait for ever. It counts the items there are as
        inserted and not sampled, or, were that out of its bounds, as sampled so often that neither side has to wait.
        """
        if same:
            self.inserts, self.samples = int(saved["inserts"]), int(saved["samples"])
            return
        limiter = self.limiter
        self.inserts, self.samples = size, 0
        if not limiter.min_diff <= self.diff <= limiter.max_diff:
            self.samples = round(max(0.0, self.diff - limiter.centre))

    def _diff(self, inserts: int, samples: int) -> float:
        return inserts * self.limiter.samples_per_insert - samples
