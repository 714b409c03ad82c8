"""What is known of every node of a running program, in memory that all of them see: who waits, where, since when."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from weft.runtime.memory import Memory

_STOP = 0
_HEADER = 8
_SLEEPING, _ALIVE_AT, _EDGE, _SINCE, _LIFE = range(5)
_SEAT = 8
_WAITED, _MESSAGES, _DEPTH = range(3)
_FLOW = 8


class Stopped(BaseException):
    """The program is over; raised in a node where it waits. Not an ``Exception``: nodes need not let it pass."""


class Board:
    """Cells of 64-bit numbers: one for the whole program, a line for each node, a line for each edge."""

    def __init__(self, memory: Memory, nodes: int, edges: int) -> None:
        self._cells = memory.buffer[: 8 * self.cells_needed(nodes, edges)].cast("q")
        self._nodes = nodes

    @staticmethod
    def cells_needed(nodes: int, edges: int) -> int:
        """Return how many numbers a board holds."""
        return _HEADER + nodes * _SEAT + edges * _FLOW

    @property
    def stopping(self) -> bool:
        """Whether the program is over."""
        return self._cells[_STOP] != 0

    def stop(self) -> None:
        """Tell every node that the program is over."""
        self._cells[_STOP] = 1

    def seat(self, node: int) -> Seat:
        """Return the line of a node."""
        begin = _HEADER + node * _SEAT
        return Seat(self._cells[begin : begin + _SEAT])

    def flow(self, edge: int) -> Flow:
        """Return the line of an edge."""
        begin = _HEADER + self._nodes * _SEAT + edge * _FLOW
        return Flow(self._cells[begin : begin + _FLOW])


class Seat:
    """What one node shows of itself."""

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells

    @property
    def sleeping(self) -> bool:
        """Whether it has to be woken."""
        return self._cells[_SLEEPING] != 0

    @sleeping.setter
    def sleeping(self, value: bool) -> None:
        self._cells[_SLEEPING] = value

    @property
    def life(self) -> int:
        """How many times the node was made anew."""
        return self._cells[_LIFE]

    @life.setter
    def life(self, value: int) -> None:
        self._cells[_LIFE] = value

    def move(self) -> None:
        """Show that the node is alive and at work."""
        self._cells[_ALIVE_AT] = time.monotonic_ns()
        self._cells[_EDGE] = 0

    def wait(self, edge: int, since: int) -> None:
        """Show at which edge the node waits."""
        self._cells[_SINCE] = since
        self._cells[_EDGE] = edge + 1

    @property
    def waits_at(self) -> tuple[int, float] | None:
        """The edge at which the node waits and for how many seconds it has; None if it is at work."""
        edge = self._cells[_EDGE]
        return (edge - 1, (time.monotonic_ns() - self._cells[_SINCE]) / 1e9) if edge else None

    @property
    def seconds_since_it_moved(self) -> float:
        """How long ago it last passed an edge; 0 if it never did."""
        moved = self._cells[_ALIVE_AT]
        return (time.monotonic_ns() - moved) / 1e9 if moved else 0.0


class Flow:
    """What has gone through one edge, as its own node counts it."""

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells

    def waited(self, nanoseconds: int) -> None:
        """Count time waited."""
        self._cells[_WAITED] += nanoseconds

    def passed(self, depth: int = 0) -> None:
        """Count a message, and how many were waiting behind it."""
        self._cells[_MESSAGES] += 1
        self._cells[_DEPTH] += depth

    @property
    def totals(self) -> tuple[float, int, int]:
        """(seconds waited, messages, sum of the depths they were met with) since the program began."""
        return self._cells[_WAITED] / 1e9, self._cells[_MESSAGES], self._cells[_DEPTH]


class Bell(Protocol):
    """Wakes one node."""

    def ring(self) -> None:
        """Wake it, now or the next time it goes to sleep."""

    def sleep(self, seconds: float) -> None:
        """Sleep until the bell rings, but no longer than that."""


Ready = Callable[[], bool]


class Host(Protocol):
    """How the endpoints of one node wait and wake others: the one thing in which runtimes differ for them."""

    async def until(self, ready: Ready, patience: float | None, edge: int) -> bool:
        """Wait at an edge until ``ready()``, but no longer than ``patience`` seconds; returns whether it is."""

    def wake(self, node: int) -> None:
        """Let another node look again."""

    def passed(self, edge: int, depth: int = 0) -> None:
        """Count a message."""


LONGEST_SLEEP = 0.2
"""Seconds after which a sleeper looks again although nobody rang, and learns that the program is over."""


class BlockingHost:
    """Waits by blocking its thread: first looking again and again for ``spin`` seconds, then asleep."""

    def __init__(self, board: Board, node: int, edges: int, bells: list[Bell], spin: float = 0.0) -> None:
        self._board = board
        self._seat = board.seat(node)
        self._seats = [board.seat(other) for other in range(len(bells))]
        self._flows = [board.flow(edge) for edge in range(edges)]
        self._bells = bells
        self._bell = bells[node]
        self._spin = int(spin * 1e9)

    async def until(self, ready: Ready, patience: float | None, edge: int) -> bool:
        """Wait at an edge until ``ready()``."""
        if self._board.stopping:
            raise Stopped
        if not ready() and not self._wait(ready, patience, edge):
            return False
        self._seat.move()
        return True

    def wake(self, node: int) -> None:
        """Ring the bell of a node that sleeps."""
        if self._seats[node].sleeping:
            self._bells[node].ring()

    def passed(self, edge: int, depth: int = 0) -> None:
        """Count a message."""
        self._flows[edge].passed(depth)

    def _wait(self, ready: Ready, patience: float | None, edge: int) -> bool:
        began = time.monotonic_ns()
        self._seat.wait(edge, began)
        try:
            while time.monotonic_ns() - began < self._spin:
                if ready():
                    return True
            return self._sleep(ready, None if patience is None else began / 1e9 + patience)
        finally:
            self._seat.sleeping = False
            self._flows[edge].waited(time.monotonic_ns() - began)

    def _sleep(self, ready: Ready, deadline: float | None) -> bool:
        while True:
            self._seat.sleeping = True
            if ready():
                return True
            if self._board.stopping:
                raise Stopped
            left = LONGEST_SLEEP if deadline is None else min(LONGEST_SLEEP, deadline - time.monotonic())
            if left <= 0:
                return False
            self._bell.sleep(left)
