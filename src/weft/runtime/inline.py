"""``inline``: every node in the calling thread, in a fixed order; for debugging, tests and exact reproduction."""

from __future__ import annotations

from collections import deque

from weft.program import Program


def inline(program: Program) -> None:
    """Run the program to its end: each node in turn until it waits, over and over."""
    waiting = deque(node.run() for node in program.nodes.values())
    try:
        while waiting:
            coroutine = waiting.popleft()
            try:
                coroutine.send(None)
            except StopIteration:
                continue
            waiting.append(coroutine)
    finally:
        for coroutine in waiting:
            coroutine.close()
