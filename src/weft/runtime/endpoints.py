"""The ends of channels as nodes use them, the same on every runtime; see ``weft.program`` for what each one does."""

from __future__ import annotations

import pickle
import time
from collections import deque
from typing import Any

import numpy as np

from weft.program import Leaf, Request
from weft.runtime import slots
from weft.runtime.board import Host
from weft.runtime.memory import Memory
from weft.runtime.order import Order
from weft.runtime.rings import Ring
from weft.types import Tree

CHUNK = 1 << 16
_NUMBER = Leaf((), "int64")
LETTER = {"letter": _NUMBER, "begin": _NUMBER, "size": _NUMBER, "data": Leaf((CHUNK,), "uint8")}
"""Layout of the pieces in which objects travel: which letter, where the piece begins in it, and its whole size."""
LETTER_SLOTS = 4


class QueueWriter:
    """One writer's ring."""

    def __init__(self, host: Host, edge: int, ring: Ring, reader: int) -> None:
        self._host, self._edge, self._ring, self._reader = host, edge, ring, reader

    async def reserve(self) -> Tree:
        """Wait for a free slot."""
        await self._host.until(self._ring.free, None, self._edge)
        return self._ring.slot()

    def commit(self) -> None:
        """Send what was written."""
        self._ring.commit()
        self._host.passed(self._edge)
        self._host.wake(self._reader)

    async def put(self, message: Tree) -> None:
        """Send a message by copying it."""
        slots.copy_into(await self.reserve(), message)
        self.commit()


class QueueReader:
    """The rings of all writers, read in turn."""

    def __init__(self, host: Host, edge: int, rings: list[Ring], writers: list[int], order: Order) -> None:
        self._host, self._edge, self._rings, self._writers, self._order = host, edge, rings, writers, order
        self._held: deque[int] = deque()
        self._turn = 0
        for ring in rings:
            ring.recover()

    async def get(self, patience: float | None = None) -> Tree | None:
        """Wait for a message."""
        found = await self.take(patience)
        return None if found is None else found[1]

    async def take(self, patience: float | None = None) -> tuple[int, Tree] | None:
        """Wait for a message; returns it with the index of its writer."""
        if not await self._host.until(self._ready, patience, self._edge):
            return None
        writer = self._choose()
        message = self._rings[writer].take()
        self._held.append(writer)
        self._order.chose(writer)
        self._host.passed(self._edge, self.depth)
        return writer, message

    def release(self) -> None:
        """Give back the oldest slot held."""
        self._release(self._held.popleft())

    def release_from(self, writer: int) -> None:
        """Give back the oldest slot held of one writer."""
        self._held.remove(writer)
        self._release(writer)

    @property
    def depth(self) -> int:
        """Messages that are waiting to be read."""
        return sum(ring.depth() for ring in self._rings)

    def _release(self, writer: int) -> None:
        self._rings[writer].release()
        self._host.wake(self._writers[writer])

    def _ready(self) -> bool:
        wanted = self._order.next
        return any(ring.depth() for ring in self._rings) if wanted is None else self._rings[wanted].depth() > 0

    def _choose(self) -> int:
        """Return the next writer, after the one served last, that has sent something."""
        if self._order.next is not None:
            return self._order.next
        number = len(self._rings)
        turn = next(turn for turn in range(self._turn, self._turn + number) if self._rings[turn % number].depth())
        self._turn = turn + 1
        return turn % number


class LetterWriter:
    """Objects of any size, pickled, in pieces."""

    def __init__(self, pieces: QueueWriter) -> None:
        self._pieces = pieces
        self._number = time.monotonic_ns()

    async def put(self, message: Any) -> None:
        """Send an object."""
        data = np.frombuffer(pickle.dumps(message, protocol=5), np.uint8)
        self._number += 1
        for begin in range(0, len(data), CHUNK):
            piece, slot = data[begin : begin + CHUNK], await self._pieces.reserve()
            for name, value in (("letter", self._number), ("begin", begin), ("size", len(data))):
                slot[name][...] = value
            slot["data"][: len(piece)] = piece
            self._pieces.commit()


class LetterReader:
    """Puts the pieces together; a letter whose writer died in the middle of it is thrown away."""

    def __init__(self, pieces: QueueReader) -> None:
        self._pieces = pieces
        self._begun: dict[int, tuple[int, bytearray]] = {}

    async def get(self, patience: float | None = None) -> Any:
        """Wait for an object."""
        while True:
            found = await self._pieces.take(patience)
            if found is None:
                return None
            whole = self._add(*found)
            if whole is not None:
                return pickle.loads(whole)
            self._pieces.release_from(found[0])

    def release(self) -> None:
        """Forget the oldest object held."""
        self._pieces.release()

    @property
    def depth(self) -> int:
        """Pieces that are waiting to be read."""
        return self._pieces.depth

    def _add(self, writer: int, piece: Tree) -> bytearray | None:
        """Add a piece to the letter of its writer; returns the letter once it is whole."""
        letter, begin, size = int(piece["letter"]), int(piece["begin"]), int(piece["size"])
        begun, text = self._begun.pop(writer, (letter, bytearray()))
        if begun != letter:
            text = bytearray()
        if begin != len(text):
            return None
        text += piece["data"][: size - begin].tobytes()
        if len(text) == size:
            return text
        self._begun[writer] = letter, text
        return None


