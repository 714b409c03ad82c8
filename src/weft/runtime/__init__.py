"""Runtimes: how the nodes of a program are started, connected, watched and stopped."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from weft.errors import unknown
from weft.program import Program

RUNTIMES = {
    "inline": "weft.runtime.inline",
}
"""Name -> the module whose function of the same name runs a program."""


def find(name: str) -> Callable[[Program], None]:
    """Return the runtime of this name."""
    if name not in RUNTIMES:
        raise unknown("runtime", name, RUNTIMES)
    return getattr(importlib.import_module(RUNTIMES[name]), name)
