"""A program: the nodes of one training run and the channels between them.

Topologies build it, runtimes execute it, and neither knows the other. A node is made where it runs, from a factory and
its arguments; the ports of channels among those arguments ARE the edges of the graph (the idea of Launchpad, Yang et
al. 2021, arXiv:2106.04516). In their place the node receives the endpoints that are declared here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from weft.types import Tree

Role = str
"""What a node is for: actor, learner, ...; nodes of one role are reported together."""


@dataclass(frozen=True)
class Leaf:
    """An array of a message: its shape and its dtype as text. Messages are trees of these, laid out once."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


class Node(Protocol):
    """A part of a program. Its ``run`` is a coroutine that may be suspended only where it waits on a channel."""

    async def run(self) -> None:
        """Do this node's work; the program ends when its main node returns, and the others are stopped then."""

    def close(self) -> None:
        """Release what the node holds, however it came to its end."""


class Writer(Protocol):
    """The writing end of a queue."""

    async def reserve(self) -> Tree:
        """Wait for a free slot; returns its arrays, to be written in place."""

    def commit(self) -> None:
        """Send what was written into the reserved slot. A slot that is reserved again before was never sent."""

    async def put(self, message: Any) -> None:
        """Send a message at once, by copying it into a slot (of a queue without layout: by pickling it)."""


class Reader(Protocol):
    """The reading end of a queue. Messages of each writer come in the order in which they were sent."""

    async def get(self, patience: float | None = None) -> Any:
        """Wait for a message; None if there was none for ``patience`` seconds.

        Its arrays are the slot itself, and belong to the reader until ``release``. Messages that a node has got but
        not released when it dies are given again to the one that takes its place.
        """

    def release(self) -> None:
        """Give back the slot of the oldest message held."""

    @property
    def depth(self) -> int:
        """Messages that are waiting to be read."""


class Poster(Protocol):
    """The writing end of a mailbox."""

    async def post(self, value: Tree, version: int) -> None:
        """Make a copy of ``value`` the newest one; versions rise."""


class Watcher(Protocol):
    """The reading end of a mailbox."""

    async def get(self, at_least: int = 0) -> tuple[int, Tree]:
        """Wait for a version of at least that number; returns the newest version and a copy of its value."""


class Client(Protocol):
    """The asking end of a call."""

    async def send(self, request: Tree) -> None:
        """Send a request; there may be one at a time."""

    async def receive(self) -> Tree:
        """Wait for the reply, whose arrays are the client's until it sends again."""


class Request(NamedTuple):
    """What a server of calls got."""

    client: int
    value: Tree
    number: int
    """Of the request, which its reply repeats, so that the next life of a client is not given it."""


class Server(Protocol):
    """The answering end of a call."""

    async def collect(self, number: int, patience: float, idle: float | None = None) -> list[Request]:
        """Wait for a request, then for others until there are ``number`` or ``patience`` seconds are over.

        If there is none for ``idle`` seconds there are none.
        """

    async def reply(self, request: Request, value: Tree) -> None:
        """Answer one of the requests that were collected last."""


@dataclass(frozen=True, eq=False)
class Channel:
    """What connects nodes. ``layout`` is the tree of ``Leaf`` that each message is; None for objects, pickled."""

    name: str
    layout: Tree

    def port(self, end: str) -> Port:
        """Return the end of this channel that is given to a node."""
        return Port(self, end)


@dataclass(frozen=True, eq=False)
class Queue(Channel):
    """Bounded and in order, from many writers to one reader: back-pressure is an edge, never a hidden buffer."""

    capacity: int
    """Slots for each writer."""
    full: Literal["block", "drop oldest"]
    """What a writer does when they are all in use."""
    weight: int
    """Agent steps in one message, so that the speed of both ends can be told; 0 for messages about something else."""

    @property
    def into(self) -> Port:
        """The writing end."""
        return self.port("into")

    @property
    def out(self) -> Port:
        """The reading end."""
        return self.port("out")


@dataclass(frozen=True, eq=False)
class Mailbox(Channel):
    """The newest value only, with its version, from one writer to many readers."""

    @property
    def into(self) -> Port:
        """The writing end."""
        return self.port("into")

    @property
    def out(self) -> Port:
        """The reading end."""
        return self.port("out")


@dataclass(frozen=True, eq=False)
class Call(Channel):
    """Requests of the channel's ``layout`` from many clients to one server, which answers them in batches."""

    reply: Tree
    """Layout of a reply."""

    @property
    def client(self) -> Port:
        """The asking end."""
        return self.port("client")

    @property
    def server(self) -> Port:
        """The answering end."""
        return self.port("server")


