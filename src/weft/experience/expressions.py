"""Expressions: what is made of the steps of an item. Written as for one item, worked out on whole batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.experience import itemwise
from weft.experience.indexing import Place, axes_of, integer, integers, offsets_of, place_of, text_of

Path = tuple[str | int, ...]
"""Where a column is in the tree of one step: keys of dicts, numbers of the parts of tuples."""


@dataclass(frozen=True, repr=False)
class ColumnReference:
    """A column of the stream, of which ``[...]`` takes steps: ``[-1]`` is the newest, ``[-4:]`` the last four."""

    path: Path

    def __getitem__(self, time: int | slice) -> Expression:
        """Return the step [N, ...] or the steps [N, T, ...] at ``time``, counted back from the newest."""
        if isinstance(time, str):
            inside = ColumnReference((*self.path, time))
            raise WeftError(f"{self}[{time!r}] is not steps of an item: a column inside another is {inside}.")
        return Steps(self.path, offsets_of(repr(self), time), alone=not isinstance(time, slice))

    def __repr__(self) -> str:
        return f"column({', '.join(map(repr, self.path))})"


def column(*path: str | int) -> ColumnReference:
    """Name a column by its keys in the tree of a step; a subtree is served as a tree, no keys name the whole step."""
    for key in path:
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise WeftError(f"A column is named by strings and integers, not by {key!r}.")
    return ColumnReference(path)


class Expression(ABC):
    """What is made of the steps of an item: an array [N, ...] for a batch of N items, or a tree of arrays.

    Brackets and axes are those of one item. Two expressions are the same if they read the same.
    """

    __array_ufunc__ = None  # so that numpy leaves ``number * expression`` to the expression
    __iter__ = None  # otherwise iterating would call ``[0]``, ``[1]``, ... forever

    @property
    @abstractmethod
    def parts(self) -> tuple[Expression, ...]:
        """What this is made from."""

    @abstractmethod
    def compute(self, *arrays: np.ndarray) -> np.ndarray:
        """Return one leaf of the result, [N, ...], from those of the parts."""

    @abstractmethod
    def _written(self) -> str:
        """Return the source text."""

    @cached_property
    def text(self) -> str:
        """The source text, in one canonical form."""
        return self._written()

    @cached_property
    def reach(self) -> int:
        """How many steps back it reaches: 1 for the newest step alone."""
        return max(part.reach for part in self.parts)

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __getitem__(self, place: Place | tuple[Place, ...]) -> Expression:
        """Index every item as numpy does, with integers, slices, ``...`` and ``None``."""
        return Index(self, tuple(map(place_of, place if isinstance(place, tuple) else (place,))))

    def __add__(self, other: object) -> Expression:
        return Combine("+", self, _operand(other))

    def __radd__(self, other: object) -> Expression:
        return Combine("+", _operand(other), self)

    def __sub__(self, other: object) -> Expression:
        return Combine("-", self, _operand(other))

    def __rsub__(self, other: object) -> Expression:
        return Combine("-", _operand(other), self)

    def __mul__(self, other: object) -> Expression:
        return Combine("*", self, _operand(other))

    def __rmul__(self, other: object) -> Expression:
        return Combine("*", _operand(other), self)

    def sum(self, axis: int | Sequence[int] | None = None) -> Expression:
        """Sum over one axis, several, or all."""
        return Apply("sum", self, {"axis": axes_of(axis)})

    def mean(self, axis: int | Sequence[int] | None = None) -> Expression:
        """Average over one axis, several, or all."""
        return Apply("mean", self, {"axis": axes_of(axis)})

    def min(self, axis: int | Sequence[int] | None = None) -> Expression:
        """Take the smallest along one axis, several, or all."""
        return Apply("min", self, {"axis": axes_of(axis)})

    def max(self, axis: int | Sequence[int] | None = None) -> Expression:
        """Take the largest along one axis, several, or all."""
        return Apply("max", self, {"axis": axes_of(axis)})

    def product(self, axis: int | Sequence[int] | None = None) -> Expression:
        """Multiply along one axis, several, or all."""
        return Apply("product", self, {"axis": axes_of(axis)})

    def partial_products(self, axis: int = 0, exclusive: bool = False) -> Expression:
        """Multiply each element by all before it along ``axis``; ``exclusive``: only those before it, 1 at first."""
        return Apply("partial_products", self, {"axis": integer(axis), "exclusive": bool(exclusive)})

    def transpose(self, axes: Sequence[int]) -> Expression:
        """Reorder the axes."""
        return Apply("transpose", self, {"axes": integers(axes)})

    def reshape(self, shape: int | Sequence[int]) -> Expression:
        """Give every item another shape; one number may be -1."""
        return Apply("reshape", self, {"shape": integers(shape)})


def concatenate(parts: Sequence[Expression], axis: int = 0) -> Expression:
    """Join along an axis that the items have."""
    return Join("concatenate", _expressions(parts), integer(axis))


def stack(parts: Sequence[Expression], axis: int = 0) -> Expression:
    """Join items of equal shapes along a new axis."""
    return Join("stack", _expressions(parts), integer(axis))


@dataclass(frozen=True, eq=False, repr=False)
class Steps(Expression):
    """Steps of a column, with which everything begins."""

    path: Path
    offsets: range
    """Of the steps, back from -1, the newest."""
    alone: bool
    """Whether it is a single step, without an axis of time."""
    parts = ()

    @cached_property
    def reach(self) -> int:
        """How many steps back it reaches: 1 for the newest step alone."""
        return -self.offsets[0]

    def compute(self, *arrays: np.ndarray) -> np.ndarray:
        """Return the steps [N, ...], given all from the first to the last of them, [N, window, ...]."""
        (window,) = arrays
        return window[:, 0] if self.alone else window[:, :: self.offsets.step]

    def _written(self) -> str:
        start, stop, step = self.offsets.start, self.offsets.stop, self.offsets.step
        return f"{ColumnReference(self.path)}[{start if self.alone else text_of(slice(start, stop or None, step))}]"


@dataclass(frozen=True, eq=False, repr=False)
class Index(Expression):
    """A part of every item."""

    whole: Expression
    place: tuple[Place, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """What is indexed."""
        return (self.whole,)

    def compute(self, *arrays: np.ndarray) -> np.ndarray:
        """Return a view [N, ...]."""
        (whole,) = arrays
        return itemwise.index(whole, self.place)

    def _written(self) -> str:
        return f"{_within(self.whole, 3)}[{', '.join(map(text_of, self.place)) or '()'}]"


@dataclass(frozen=True, eq=False, repr=False)
class Apply(Expression):
    """A function of one expression, from the table ``itemwise.UNARY``."""

    function: str
    argument: Expression
    options: dict[str, Any]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """What the function is applied to."""
        return (self.argument,)

    def compute(self, *arrays: np.ndarray) -> np.ndarray:
        """Return the value of the function, [N, ...]."""
        return itemwise.UNARY[self.function](*arrays, **self.options)

    def _written(self) -> str:
        given = ((name, value) for name, value in self.options.items() if value is not None and value is not False)
        return f"{_within(self.argument, 3)}.{self.function}({', '.join(f'{name}={value!r}' for name, value in given)})"


@dataclass(frozen=True, eq=False, repr=False)
class Join(Expression):
    """Several expressions behind each other."""

    function: str
    joined: tuple[Expression, ...]
    axis: int

    @property
    def parts(self) -> tuple[Expression, ...]:
        """What is joined."""
        return self.joined

    def compute(self, *arrays: np.ndarray) -> np.ndarray:
        """Return a new array [N, ...]."""
        return itemwise.JOINS[self.function](arrays, self.axis)

    def _written(self) -> str:
        axis = f", axis={self.axis}" if self.axis else ""
        return f"{self.function}([{', '.join(part.text for part in self.parts)}]{axis})"


@dataclass(frozen=True, eq=False, repr=False)
class Combine(Expression):
    """Elementwise arithmetic on two expressions, or on one and a number."""

    operator: str
    left: Expression | float
    right: Expression | float

    @property
    def binding(self) -> int:
        """How tightly the operation binds: 1 sums, 2 products."""
        return 2 if self.operator == "*" else 1

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The operands that are not numbers."""
        return tuple(operand for operand in (self.left, self.right) if isinstance(operand, Expression))

    def compute(self, *arrays: np.ndarray) -> np.ndarray:
        """Return a floating array [N, ...]."""
        values = iter(itemwise.aligned(arrays))
        operands = (next(values) if isinstance(side, Expression) else side for side in (self.left, self.right))
        return itemwise.OPERATORS[self.operator](*operands)

    def _written(self) -> str:
        return f"{_within(self.left, self.binding)} {self.operator} {_within(self.right, self.binding + 1)}"


def _within(part: Expression | float, binding: int) -> str:
    """Return the text of an operand of what binds so tightly: 1 a sum, 2 a product, 3 everything else."""
    return f"({part})" if isinstance(part, Combine) and part.binding < binding else repr(part)


def _operand(value: object) -> Expression | float:
    if isinstance(value, Expression):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    raise WeftError(f"Steps of columns and numbers can be added, subtracted and multiplied, not {described(value)}.")


def _expressions(parts: Any) -> tuple[Expression, ...]:
    if not isinstance(parts, list | tuple) or not parts:
        raise WeftError(f"What is joined is a list of steps of columns, not {described(parts)}.")
    if wrong := [part for part in parts if not isinstance(part, Expression)]:
        raise WeftError(f"What is joined is a list of steps of columns, without {described(wrong[0])}.")
    return tuple(parts)


def described(value: object) -> str:
    """Return what to call something that is not an expression."""
    if isinstance(value, ColumnReference):
        return f"{value}, which is a column without steps such as {value}[-1]"
    return f"{value!r} of type {type(value).__name__}"
