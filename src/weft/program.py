"""A program: the nodes of one training run. Topologies make it, runtimes execute it, neither knows the other."""

from __future__ import annotations

from typing import Protocol


class Node(Protocol):
    """A part of a program. Its ``run`` is a coroutine that may be suspended only where it waits on a channel."""

    async def run(self) -> None:
        """Do this node's work until the program ends."""


class Program:
    """Named nodes, in the order in which they were added."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[str, Node] = {}

    def add(self, name: str, node: Node) -> None:
        """Add a node under a name of its own."""
        assert name not in self.nodes, f"two nodes named {name}"
        self.nodes[name] = node
