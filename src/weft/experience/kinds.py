"""What experience an algorithm learns from. Declared by the algorithm, carried out by whoever records and serves it."""

from __future__ import annotations

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
    """Off-policy: steps are kept and sampled again and again. Batches are ``Replayed``: ``Transitions`` or, when
    ``sequence`` is set, a ``Trajectory`` of that many steps."""

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
    overlap: int = 0
    """Steps that a sequence shares with the one before it."""
    priority_exponent: float | None = None
    """If set, items are drawn with probabilities proportional to their priority to this power; if not, uniformly."""
    importance_exponent: float = 0.4
    """How far importance weights make up for that in the beginning; it rises to 1, all the way, over the run."""

    @property
    def period(self) -> int:
        """Steps of a stream from one item to the next."""
        return 1 if self.sequence is None else self.sequence - self.overlap

    @property
    def items(self) -> int:
        """Items kept."""
        return max(self.capacity // self.period, 1)

    def importance(self, progress: float) -> float:
        """Return the exponent of importance weights at a share of the run's steps."""
        return self.importance_exponent + progress * (1.0 - self.importance_exponent)

    def check(self, number: int) -> None:
        """Refuse a replay that cannot hold what it has to."""
        if self.sequence is not None and not 0 <= self.overlap < self.sequence:
            raise WeftError(
                f"Sequences of {self.sequence} steps cannot share {self.overlap} with the one before: at least 0, "
                f"at most {self.sequence - 1}."
            )
        if self.capacity < self.warmup:
            raise WeftError(
                f"A replay of {self.capacity} steps is too small to hold the warm-up of {self.warmup} steps."
            )


Experience = Unrolls | Replay
