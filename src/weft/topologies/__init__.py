"""Topologies: where the parts of a run are and what travels between them; each a file of one screen."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import WeftError, unknown
from weft.experience.kinds import Replay, Unrolls

if TYPE_CHECKING:
    from weft.program import Program
    from weft.topologies.job import Job, Work


class Place(NamedTuple):
    """Where a topology is, what it serves, and the runtime that suits it if none is chosen."""

    module: str
    serves: tuple[type, ...]
    runtime: str


TOPOLOGIES = {
    "a3c": Place("weft.topologies.a3c", (Unrolls,), "processes"),
    "impala": Place("weft.topologies.impala", (Unrolls,), "processes"),
    "local": Place("weft.topologies.local", (Unrolls, Replay), "inline"),
    "sync": Place("weft.topologies.sync", (Unrolls,), "processes"),
}
"""Name -> the place of the module whose function of the same name builds the program."""


def place(name: str) -> Place:
    """Return where the topology of this name is."""
    if name not in TOPOLOGIES:
        raise unknown("topology", name, TOPOLOGIES)
    return TOPOLOGIES[name]


def find(name: str) -> Callable[[Job], Program]:
    """Return the topology of this name."""
    return getattr(_module(name), name)


def settings_class(name: str) -> type:
    """Return the class of a topology's settings."""
    from weft.topologies.job import NoSettings

    return getattr(_module(name), "Settings", NoSettings)


def check(name: str, algorithm: str, work: Work, settings: Any) -> None:
    """Refuse what a topology cannot do with an algorithm, before anything is begun."""
    experience = work.algorithm.experience
    if isinstance(experience, place(name).serves):
        _module(name).check(work, settings)
        return
    fitting = [other for other, served in TOPOLOGIES.items() if isinstance(experience, served.serves)]
    raise WeftError(
        f"{algorithm} learns from {_IN_WORDS[type(experience)]}, which {name} has no place for: "
        f"use --topology {' or '.join(fitting)}."
    )


_IN_WORDS = {Unrolls: "fresh unrolls", Replay: "a replay"}


def _module(name: str) -> ModuleType:
    return importlib.import_module(place(name).module)
