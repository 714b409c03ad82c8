"""The order of events: what a program cannot know from its inputs, recorded so that the run can be repeated.

There are two such choices: which writer a queue was read from, and which version of a mailbox was seen. Everything
else in a program follows from them (Kahn 1974, 'The semantics of a simple language for parallel programming').
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from weft.runtime.memory import Memory


class Order(Protocol):
    """The choices at one reading end."""

    @property
    def next(self) -> int | None:
        """The choice that has to be made next; None for whatever comes first."""

    def chose(self, choice: int) -> None:
        """Remember a choice."""


class AsTheyCome:
    """Any order, not remembered."""

    next = None

    def chose(self, choice: int) -> None:
        """Forget it."""


class Repeated:
    """The order of an earlier run, and after its end whatever comes first."""

    def __init__(self, choices: Iterable[int]) -> None:
        self._choices = deque(choices)

    @property
    def next(self) -> int | None:
        """The choice that was made then."""
        return self._choices[0] if self._choices else None

    def chose(self, choice: int) -> None:
        """Go on to the next one."""
        if self._choices:
            self._choices.popleft()


class Recorded:
    """Any order, written into memory from which whoever watches the program fetches it now and then."""

    ENTRIES = 1 << 14
    BYTES = 8 * (8 + ENTRIES)
    next = None

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._open()

    def _open(self) -> None:
        cells = self._memory.buffer.cast("q")
        self._counts, self._entries = cells[:8], cells[8:]  # counts: written, fetched

    def __getstate__(self) -> Memory:
        return self._memory

    def __setstate__(self, memory: Memory) -> None:
        self._memory = memory
        self._open()

    def chose(self, choice: int) -> None:
        """Write it down."""
        written = self._counts[0]
        self._entries[written % self.ENTRIES] = choice
        self._counts[0] = written + 1

    def fetch(self) -> list[int]:
        """Return what was written since the last call; raises ``OverflowError`` if that was more than fits."""
        written, fetched = self._counts[0], self._counts[1]
        if written - fetched > self.ENTRIES:
            raise OverflowError
        self._counts[1] = written
        return [self._entries[index % self.ENTRIES] for index in range(fetched, written)]
