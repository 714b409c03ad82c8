"""Runtimes: how the nodes of a program are started, connected, watched and stopped."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from weft.errors import unknown

if TYPE_CHECKING:
    from weft.runtime.execution import Execution

RUNTIMES = {
    "inline": "weft.runtime.inline:Inline",
    "processes": "weft.runtime.processes:Processes",
    "threads": "weft.runtime.threads:Threads",
}
"""Name -> the class that executes programs: made of a program and options, its ``run`` does it."""


def find(name: str) -> type[Execution]:
    """Return the runtime of this name."""
    if name not in RUNTIMES:
        raise unknown("runtime", name, RUNTIMES)
    module, _, kind = RUNTIMES[name].partition(":")
    return getattr(importlib.import_module(module), kind)
