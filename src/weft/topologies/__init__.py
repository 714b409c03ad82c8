"""Topologies: where the parts of a run are and what travels between them; each a file of one screen."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from weft.errors import unknown

TOPOLOGIES = {
    "local": "weft.topologies.local",
}
"""Name -> the module whose function of the same name builds the program."""


def find(name: str) -> Callable[..., Any]:
    """Return the topology of this name."""
    if name not in TOPOLOGIES:
        raise unknown("topology", name, TOPOLOGIES)
    return getattr(importlib.import_module(TOPOLOGIES[name]), name)