class Box:
    """A mailbox in memory: three copies in turn, so that a reader can copy one while the next is being written."""

    COPIES = 3

    def __init__(self, memory: Memory, layout: Tree) -> None:
        self._counters = memory.buffer[:128].cast("q")  # posts that are done, posts that are begun
        layout = {"version": Leaf((), "int64"), "value": layout}
        size = slots.size_of(layout)
        self._copies = [slots.view(layout, memory.buffer, 128 + index * size) for index in range(self.COPIES)]

    @classmethod
    def bytes_needed(cls, layout: Tree) -> int:
        """Return the size of the memory of a mailbox."""
        return 128 + cls.COPIES * slots.size_of({"version": Leaf((), "int64"), "value": layout})

    def write(self, value: Tree, version: int) -> None:
        """Make a copy of ``value`` the newest one."""
        number = self._counters[0] + 1
        self._counters[8] = number
        copy = self._copies[number % self.COPIES]
        copy["version"][...] = version
        slots.copy_into(copy["value"], value)
        self._counters[0] = number

    @property
    def version(self) -> int:
        """Version of the newest value; -1 before the first."""
        while (number := self._counters[0]) > 0:
            version = int(self._copies[number % self.COPIES]["version"])
            if self._untouched(number):
                return version
        return -1

    def read(self) -> tuple[int, Tree]:
        """Return the newest version and a copy of its value."""
        while True:
            number = self._counters[0]
            copy = self._copies[number % self.COPIES]
            version, value = int(copy["version"]), slots.copy_of(copy["value"])
            if self._untouched(number):
                return version, value

    def _untouched(self, number: int) -> bool:
        """Whether the copy of one post has not been written over meanwhile."""
        return self._counters[8] < number + self.COPIES


class MailboxPoster:
    """The writing end of a mailbox."""

    def __init__(self, host: Host, edge: int, box: Box, watchers: list[int], orders: list[Order]) -> None:
        self._host, self._edge, self._box, self._watchers, self._orders = host, edge, box, watchers, orders

    async def post(self, value: Tree, version: int) -> None:
        """Make a copy of ``value`` the newest one."""
        await self._host.until(self._free, None, self._edge)
        self._box.write(value, version)
        self._host.passed(self._edge)
        for watcher in self._watchers:
            self._host.wake(watcher)

    def _free(self) -> bool:
        """Whether everyone who is to see the newest version has seen it (always, where no order is repeated)."""
        return all(order.next is None or order.next != self._box.version for order in self._orders)


class MailboxWatcher:
    """The reading end of a mailbox."""

    def __init__(self, host: Host, edge: int, box: Box, order: Order) -> None:
        self._host, self._edge, self._box, self._order = host, edge, box, order
        self._newest: tuple[int, Tree] = (-1, None)

    async def get(self, at_least: int = 0) -> tuple[int, Tree]:
        """Wait for a version of at least that number."""
        await self._host.until(lambda: self._ready(at_least), None, self._edge)
        if self._box.version != self._newest[0]:
            self._newest = self._box.read()
        self._order.chose(self._newest[0])
        self._host.passed(self._edge)
        return self._newest

    def _ready(self, at_least: int) -> bool:
        version, wanted = self._box.version, self._order.next
        return version >= at_least and (wanted is None or version == wanted)


def numbered(layout: Tree) -> Tree:
    """Return the layout of requests or replies, which carry a number."""
    return {"number": _NUMBER, "value": layout}


class CallClient:
    """The asking end of a call."""

    def __init__(self, requests: QueueWriter, replies: QueueReader) -> None:
        self._requests, self._replies = requests, replies
        self._number = time.monotonic_ns()
        self._holds = False

    async def send(self, request: Tree) -> None:
        """Send a request."""
        if self._holds:
            self._replies.release()
            self._holds = False
        self._number += 1
        await self._requests.put({"number": self._number, "value": request})

    async def receive(self) -> Tree:
        """Wait for the reply."""
        while True:
            reply: Any = await self._replies.get()
            if int(reply["number"]) == self._number:
                self._holds = True
                return reply["value"]
            self._replies.release()


class CallServer:
    """The answering end of a call."""

    def __init__(self, requests: QueueReader, replies: list[QueueWriter]) -> None:
        self._requests, self._replies = requests, replies

    async def collect(self, number: int, patience: float, idle: float | None = None) -> list[Request]:
        """Wait for a request, then for others for a while."""
        collected: list[Request] = []
        deadline = None
        while len(collected) < number:
            found = await self._requests.take(idle if deadline is None else max(deadline - time.monotonic(), 0.0))
            if found is None:
                break
            client, message = found
            collected.append(Request(client, message["value"], int(message["number"])))
            deadline = deadline or time.monotonic() + patience
        return collected

    async def reply(self, request: Request, value: Tree) -> None:
        """Answer one request."""
        await self._replies[request.client].put({"number": request.number, "value": value})
        self._requests.release_from(request.client)
