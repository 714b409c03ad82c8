"""``inline``: every node in the calling thread, in a fixed order; for debugging, tests and exact reproduction."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any

from weft.errors import WeftError
from weft.program import Node, NodeSpec
from weft.runtime.board import Ready
from weft.runtime.execution import Execution
from weft.runtime.flow import stuck
from weft.runtime.lives import Lives, NodeFailed, cause_of, make, trace_of
from weft.runtime.memory import PrivateMemory
from weft.runtime.wiring import opened

IDLE_ROUNDS = 3
"""Rounds in which nobody had anything to do, and only patience ran out, before a program is given up as stuck."""


class Inline(Execution):
    """Each node in turn, until it waits or has passed an edge, over and over."""

    def allocate(self, size: int) -> PrivateMemory:
        """Return memory that all nodes see."""
        return PrivateMemory(size)

    def run(self) -> None:
        """Run the program to its end."""
        turns = [_Turns(self, node) for node in self.wiring.nodes]
        self.moved, self.impatient = True, False
        idle = 0
        try:
            while not any(turn.over and turn.node.main for turn in turns):
                self.moved = False
                for turn in turns:
                    turn.take()
                    if turn.over and turn.node.main:
                        break
                self._fetch_order()
                idle = 0 if self.moved else idle + 1
                self.impatient = idle > 0
                if idle > IDLE_ROUNDS:
                    raise NodeFailed(f"{self.program.name} is stuck: {'; '.join(stuck(self.wiring, 0.0))}.")
        finally:
            for turn in turns:
                turn.close()


class _Host:
    """Waits by letting the other nodes have their turn."""

    def __init__(self, execution: Inline, node: NodeSpec) -> None:
        self._execution = execution
        self._seat = execution.board.seat(execution.wiring.place(node))

    async def until(self, ready: Ready, patience: float | None, edge: int) -> bool:
        """Give the others a turn, then wait until ``ready()``; patience ends when nobody else has anything to do."""
        began = time.monotonic_ns()
        await _others()
        while not ready():
            self._seat.wait(edge, began)
            if patience is not None and self._execution.impatient:
                return False
            await _others()
        self._execution.board.flow(edge).waited(time.monotonic_ns() - began)
        self._execution.moved = True
        self._seat.move()
        return True

    def wake(self, node: int) -> None:
        """Nobody sleeps."""

    def passed(self, edge: int, depth: int = 0) -> None:
        """Count a message."""
        self._execution.board.flow(edge).passed(depth)


class _Others(Awaitable[None]):
    def __await__(self) -> Generator[None, None, None]:
        yield


def _others() -> _Others:
    return _Others()


class _Turns:
    """One node through its lives."""

    def __init__(self, execution: Inline, node: NodeSpec) -> None:
        self.node = node
        self.over = False
        self._execution = execution
        self._lives: Lives = execution._lives(node)
        self._seat = execution._seat(node)
        self._made: Node | None = None
        self._coroutine: Coroutine[Any, Any, None] | None = None

    def take(self) -> None:
        """Let the node go on to where it waits next."""
        if self.over:
            return
        try:
            if self._coroutine is None:
                self._begin()
            assert self._coroutine is not None
            self._coroutine.send(None)
        except StopIteration:
            self.over = True
        except WeftError:
            raise
        except Exception as error:
            if self.node.main:
                raise
            self.close()
            self._lives.next(cause_of(error), trace_of(error))
            self._seat.life += 1
            self._execution.moved = True

    def _begin(self) -> None:
        arguments = self._execution.wiring.arguments(self.node)
        self._made = make(self.node, opened(arguments, _Host(self._execution, self.node)), self._seat.life)
        self._coroutine = self._made.run()

    def close(self) -> None:
        """End the node's life."""
        if self._coroutine is not None:
            self._coroutine.close()
            self._coroutine = None
        if self._made is not None:
            self._made.close()
            self._made = None
