"""Settings: frozen dataclasses whose fields say their default, their range and, below them, their meaning."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import textwrap
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union

from weft.errors import WeftError, unknown

SettingsT = TypeVar("SettingsT")


def within(default: Any, low: float, high: float = float("inf")) -> Any:
    """Declare a number from ``low`` to ``high``, both included."""
    return dataclasses.field(default=default, metadata={"low": low, "high": high})


def positive(default: Any) -> Any:
    """Declare a number greater than 0."""
    return dataclasses.field(default=default, metadata={"above": 0.0})


def resolve(
    kind: type[SettingsT], values: Mapping[str, Any], where: str, default: SettingsT | None = None
) -> SettingsT:
    """Build settings of ``kind`` from nested values; a misspelt, mistyped or impossible one is refused.

    ``where`` names them in messages, e.g. ``ppo``. What is not given is as in ``default`` or else as declared.
    """
    hints = typing.get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    resolved = _declared(kind) if default is None else {name: getattr(default, name) for name in known}
    for name, value in values.items():
        if name not in known:
            raise unknown(f"setting of {where}", name, known)
        if dataclasses.is_dataclass(hints[name]) and isinstance(value, Mapping):
            value = resolve(hints[name], value, f"{where}.{name}", resolved.get(name))
        resolved[name] = value
    for name in known:
        if name not in resolved:
            raise WeftError(f"{where}.{name} has no default, so it must be given.")
    return _checked(kind(**resolved), where)


def _declared(kind: Any) -> dict[str, Any]:
    """Return the defaults of those fields that have one."""
    defaults = {}
    for field in dataclasses.fields(kind):
        if field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
        elif field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
    return defaults


def check(settings: SettingsT, where: str) -> SettingsT:
    """Return ``settings`` with every value of its declared type and range, or raise."""
    return _checked(settings, where)


def _checked(settings: SettingsT, where: str) -> SettingsT:
    hints = typing.get_type_hints(type(settings))
    changed = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        place, value = f"{where}.{field.name}", getattr(settings, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changed[field.name] = _checked(value, place)
            continue
        changed[field.name] = _converted(value, hints[field.name], place)
        _check_range(changed[field.name], field.metadata, place)
    return dataclasses.replace(settings, **changed)  # type: ignore[type-var]


def _check_range(value: Any, limits: Mapping[str, float], place: str) -> None:
    if value is None or not limits:
        return
    if "above" in limits and not value > limits["above"]:
        raise WeftError(f"{place} is {value}, but must be greater than {limits['above']:g}.")
    if "low" in limits and not limits["low"] <= value <= limits["high"]:
        bounds = (
            f"at least {limits['low']:g}"
            if limits["high"] == float("inf")
            else (f"from {limits['low']:g} to {limits['high']:g}")
        )
        raise WeftError(f"{place} is {value}, but must be {bounds}.")


def _converted(value: Any, hint: Any, place: str) -> Any:
    """Return ``value`` as the declared type, as far as nothing is lost: 1 for a float, a list for a tuple."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        errors = []
        for option in arguments:
            try:
                return _converted(value, option, place)
            except WeftError as error:
                errors.append(error)
        raise errors[0]
    if origin is Literal:
        if value in arguments:
            return value
        near = difflib.get_close_matches(str(value), [str(item) for item in arguments], n=1)
        hint_text = f"did you mean {near[0]!r}?" if near else f"it can be {', '.join(map(repr, arguments))}."
        raise WeftError(f"{place} is {value!r}: {hint_text}")
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise WeftError(f"{place} is {value!r}, but must be a list.")
        items = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(items) != len(value):
            raise WeftError(f"{place} is {value!r}, but must be a list of {len(items)}.")
        return tuple(_converted(item, kind, place) for item, kind in zip(value, items, strict=True))
    if origin is dict or hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
        raise WeftError(f"{place} is {value!r}, but must be of type {hint.__name__}.")
    return value


def meanings(kind: type) -> dict[str, str]:
    """Return what stands below each field of a settings class and of those it builds on: its meaning, in one line."""
    texts: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        if dataclasses.is_dataclass(part):
            texts |= _meanings_in(part)
    return texts


def _meanings_in(kind: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            texts[statement.target.id] = " ".join(str(following.value.value).split())
    return texts


def as_tree(settings: Any) -> dict[str, Any]:
    """Return settings as nested dicts."""
    return {
        field.name: as_tree(value) if dataclasses.is_dataclass(value) else value
        for field in dataclasses.fields(settings)
        for value in [getattr(settings, field.name)]
    }
