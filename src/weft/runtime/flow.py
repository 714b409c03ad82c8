"""How a running program flows: who waits where for how long, how full queues are, what was dropped, what is stuck."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from weft.program import Mailbox, NodeSpec, Queue
from weft.runtime.wiring import Edge, Wiring


class Totals(NamedTuple):
    """What has gone through an edge since the program began."""

    waited: float
    messages: int
    depths: int


class FlowMeter:
    """Turns the counters of the edges into metrics, and into one sentence at the end."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._began = self._rows_at = time.monotonic()
        self._at_row = self._totals()

    def messages(self, node: NodeSpec) -> int:
        """Return how many messages went through a node's edges."""
        board = self._wiring.board
        return sum(board.flow(i).totals[1] for i, edge in enumerate(self._wiring.edges) if edge.node is node)

    def row(self) -> dict[str, float]:
        """Return the metrics of the time since the last row.

        ``wait_ROLE_CHANNEL`` is the share of its time that a role waited there, ``depth_QUEUE`` how many messages were
        waiting when one was read, ``dropped_QUEUE`` counts from the beginning, ``rate_ROLE`` is agent steps a second.
        """
        now, totals = time.monotonic(), self._totals()
        seconds = max(now - self._rows_at, 1e-9)
        row: dict[str, float] = {}
        for (role, channel), edges in self._groups().items():
            before, after = (_sum([self._of(edge, of) for edge in edges]) for of in (self._at_row, totals))
            row[f"wait_{role}_{channel}"] = min((after.waited - before.waited) / len(edges) / seconds, 1.0)
            first = edges[0]
            if isinstance(first.channel, Queue) and first.channel.weight:
                messages = after.messages - before.messages
                row[f"rate_{role}"] = round(messages * first.channel.weight / seconds, 1)
                if first.end == "out":
                    row[f"depth_{channel}"] = (after.depths - before.depths) / max(messages, 1)
                    row[f"dropped_{channel}"] = self._wiring.dropped(first.channel)
        self._rows_at, self._at_row = now, totals
        return row

    def bottleneck(self) -> str | None:
        """Name who waited longest for whom, over the whole program; None if nobody waited for long."""
        totals, seconds = self._totals(), max(time.monotonic() - self._began, 1e-9)
        worst, share = None, 0.1
        for (role, _), edges in self._groups().items():
            waited = _sum([self._of(edge, totals) for edge in edges]).waited / len(edges) / seconds
            others = self._others(edges[0])
            if waited > share and role not in others:
                worst, share = f"{_plural(role, edges)} waited for the {' and '.join(sorted(others))}", waited
        return None if worst is None else f"The {worst} {min(share, 1):.0%} of the time."

    def _groups(self) -> dict[tuple[str, str], list[Edge]]:
        """Edges by role and channel; channels that are one for each node of a role count as one."""
        groups: dict[tuple[str, str], list[Edge]] = defaultdict(list)
        for edge in self._wiring.edges:
            groups[edge.node.role, edge.channel.name.split()[0]].append(edge)
        return groups

    def _others(self, edge: Edge) -> set[str]:
        ends = {"into": "out", "out": "into", "client": "server", "server": "client"}
        return {node.role for node in self._wiring.program.users(edge.channel, ends[edge.end])}

    def _totals(self) -> list[Totals]:
        """Return the counters of every edge; who waits now has waited since it began to."""
        board, totals = self._wiring.board, []
        for index, edge in enumerate(self._wiring.edges):
            waited, messages, depths = board.flow(index).totals
            waits = board.seat(self._wiring.place(edge.node)).waits_at
            totals.append(Totals(waited + (waits[1] if waits and waits[0] == index else 0.0), messages, depths))
        return totals

    def _of(self, edge: Edge, totals: list[Totals]) -> Totals:
        return totals[self._wiring.edges.index(edge)]


def _sum(totals: list[Totals]) -> Totals:
    return Totals(*map(sum, zip(*totals, strict=True)))


def _plural(role: str, edges: list[Edge]) -> str:
    return f"{role}s" if len({edge.node.name for edge in edges}) > 1 else role


def watch_out(wiring: Wiring, patience: float, note: Callable[[str], None]) -> Callable[[], None]:
    """Return a function to be called often, which names each node that makes no progress, once until it moves on."""
    named: set[str] = set()

    def look() -> None:
        for node in wiring.nodes:
            problem = _stuck(wiring, node, patience)
            if problem is None:
                named.discard(node.name)
            elif node.name not in named:
                named.add(node.name)
                note(f"{problem}.")

    return look


def stuck(wiring: Wiring, patience: float) -> list[str]:
    """Say of every node that has made no progress for ``patience`` seconds what it waits for."""
    problems = [_stuck(wiring, node, patience) for node in wiring.nodes]
    return [problem for problem in problems if problem is not None]


def _stuck(wiring: Wiring, node: NodeSpec, patience: float) -> str | None:
    seat = wiring.board.seat(wiring.place(node))
    waits = seat.waits_at
    if waits is None:
        seconds = seat.seconds_since_it_moved
        return f"{node.name} has been busy for {seconds:.0f} s without a message" if seconds > patience else None
    edge, seconds = wiring.edges[waits[0]], waits[1]
    return f"{node.name} has been waiting for {seconds:.0f} s {_for_what(edge)}" if seconds > patience else None


def _for_what(edge: Edge) -> str:
    name = edge.channel.name
    if isinstance(edge.channel, Mailbox):
        return f"for a newer version of {name}"
    return {
        "into": f"for room in {name}, which is full",
        "out": f"for {name}, which is empty",
        "client": f"for an answer from {name}",
        "server": f"for questions to {name}",
    }[edge.end]