class Port(NamedTuple):
    """One end of a channel, as an argument of a node."""

    channel: Channel
    end: str


_ENDS: dict[type, tuple[str, str]] = {Queue: ("into", "out"), Mailbox: ("into", "out"), Call: ("client", "server")}
_SHARED = {(Queue, "into"), (Mailbox, "out"), (Call, "client")}
"""Ends that several nodes may hold."""


@dataclass(frozen=True)
class NodeSpec:
    """How a node is made, and how it is treated."""

    name: str
    role: Role
    factory: Callable[..., Node]
    arguments: tuple[Any, ...]
    main: bool = False
    """Runs in the calling thread; when it returns, the program is over."""
    restarts: bool = False
    """A crashed one is made anew, with the number of its life as keyword ``life``; otherwise it ends the program."""
    cores: int | None = 1
    """How many threads a process of its own may compute with, on the CPU; None for whatever the machine has."""

    def ports(self) -> list[Port]:
        """Return the ports among the arguments, in order."""
        return list(_ports(self.arguments))


@dataclass
class Program:
    """Nodes in the order in which they were added, and the channels between them."""

    name: str
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)

    def add(
        self, name: str, factory: Callable[..., Node], *arguments: Any, restarts: bool = False, cores: int | None = 1
    ) -> None:
        """Add a node, such as ``actor 3``; its role is the first word of its name."""
        self._add(NodeSpec(name, name.split()[0], factory, arguments, restarts=restarts, cores=cores))

    def main(self, name: str, factory: Callable[..., Node], *arguments: Any) -> None:
        """Add the node that runs in the calling thread and ends the program when it returns."""
        self._add(NodeSpec(name, name.split()[0], factory, arguments, main=True))

    def queue(
        self,
        name: str,
        layout: Tree = None,
        capacity: int = 2,
        full: Literal["block", "drop oldest"] = "block",
        weight: int = 0,
    ) -> Queue:
        """Add a queue."""
        return self._channel(Queue(name, layout, capacity, full, weight))

    def mailbox(self, name: str, layout: Tree) -> Mailbox:
        """Add a mailbox."""
        return self._channel(Mailbox(name, layout))

    def call(self, name: str, request: Tree, reply: Tree) -> Call:
        """Add a call."""
        return self._channel(Call(name, request, reply))

    def users(self, channel: Channel, end: str) -> list[NodeSpec]:
        """Return the nodes that hold one end of a channel, in the order in which they were added."""
        return [
            node
            for node in self.nodes.values()
            if any(port.channel is channel and port.end == end for port in node.ports())
        ]

    def check(self) -> None:
        """Say which edge is missing, before anything is started."""
        mains = [node.name for node in self.nodes.values() if node.main]
        assert len(mains) == 1, f"{self.name} has {len(mains)} main nodes: {mains}"
        for channel in self.channels.values():
            for end in _ENDS[type(channel)]:
                users = [node.name for node in self.users(channel, end)]
                assert users, f"nobody holds the end {end!r} of {channel.name}"
                assert len(users) == 1 or (type(channel), end) in _SHARED, f"{channel.name} {end!r} is held by {users}"

    def __str__(self) -> str:
        from weft.drawing.text import described

        return described(self)

    def draw(self, path: str | Path) -> Path:
        """Draw the graph as SVG or PNG, by the ending of ``path``; returns the path."""
        from weft.drawing.picture import draw

        return draw(self, path)

    def _add(self, node: NodeSpec) -> None:
        assert node.name not in self.nodes, f"two nodes named {node.name}"
        held = node.ports()
        assert len({(id(port.channel), port.end) for port in held}) == len(held), f"{node.name} holds a port twice"
        self.nodes[node.name] = node

    def _channel(self, channel: Any) -> Any:
        assert channel.name not in self.channels, f"two channels named {channel.name}"
        self.channels[channel.name] = channel
        return channel


def _ports(argument: Any) -> Iterator[Port]:
    if isinstance(argument, Port):
        yield argument
    elif type(argument) in (list, tuple):
        for item in argument:
            yield from _ports(item)


def replaced(argument: Any, kinds: type | tuple[type, ...], function: Callable[[Any], Any]) -> Any:
    """Return an argument with everything of some kinds, in lists and tuples too, replaced by a function of it.

    Lists and tuples in which there is nothing to replace stay the same objects.
    """
    if isinstance(argument, kinds):
        return function(argument)
    if type(argument) in (list, tuple):
        items = [replaced(item, kinds, function) for item in argument]
        if any(new is not old for new, old in zip(items, argument, strict=True)):
            return type(argument)(items)
    return argument
