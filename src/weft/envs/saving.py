"""Save and restore Gymnasium environments exactly: everything that they hold, random generators included.

An environment is a stack of layers (vector environment, wrappers, the environment itself), and its state is the
attributes of these. They are pickled, while the layers themselves stay where they are and are only referred to. So
this works where pickling the objects would not be exact: ``EzPickle``, on which simulators in C++ rely, remembers
nothing but the arguments of the constructor. What cannot be pickled has no exact state: then ``save`` returns None.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
from gymnasium.utils import EzPickle
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv, VectorWrapper

from weft.types import Timestep

_CONSTANT = {"env_fns", "spec", "_cached_spec"}
"""Attributes that say how an environment was made, and that it was made with here too."""


def save(vector: VectorEnv, timestep: Timestep | None) -> bytes | None:
    """Return the state of ``vector`` and its current timestep, or None where it cannot be had."""
    if isinstance(vector.unwrapped, AsyncVectorEnv):
        return None
    stack = list(layers(vector))
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, stack).dump(([_attributes(layer) for layer in stack], timestep))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    return buffer.getvalue()


def restore(vector: VectorEnv, saved: bytes) -> Timestep:
    """Bring ``vector``, made in the same way as the one saved, into the saved state; returns the timestep then."""
    stack = list(layers(vector))
    attributes, timestep = _Unpickler(io.BytesIO(saved), stack).load()
    for layer, values in zip(stack, attributes, strict=True):
        held = vars(layer)
        for key, value in values.items():
            if isinstance(value, _EmulatorState):
                values[key] = held[key]
                held[key].restoreState(value.state)
        for key in held.keys() - values.keys() - _CONSTANT:
            del held[key]
        held.update(values)
    return timestep


def layers(environment: Any) -> Iterator[Any]:
    """Yield an environment and all that it wraps, outermost first."""
    yield environment
    if isinstance(environment, SyncVectorEnv):
        for inner in environment.envs:
            yield from layers(inner)
    elif isinstance(environment, gymnasium.Wrapper | VectorWrapper):
        yield from layers(environment.env)


class _EmulatorState(NamedTuple):
    """The state of an Atari emulator, its random generator included."""

    state: Any


def _attributes(layer: Any) -> dict[str, Any]:
    """Return what a layer holds; the emulator of an Atari game is replaced by its state."""
    values = {key: value for key, value in vars(layer).items() if key not in _CONSTANT}
    if not isinstance(layer, gymnasium.Wrapper):
        for key, value in values.items():
            if _is_emulator(value):
                values[key] = _EmulatorState(value.cloneState(include_rng=True))
    return values


def _is_emulator(value: Any) -> bool:
    return hasattr(value, "cloneState")


class _Pickler(pickle.Pickler):
    """Refers to layers (and to the emulators they hold) by their position."""

    def __init__(self, buffer: io.BytesIO, stack: list[Any]) -> None:
        super().__init__(buffer, protocol=5)
        self._places = {id(thing): place for place, thing in _shared(stack).items()}

    def persistent_id(self, thing: Any) -> tuple[int, str] | None:
        place = self._places.get(id(thing))
        if place is None and isinstance(thing, EzPickle | gymnasium.vector.VectorEnv):
            raise pickle.PicklingError(f"{type(thing).__name__} inside an environment")
        return place


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, stack: list[Any]) -> None:
        super().__init__(buffer)
        self._things = _shared(stack)

    def persistent_load(self, place: tuple[int, str]) -> Any:
        return self._things[place]


def _shared(stack: list[Any]) -> dict[tuple[int, str], Any]:
    """Return what stays in place: layers, the functions they were given, and their emulators."""
    things: dict[tuple[int, str], Any] = {}
    for number, layer in enumerate(stack):
        things[number, ""] = layer
        for key, value in vars(layer).items():
            if hasattr(value, "__code__") or _is_emulator(value):
                things[number, key] = value
    return things
