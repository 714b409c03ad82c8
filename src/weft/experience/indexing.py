"""What stands in brackets and for axes in expressions: checked, in one canonical form, and written as source text."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import Any

from weft.errors import WeftError

Axes = int | tuple[int, ...] | None
Place = int | slice | EllipsisType | None


def offsets_of(name: str, time: Any) -> range:
    """Return the steps of a column that ``time`` asks for, counted back from -1, the newest."""
    place = place_of(time)
    start, stop, step = (place.start, place.stop, place.step) if isinstance(place, slice) else (place, None, None)
    if isinstance(start, int) and start < 0 and (stop is None or stop < 0) and (step is None or step > 0):
        offsets = range(start, stop or 0, step or 1) if isinstance(place, slice) else range(start, start + 1)
        if offsets:
            return offsets
    raise WeftError(
        f"{name}[{text_of(place)}] is not steps of an item: they are counted back from the newest, "
        "as in [-1], [-4:], [-4:-1] or [-5::2]."
    )


def place_of(part: Any) -> Place:
    """Return an integer, slice, ``...`` or None in canonical form."""
    if isinstance(part, slice):
        return slice(*(None if bound is None else integer(bound) for bound in (part.start, part.stop, part.step)))
    return part if part is None or part is Ellipsis else integer(part)


def text_of(place: Place) -> str:
    """Return how a place is written in brackets."""
    if not isinstance(place, slice):
        return "..." if place is Ellipsis else repr(place)
    start, stop = ("" if bound is None else str(bound) for bound in (place.start, place.stop))
    return f"{start}:{stop}" if place.step in (None, 1) else f"{start}:{stop}:{place.step}"


def integer(number: Any) -> int:
    """Return a Python integer for anything that is one."""
    try:
        if not isinstance(number, bool):
            return operator.index(number)
    except TypeError:
        pass
    raise WeftError(f"Steps, indices, axes and shapes are integers, not {number!r}.")


def integers(numbers: Any) -> tuple[int, ...]:
    """Return a tuple of integers for several or for one."""
    return tuple(map(integer, numbers)) if isinstance(numbers, list | tuple) else (integer(numbers),)


def axes_of(axis: Any) -> Axes:
    """Return one axis, several, or None for all."""
    if axis is None:
        return None
    return integers(axis) if isinstance(axis, list | tuple) else integer(axis)
