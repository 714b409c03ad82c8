"""A program folded for reading: nodes that play the same part are one group, channels between the same groups one link.

Nodes are alike if no walk along the channels tells them apart: their colours are refined until nothing changes
(Weisfeiler and Leman 1968). So actors of one learner become one group, and so do learners with the same neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.program import Call, Channel, Leaf, Mailbox, NodeSpec, Program, Queue
from weft.trees import map_tree
from weft.types import Tree

SENDING = {"queue": "into", "mailbox": "into", "call": "client"}
RECEIVING = {"queue": "out", "mailbox": "out", "call": "server"}


@dataclass(frozen=True, eq=False)
class Group:
    """Nodes that play the same part."""

    role: str
    nodes: tuple[NodeSpec, ...]

    @property
    def name(self) -> str:
        """Return the names of the nodes in short, such as ``actors 0-3``."""
        if len(self.nodes) == 1:
            return self.nodes[0].name
        numbers = sorted(int(node.name.split()[-1]) for node in self.nodes)
        return f"{self.role}s {_ranges(numbers)}"

    @property
    def main(self) -> bool:
        """Whether it is the node that the program ends with."""
        return self.nodes[0].main

    @property
    def fate(self) -> str:
        """What becomes of the program when one of them crashes."""
        if self.main:
            return "the main node: in the calling process, and the program ends with it"
        return "made anew after a crash" if self.nodes[0].restarts else "a crash ends the program"


@dataclass(frozen=True, eq=False)
class Link:
    """Channels that connect the same groups in the same way."""

    channels: tuple[Channel, ...]
    senders: tuple[Group, ...]
    receivers: tuple[Group, ...]

    @property
    def kind(self) -> str:
        """Return queue, mailbox or call."""
        return kind_of(self.channels[0])

    @property
    def name(self) -> str:
        """Return the name of the only channel, or the word that the names of all begin with."""
        name = self.channels[0].name
        return name if len(self.channels) == 1 else name.split()[0]

    @property
    def carries_experience(self) -> bool:
        """Whether its messages are made of agent steps."""
        channel = self.channels[0]
        return isinstance(channel, Queue) and channel.weight > 0

    @property
    def sizes(self) -> list[int]:
        """Bytes of a message, and of a reply if there is one; nothing for objects of any size."""
        channel = self.channels[0]
        layouts = [channel.layout, *([channel.reply] if isinstance(channel, Call) else [])]
        return [bytes_of(layout) for layout in layouts if layout is not None]

    @property
    def groups(self) -> set[Group]:
        """All that it connects."""
        return {*self.senders, *self.receivers}


def fold(program: Program) -> tuple[list[Group], list[Link]]:
    """Return the groups and the links between them, in the order of the program."""
    colours = _refined(program)
    members: dict[int, list[NodeSpec]] = defaultdict(list)
    for node in program.nodes.values():
        members[colours[node.name]].append(node)
    groups = {colour: Group(nodes[0].role, tuple(nodes)) for colour, nodes in members.items()}
    group_of = {node.name: groups[colours[node.name]] for node in program.nodes.values()}
    alike: dict[Any, list[Channel]] = defaultdict(list)
    ends: dict[Any, tuple[tuple[Group, ...], tuple[Group, ...]]] = {}
    for channel in program.channels.values():
        kind = kind_of(channel)
        sides = tuple(
            _distinct(group_of[node.name] for node in program.users(channel, end[kind])) for end in (SENDING, RECEIVING)
        )
        key = (_nature(channel), *(tuple(map(id, side)) for side in sides))
        alike[key].append(channel)
        ends[key] = sides[0], sides[1]
    return list(groups.values()), [Link(tuple(channels), *ends[key]) for key, channels in alike.items()]


def kind_of(channel: Channel) -> str:
    """Return what a channel is called."""
    return {Queue: "queue", Mailbox: "mailbox", Call: "call"}[type(channel)]


def bytes_of(layout: Tree) -> int:
    """Return how many bytes of data a message has."""
    total = 0

    def add(leaf: Leaf | None) -> None:
        nonlocal total
        total += 0 if leaf is None else leaf.size * np.dtype(leaf.dtype).itemsize

    map_tree(add, layout)
    return total


def counted(number: int, word: str) -> str:
    """Return a number and the word for that many.

    >>> counted(1, "slot"), counted(2, "slot")
    ('1 slot', '2 slots')
    """
    return f"{number} {word}{'' if number == 1 else 's'}"


def _nature(channel: Channel) -> Any:
    """Return all that is known of a channel but which one of its like it is."""
    more = (channel.capacity, channel.full, channel.weight) if isinstance(channel, Queue) else ()
    reply = channel.reply if isinstance(channel, Call) else None
    return channel.name.split()[0], type(channel).__name__, str(channel.layout), str(reply), more


def _refined(program: Program) -> dict[str, int]:
    """Return a number for each node, the same for those that play the same part."""
    natures = {name: hash(_nature(channel)) for name, channel in program.channels.items()}
    colours = _numbered({node.name: (node.role, node.factory, node.main) for node in program.nodes.values()})
    while True:
        seen = {
            name: sorted((end, colours[node.name]) for end in _ends(channel) for node in program.users(channel, end))
            for name, channel in program.channels.items()
        }
        finer = _numbered(
            {
                node.name: (
                    colours[node.name],
                    tuple(
                        sorted(
                            (natures[port.channel.name], port.end, tuple(seen[port.channel.name]))
                            for port in node.ports()
                        )
                    ),
                )
                for node in program.nodes.values()
            }
        )
        if len(set(finer.values())) == len(set(colours.values())):
            return finer
        colours = finer


def _ends(channel: Channel) -> tuple[str, str]:
    kind = kind_of(channel)
    return SENDING[kind], RECEIVING[kind]


def _numbered(signatures: dict[str, Any]) -> dict[str, int]:
    numbers: dict[Any, int] = {}
    return {name: numbers.setdefault(signature, len(numbers)) for name, signature in signatures.items()}


def _distinct(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(dict.fromkeys(groups))


def _ranges(numbers: list[int]) -> str:
    """Return numbers in short.

    >>> _ranges([0, 1, 2, 3]), _ranges([0, 2]), _ranges([0, 2, 4, 6, 8, 10])
    ('0-3', '0, 2', '0, 2 ... 10')
    """
    pieces: list[list[int]] = []
    for number in numbers:
        if pieces and pieces[-1][-1] == number - 1:
            pieces[-1].append(number)
        else:
            pieces.append([number])
    texts = [f"{piece[0]}-{piece[-1]}" if len(piece) > 1 else str(piece[0]) for piece in pieces]
    return ", ".join(texts) if len(texts) <= 4 else f"{texts[0]}, {texts[1]} ... {texts[-1]}"
