"""Runtimes: how the nodes of a program are started, connected, watched and stopped."""

from __future__ import annotations

from collections.abc import Callable

from weft.errors import unknown
from weft.program import Program
from weft.runtime.inline import inline

RUNTIMES: dict[str, Callable[[Program], None]] = {"inline": inline}


def find(name: str) -> Callable[[Program], None]:
    """Return the runtime of this name."""
    if name not in RUNTIMES:
        raise unknown("runtime", name, RUNTIMES)
    return RUNTIMES[name]
