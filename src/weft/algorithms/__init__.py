"""Algorithms: one file each, readable from top to bottom, named after its paper."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from weft import names
from weft.errors import WeftError, unknown

ALGORITHMS = {
    "a2c": "weft.algorithms.a2c:a2c",
    "appo": "weft.algorithms.appo:appo",
    "dqn": "weft.algorithms.dqn:dqn",
    "impala": "weft.algorithms.impala:impala",
    "ppo": "weft.algorithms.ppo:ppo",
}
"""Name -> where its factory is: a function ``(config, spaces, torso=None) -> Algorithm`` whose ``config`` argument is
annotated with the settings class."""


def find(name: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the factory of a known name, of ``module:factory``, or the factory itself."""
    if callable(name):
        return name
    if name in ALGORITHMS:
        name = ALGORITHMS[name]
    elif ":" not in name:
        raise unknown("algorithm", name, ALGORITHMS)
    return names.find(name, "algorithm")


def settings_class(factory: Callable[..., Any]) -> type:
    """Return the class that the factory's ``config`` argument is annotated with."""
    kind = typing.get_type_hints(factory).get("config")
    if kind is None or not inspect.isclass(kind):
        raise WeftError(
            f"{factory.__name__} is not an algorithm: it needs an argument 'config' annotated with a dataclass."
        )
    return kind
