"""The lives of a node: made, run, and made anew when it crashes, as long as that leads anywhere."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from weft.errors import WeftError
from weft.program import Node, NodeSpec
from weft.runtime.board import Board, Seat, Stopped

CRASHES_IN_A_ROW = 5
"""Crashes without a message sent or taken in between after which a node is given up."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the next life; twice as long after each crash in a row."""


class NodeFailed(WeftError):
    """A node crashed that the program cannot go on without, or crashed again and again."""


class Lives:
    """Decides whether a crashed node gets another life."""

    def __init__(self, node: NodeSpec, messages: Callable[[], int], tell: Callable[[str], None]) -> None:
        """``messages`` counts what went through the node's edges so far."""
        self._node = node
        self._messages = messages
        self._tell = tell
        self._seen = 0
        self._in_a_row = 0

    def next(self, cause: str, trace: str) -> float:
        """Return how many seconds to wait before the next life; raises ``NodeFailed`` if there shall be none."""
        messages = self._messages()
        self._in_a_row = 1 if messages > self._seen else self._in_a_row + 1
        self._seen = messages
        name = self._node.name
        if not self._node.restarts:
            raise NodeFailed(f"{trace}{name} crashed, and the program cannot go on without it: {cause}")
        if self._in_a_row > CRASHES_IN_A_ROW:
            raise NodeFailed(f"{trace}{name} crashed {self._in_a_row} times in a row: {cause}")
        pause = min(FIRST_PAUSE * 2 ** (self._in_a_row - 1), LONGEST_PAUSE)
        self._tell(f"{name} crashed and is made anew, its unfinished work is lost: {cause}")
        return pause


def make(node: NodeSpec, arguments: tuple[Any, ...], life: int) -> Node:
    """Make a node where it runs."""
    return node.factory(*arguments, **({"life": life} if node.restarts else {}))


def cause_of(error: BaseException) -> str:
    """Return an error in one line."""
    return "".join(traceback.format_exception_only(error)).strip()


def trace_of(error: BaseException) -> str:
    """Return an error's traceback."""
    return "".join(traceback.format_exception(error))


def drive(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a node whose endpoints block."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a node waited for something else than a channel")


def live(node: NodeSpec, arguments: Callable[[], tuple[Any, ...]], seat: Seat, lives: Lives, board: Board) -> None:
    """Run a node to its end, through all its lives; ``arguments`` makes new endpoints for each of them.

    Errors meant for the user end the program, as another life would meet them again.
    """
    try:
        while True:
            made = None
            try:
                made = make(node, arguments(), seat.life)
                drive(made.run())
                return
            except WeftError:
                raise
            except Exception as error:
                seconds = lives.next(cause_of(error), trace_of(error))
            finally:
                if made is not None:
                    made.close()
            _pause(seconds, board)
            seat.life += 1
    except Stopped:
        return


def _pause(seconds: float, board: Board) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if board.stopping:
            raise Stopped
        time.sleep(min(0.05, max(deadline - time.monotonic(), 0.0)))
