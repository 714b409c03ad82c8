"""Laying out the channels of a program in memory, and making the endpoints of a node from it, in whatever process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from weft.program import Call, Channel, Mailbox, NodeSpec, Port, Program, Queue, replaced
from weft.runtime import endpoints
from weft.runtime.board import Board, Host
from weft.runtime.memory import Memory
from weft.runtime.order import AsTheyCome, Order
from weft.runtime.rings import BlockingRing, DroppingRing, Ring
from weft.types import Tree

Allocate = Callable[[int], Memory]


class Edge(NamedTuple):
    """One end of a channel in the hands of one node."""

    node: NodeSpec
    channel: Channel
    end: str


class Wire(Protocol):
    """What stands for a port until its node is made; it pickles."""

    def open(self, host: Host) -> Any:
        """Return the endpoint."""


@dataclass(frozen=True)
class RingPlan:
    """A ring in memory."""

    memory: Memory
    layout: Tree
    capacity: int
    kind: type[BlockingRing] | type[DroppingRing]

    def open(self) -> Ring:
        """Return the ring."""
        return self.kind(self.memory, self.layout, self.capacity)


@dataclass(frozen=True)
class WriterWire:
    """The writing end of a queue."""

    edge: int
    ring: RingPlan
    reader: int
    letters: bool

    def open(self, host: Host) -> Any:
        """Return the endpoint."""
        writer = endpoints.QueueWriter(host, self.edge, self.ring.open(), self.reader)
        return endpoints.LetterWriter(writer) if self.letters else writer


@dataclass(frozen=True)
class ReaderWire:
    """The reading end of a queue."""

    edge: int
    rings: list[RingPlan]
    writers: list[int]
    order: Order
    letters: bool

    def open(self, host: Host) -> Any:
        """Return the endpoint."""
        rings = [plan.open() for plan in self.rings]
        reader = endpoints.QueueReader(host, self.edge, rings, self.writers, self.order)
        return endpoints.LetterReader(reader) if self.letters else reader


@dataclass(frozen=True)
class PosterWire:
    """The writing end of a mailbox."""

    edge: int
    memory: Memory
    layout: Tree
    watchers: list[int]
    orders: list[Order]

    def open(self, host: Host) -> endpoints.MailboxPoster:
        """Return the endpoint."""
        box = endpoints.Box(self.memory, self.layout)
        return endpoints.MailboxPoster(host, self.edge, box, self.watchers, self.orders)


@dataclass(frozen=True)
class WatcherWire:
    """The reading end of a mailbox."""

    edge: int
    memory: Memory
    layout: Tree
    order: Order

    def open(self, host: Host) -> endpoints.MailboxWatcher:
        """Return the endpoint."""
        return endpoints.MailboxWatcher(host, self.edge, endpoints.Box(self.memory, self.layout), self.order)


@dataclass(frozen=True)
class ClientWire:
    """The asking end of a call."""

    requests: WriterWire
    replies: ReaderWire

    def open(self, host: Host) -> endpoints.CallClient:
        """Return the endpoint."""
        return endpoints.CallClient(self.requests.open(host), self.replies.open(host))


@dataclass(frozen=True)
class ServerWire:
    """The answering end of a call."""

    requests: ReaderWire
    replies: list[WriterWire]

    def open(self, host: Host) -> endpoints.CallServer:
        """Return the endpoint."""
        return endpoints.CallServer(self.requests.open(host), [reply.open(host) for reply in self.replies])


CALL_SLOTS = 2


@dataclass
class Wiring:
    """The channels of a program in memory that ``allocate`` gives."""

    program: Program
    allocate: Allocate
    order: Callable[[Edge], Order]
    """edge of a reading end -> its order"""
    edges: list[Edge] = field(default_factory=list)
    _wires: dict[tuple[str, Port], Wire] = field(default_factory=dict)
    _rings: dict[str, list[Ring]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = list(self.program.nodes.values())
        self._places = {node.name: place for place, node in enumerate(self.nodes)}
        for channel in self.program.channels.values():
            wire = {Queue: self._queue, Mailbox: self._mailbox, Call: self._call}[type(channel)]
            wire(channel)  # type: ignore[operator]
        memory = self.allocate(8 * Board.cells_needed(len(self.nodes), len(self.edges)))
        self.board_memory = memory
        self.board = Board(memory, len(self.nodes), len(self.edges))

    def arguments(self, node: NodeSpec) -> tuple[Any, ...]:
        """Return a node's arguments with wires in place of its ports."""
        return replaced(node.arguments, Port, lambda port: self._wires[node.name, port])

    def place(self, node: NodeSpec) -> int:
        """Return the place of a node on the board."""
        return self._places[node.name]

    def waiting(self, queue: Channel) -> int:
        """Return how many messages wait in a queue."""
        return sum(ring.depth() for ring in self._rings[queue.name])

    def dropped(self, queue: Channel) -> int:
        """Return how many messages a queue has dropped."""
        return sum(ring.dropped for ring in self._rings[queue.name])

    def _edge(self, node: NodeSpec, channel: Channel, end: str) -> int:
        self.edges.append(Edge(node, channel, end))
        return len(self.edges) - 1

    def _ring(self, layout: Tree, capacity: int, kind: type[BlockingRing] | type[DroppingRing]) -> RingPlan:
        return RingPlan(self.allocate(kind.bytes_needed(layout, capacity)), layout, capacity, kind)

    def _queue(self, queue: Queue) -> None:
        letters = queue.layout is None
        layout, capacity = (endpoints.LETTER, endpoints.LETTER_SLOTS) if letters else (queue.layout, queue.capacity)
        kind = BlockingRing if queue.full == "block" else DroppingRing
        writers, (reader,) = self.program.users(queue, "into"), self.program.users(queue, "out")
        rings = [self._ring(layout, capacity, kind) for _ in writers]
        for node, ring in zip(writers, rings, strict=True):
            wire = WriterWire(self._edge(node, queue, "into"), ring, self.place(reader), letters)
            self._wires[node.name, queue.into] = wire
        edge = self._edge(reader, queue, "out")
        order = self.order(self.edges[edge])
        self._wires[reader.name, queue.out] = ReaderWire(edge, rings, self._all(writers), order, letters)
        self._rings[queue.name] = [plan.open() for plan in rings]

    def _mailbox(self, mailbox: Mailbox) -> None:
        memory, layout = self.allocate(endpoints.Box.bytes_needed(mailbox.layout)), mailbox.layout
        (poster,), watchers = self.program.users(mailbox, "into"), self.program.users(mailbox, "out")
        orders = []
        for node in watchers:
            edge = self._edge(node, mailbox, "out")
            orders.append(self.order(self.edges[edge]))
            self._wires[node.name, mailbox.out] = WatcherWire(edge, memory, layout, orders[-1])
        edge = self._edge(poster, mailbox, "into")
        self._wires[poster.name, mailbox.into] = PosterWire(edge, memory, layout, self._all(watchers), orders)

    def _call(self, call: Call) -> None:
        clients, (server,) = self.program.users(call, "client"), self.program.users(call, "server")
        at_server = self._edge(server, call, "server")
        order = self.order(self.edges[at_server])
        asked_for, answered = endpoints.numbered(call.layout), endpoints.numbered(call.reply)
        requests = [self._ring(asked_for, CALL_SLOTS, BlockingRing) for _ in clients]
        replies = [self._ring(answered, CALL_SLOTS, BlockingRing) for _ in clients]
        for node, request, reply in zip(clients, requests, replies, strict=True):
            edge, place = self._edge(node, call, "client"), self.place(server)
            answers = ReaderWire(edge, [reply], [place], AsTheyCome(), False)
            self._wires[node.name, call.client] = ClientWire(WriterWire(edge, request, place, False), answers)
        asked = ReaderWire(at_server, requests, self._all(clients), order, False)
        answers_to = [
            WriterWire(at_server, reply, self.place(node), False) for node, reply in zip(clients, replies, strict=True)
        ]
        self._wires[server.name, call.server] = ServerWire(asked, answers_to)

    def _all(self, nodes: Sequence[NodeSpec]) -> list[int]:
        return [self.place(node) for node in nodes]


def opened(arguments: tuple[Any, ...], host: Host) -> tuple[Any, ...]:
    """Return a node's arguments with endpoints in place of its wires."""
    return replaced(arguments, _WIRES, lambda wire: wire.open(host))


_WIRES = (WriterWire, ReaderWire, PosterWire, WatcherWire, ClientWire, ServerWire)
