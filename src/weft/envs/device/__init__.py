"""Environments written in JAX: pure functions, so that a whole training program can be compiled around them."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, get_type_hints

from weft import errors
from weft.envs.base import DeviceEnvironment

_CLASSES = {
    "Acrobot-v1": "acrobot:Acrobot",
    "CartPole-no-velocity": "cartpole:CartPoleNoVelocity",
    "CartPole-v1": "cartpole:CartPole",
    "Catch": "catch:Catch",
    "DeepSea": "deep_sea:DeepSea",
    "MemoryChain": "memory_chain:MemoryChain",
    "MountainCar-v0": "mountain_car:MountainCar",
    "MountainCarContinuous-v0": "mountain_car:MountainCarContinuous",
    "Pendulum-v1": "pendulum:Pendulum",
    "RepeatPrevious": "repeat_previous:RepeatPrevious",
}
"""Where each environment is defined; imported only when it is made, because that needs JAX."""

IDS = tuple(_CLASSES)


def make(id: str, **settings: Any) -> DeviceEnvironment:
    """Make a device environment by its id; ``settings`` are the fields of its dataclass.

    >>> make("DeepSea", size=20).observation_space.shape
    (20, 20)
    """
    if id not in _CLASSES:
        raise errors.unknown("device environment", id, IDS)
    module, name = _CLASSES[id].split(":")
    factory = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    types = get_type_hints(factory)
    known = {field.name: types[field.name] for field in dataclasses.fields(factory)}
    for setting, value in settings.items():
        if setting not in known:
            raise errors.unknown(f"setting of {id}", setting, known)
        if not isinstance(value, int | float if known[setting] is float else known[setting]):
            raise errors.WeftError(f"The setting {setting} of {id} cannot be {value!r}.")
    environment = factory(**settings)
    if environment.time_limit is not None and environment.time_limit < 1:
        raise errors.WeftError(f"The time_limit of {id} is at least 1, not {environment.time_limit}.")
    return environment
