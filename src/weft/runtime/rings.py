"""Queues in memory: slots in a ring, between one writer and one reader that may be in different processes.

What is written is counted and never taken back, so that whoever dies leaves a ring that the next life can go on with:
a slot that was reserved but not sent is written again, a message that was taken but not released is taken again.
"""

from __future__ import annotations

from typing import Protocol

from weft.runtime import slots
from weft.runtime.memory import Memory
from weft.types import Tree

_LINE = 8
"""Numbers in a cache line: the two ends write to lines of their own."""
_COMMITTED, _TAKEN, _RELEASED = 0, _LINE, _LINE + 1
_HEADER = 2 * _LINE * 8
_SENT, _GONE_OUT, _GIVEN_BACK, _DROPPED, _PLACES = range(5)


class Ring(Protocol):
    """What both kinds of ring do."""

    def free(self) -> bool:
        """Whether a slot can be written."""

    def slot(self) -> Tree:
        """Return the slot to be written next; the writer calls it once for each message, if ``free``."""

    def commit(self) -> None:
        """Let the reader have that slot."""

    def depth(self) -> int:
        """Messages that are waiting to be taken."""

    def take(self) -> Tree:
        """Return the oldest message that was not taken; only if there is one."""

    def release(self) -> None:
        """Give back the slot of the oldest message that was taken."""

    def recover(self) -> None:
        """Begin as a new reader: what was taken but not released is taken again."""

    @property
    def dropped(self) -> int:
        """Messages that were never taken."""


class BlockingRing:
    """A ring whose writer waits while it is full. It needs no lock: each counter has one writer."""

    def __init__(self, memory: Memory, layout: Tree, capacity: int) -> None:
        buffer = memory.buffer
        self._capacity = capacity
        self._counters = buffer[:_HEADER].cast("q")
        size = slots.size_of(layout)
        self._slots = [slots.view(layout, buffer, _HEADER + index * size) for index in range(capacity)]

    @staticmethod
    def bytes_needed(layout: Tree, capacity: int) -> int:
        """Return the size of the memory of a ring."""
        return _HEADER + capacity * slots.size_of(layout)

    dropped = 0

    def free(self) -> bool:
        """Whether a slot can be written."""
        return self._counters[_COMMITTED] - self._counters[_RELEASED] < self._capacity

    def slot(self) -> Tree:
        """Return the slot to be written next."""
        return self._slots[self._counters[_COMMITTED] % self._capacity]

    def commit(self) -> None:
        """Let the reader have that slot."""
        self._counters[_COMMITTED] += 1

    def depth(self) -> int:
        """Messages that are waiting to be taken."""
        return self._counters[_COMMITTED] - self._counters[_TAKEN]

    def take(self) -> Tree:
        """Return the oldest message that was not taken."""
        number = self._counters[_TAKEN]
        self._counters[_TAKEN] = number + 1
        return self._slots[number % self._capacity]

    def release(self) -> None:
        """Give back the slot of the oldest message that was taken."""
        self._counters[_RELEASED] += 1

    def recover(self) -> None:
        """Begin as a new reader."""
        self._counters[_TAKEN] = self._counters[_RELEASED]


class DroppingRing:
    """A ring whose writer never waits: while it is full, the oldest message that was not taken gives up its slot.

    Slots change places, so every change is made under the memory's lock, in a copy of the ring's state that comes into
    force by a single store; a writer killed in the middle of it leaves the state before.
    """

    def __init__(self, memory: Memory, layout: Tree, capacity: int) -> None:
        # One slot more than may wait: the one that is being written.
        self._capacity = capacity + 1
        self._memory = memory
        words = _PLACES + self._capacity
        self._cells = memory.buffer[: 8 * (1 + 2 * words)].cast("q")
        self._states = [self._cells[1 + which * words : 1 + (which + 1) * words] for which in range(2)]
        header, size = slots.aligned(8 * (1 + 2 * words)), slots.size_of(layout)
        self._slots = [slots.view(layout, memory.buffer, header + index * size) for index in range(self._capacity)]
        with memory.locked():
            if not any(self._state[_PLACES:]):  # fresh memory: every place is its own slot
                for place in range(self._capacity):
                    self._state[_PLACES + place] = place

    @staticmethod
    def bytes_needed(layout: Tree, capacity: int) -> int:
        """Return the size of the memory of a ring."""
        words = _PLACES + capacity + 1
        return slots.aligned(8 * (1 + 2 * words)) + (capacity + 1) * slots.size_of(layout)

    def free(self) -> bool:
        """Whether a slot can be written: always, unless the reader holds all of them."""
        state = self._state
        return state[_GONE_OUT] - state[_GIVEN_BACK] < self._capacity

    def slot(self) -> Tree:
        """Return the slot to be written next, dropping a message if there is no other."""
        with self._memory.locked():
            state = self._state
            if state[_SENT] - state[_GIVEN_BACK] == self._capacity:
                state = self._copy()
                self._drop(state)
                self._flip()
            return self._slots[state[_PLACES + state[_SENT] % self._capacity]]

    def commit(self) -> None:
        """Let the reader have that slot."""
        with self._memory.locked():
            self._copy()[_SENT] += 1
            self._flip()

    def depth(self) -> int:
        """Messages that are waiting to be taken."""
        state = self._state
        return state[_SENT] - state[_GONE_OUT]

    def take(self) -> Tree:
        """Return the oldest message that was not taken."""
        with self._memory.locked():
            state = self._copy()
            number = state[_GONE_OUT]
            state[_GONE_OUT] += 1
            self._flip()
            return self._slots[state[_PLACES + number % self._capacity]]

    def release(self) -> None:
        """Give back the slot of the oldest message that was taken."""
        with self._memory.locked():
            self._copy()[_GIVEN_BACK] += 1
            self._flip()

    def recover(self) -> None:
        """Begin as a new reader."""
        with self._memory.locked():
            state = self._copy()
            state[_GONE_OUT] = state[_GIVEN_BACK]
            self._flip()

    @property
    def dropped(self) -> int:
        """Messages that were never taken."""
        return self._state[_DROPPED]

    @property
    def _state(self) -> memoryview:
        """The state in force: counters, then which slot each place of the ring is. Positions count up for ever."""
        return self._states[self._cells[0]]

    def _copy(self) -> memoryview:
        """Return a copy of the state, to be changed and then brought into force by ``_flip``."""
        current = self._cells[0]
        self._states[1 - current][:] = self._states[current]
        return self._states[1 - current]

    def _flip(self) -> None:
        self._cells[0] = 1 - self._cells[0]

    def _drop(self, state: memoryview) -> None:
        """Let the oldest message that was not taken give up its slot; those that are held move up by one place."""

        def place(position: int) -> int:
            return _PLACES + position % self._capacity

        victim = state[place(state[_GONE_OUT])]
        for position in range(state[_GONE_OUT], state[_GIVEN_BACK], -1):
            state[place(position)] = state[place(position - 1)]
        state[_GIVEN_BACK] += 1
        state[_GONE_OUT] += 1
        state[_DROPPED] += 1
        state[place(state[_SENT])] = victim
