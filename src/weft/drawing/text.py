"""A program in words: its nodes, and the channels between them, in two tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from weft.drawing.folding import Link, counted, fold
from weft.program import Program, Queue

ARROWS = {"queue": "→", "mailbox": "→", "call": "↔"}


def described(program: Program) -> str:
    """Return a program as text."""
    groups, links = fold(program)
    lines = [headline(program), "", *_table([(group.name, group.fate) for group in groups])]
    if links:
        lines += ["", *_table([_row(link) for link in links])]
    return "\n".join(lines)


def headline(program: Program) -> str:
    """Return the name of a program and how many nodes it has of each role."""
    roles = Counter(node.role for node in program.nodes.values())
    return f"{program.name}: {', '.join(counted(number, role) for role, number in roles.items())}"


def manner(link: Link) -> str:
    """Return how a channel treats its messages."""
    channel = link.channels[0]
    if not isinstance(channel, Queue):
        return {"mailbox": "the newest version", "call": "answered as they come"}[link.kind]
    full = {"block": "blocks when full", "drop oldest": "drops the oldest when full"}[channel.full]
    if channel.layout is None:
        return full
    each = " for each" if sum(len(group.nodes) for group in link.senders) > 1 else ""
    return f"{counted(channel.capacity, 'slot')}{each}, {full}"


def sizes_of(link: Link) -> str:
    """Return how large a message is, and a reply."""
    if not link.sizes:
        return "objects"
    there, *back = (f"{size:,}" for size in link.sizes)
    return f"{there} bytes" + "".join(f", {size} back" for size in back)


def _row(link: Link) -> tuple[str, ...]:
    names = [" and ".join(group.name for group in side) for side in (link.senders, link.receivers)]
    many = f" x {len(link.channels)}" if len(link.channels) > 1 else ""
    return (link.name + many, link.kind, names[0], ARROWS[link.kind], names[1], sizes_of(link), manner(link))


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
