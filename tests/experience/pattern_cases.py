"""Expressions drawn at random, each with what it means for one item, in ordinary numpy on that item's own stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from weft.experience.expressions import Expression
from weft.experience.patterns import column, concatenate, stack
from weft.program import Leaf
from weft.trees import map_tree

LAYOUT = {
    "observation": {"camera": Leaf((3, 2), "uint8"), "arm": (Leaf((2,), "float32"), Leaf((), "float64"))},
    "reward": Leaf((), "float32"),
    "discount": Leaf((), "float32"),
    "valid": Leaf((), "bool"),
    "action": Leaf((3,), "int32"),
}
PATHS = [("observation", "camera"), ("observation", "arm", 0), ("reward",), ("valid",), ("action",)]
LENGTH = 12

Stream = Any
"""The tree of a step with leaves [t, ...]: all steps until an item's newest one."""


def stream_of(seed: int) -> Stream:
    random = np.random.default_rng(seed)

    def steps(leaf: Leaf) -> np.ndarray:
        drawn = random.integers(0, 4, (LENGTH, *leaf.shape))
        return (drawn * 0.5 - 0.5 if "float" in leaf.dtype else drawn).astype(leaf.dtype)

    return map_tree(steps, LAYOUT)


def at_path(tree: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def until(stream: Stream, newest: int) -> Stream:
    return map_tree(lambda leaf: leaf[: newest + 1], stream)


class Gathering:
    """What a store does: take windows of steps of items that end at ``newest``."""

    def __init__(self, stream: Stream, newest: list[int], span: int) -> None:
        self.stream, self.oldest = stream, np.array(newest) - span + 1
        self.calls: list[tuple[Any, int, int]] = []

    def __call__(self, path: tuple[str | int, ...], begin: int, stop: int) -> Any:
        self.calls.append((path, begin, stop))
        places = self.oldest[:, None] + np.arange(begin, stop)
        assert places.min() >= 0, "beyond the item"
        return map_tree(lambda leaf: leaf[places], at_path(self.stream, path))


class Case(NamedTuple):
    """An expression, and what it means for one item's stream."""

    expression: Expression
    model: Callable[[Stream], np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.model(stream_of(0)).shape


def floats(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32) if values.dtype.kind in "biu" else values


def together(*arrays: np.ndarray) -> list[np.ndarray]:
    return [floats(array) for array in arrays] if any(array.dtype.kind == "f" for array in arrays) else list(arrays)


def partial_products(values: np.ndarray, axis: int, exclusive: bool) -> np.ndarray:
    rows = np.moveaxis(floats(values), axis, 0)
    products, running = [], np.ones_like(rows[0])
    for row in rows:
        products.append(running if exclusive else running * row)
        running = running * row
    return np.moveaxis(np.stack(products), 0, axis)


@st.composite
def times(draw: st.DrawFn) -> int | slice:
    if draw(st.booleans()):
        return draw(st.integers(-5, -1))
    start = draw(st.integers(-5, -1))
    stop = draw(st.sampled_from([None, *range(start + 1, 0)]))
    return slice(start, stop, draw(st.sampled_from([None, 1, 2, 3])))


@st.composite
def leaves(draw: st.DrawFn) -> Case:
    path, time = draw(st.sampled_from(PATHS)), draw(times())
    return Case(column(*path)[time], lambda stream: at_path(stream, path)[time])


@st.composite
def indexed(draw: st.DrawFn, case: Case) -> Case:
    place: list[Any] = []
    for size in case.shape[: draw(st.integers(0, len(case.shape)))]:
        start = draw(st.integers(-size, size - 1))
        part = st.sampled_from([start, slice(start, None), slice(None, None, -1), slice(0, size + 5, 2), slice(None)])
        place.append(draw(part))
    if draw(st.booleans()):
        place.insert(draw(st.integers(0, len(place))), None)
    if draw(st.booleans()):
        place.append(...)
    return Case(case.expression[tuple(place)], lambda stream: case.model(stream)[tuple(place)])


@st.composite
def reduced(draw: st.DrawFn, case: Case) -> Case:
    rank = len(case.shape)
    choices: list[Any] = [None]
    if rank:
        choices += [*range(-rank, rank), tuple(draw(st.sets(st.integers(0, rank - 1))))]
    axis, name = draw(st.sampled_from(choices)), draw(st.sampled_from(["sum", "mean", "min", "max", "product"]))
    convert = floats if name in ("sum", "mean", "product") else np.asarray
    function = {"product": np.prod}.get(name) or getattr(np, name)
    return Case(
        getattr(case.expression, name)(axis=axis),
        lambda stream: np.asarray(function(convert(case.model(stream)), axis=axis)),
    )


@st.composite
def rearranged(draw: st.DrawFn, case: Case) -> Case:
    rank = len(case.shape)
    size = int(np.prod(case.shape, dtype=int))
    kinds = ["reshape"] + ["transpose", "partial_products"] * (rank > 0)
    match draw(st.sampled_from(kinds)):
        case "reshape":
            shape = draw(st.sampled_from([-1, size, (1, -1), (size, 1), (*case.shape[::-1],), (*case.shape, 1)]))
            return Case(case.expression.reshape(shape), lambda stream: case.model(stream).reshape(shape))
        case "transpose":
            axes = [axis - rank * draw(st.integers(0, 1)) for axis in draw(st.permutations(range(rank)))]
            return Case(case.expression.transpose(axes), lambda stream: case.model(stream).transpose(axes))
        case _:
            axis, exclusive = draw(st.integers(-rank, rank - 1)), draw(st.booleans())
            return Case(
                case.expression.partial_products(axis, exclusive),
                lambda stream: partial_products(case.model(stream), axis, exclusive),
            )


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


@st.composite
def combined(draw: st.DrawFn, case: Case) -> Case:
    apply = OPERATORS[draw(st.sampled_from(sorted(OPERATORS)))]
    if draw(st.booleans()):
        number, after = draw(st.sampled_from([2, -1, 0.5, -1.5, np.float64(0.25), np.int64(3)])), draw(st.booleans())
        plain = number.item() if isinstance(number, np.generic) else number
        if after:
            return Case(apply(case.expression, number), lambda stream: apply(floats(case.model(stream)), plain))
        return Case(apply(number, case.expression), lambda stream: apply(plain, floats(case.model(stream))))
    fitting = [draw(leaves()), case]
    if case.shape:
        fitting.append(Case(case.expression.max(axis=0), lambda stream: case.model(stream).max(axis=0)))
        fitting.append(Case(case.expression[:1], lambda stream: case.model(stream)[:1]))
    other = draw(st.sampled_from([other for other in fitting if _broadcast(case.shape, other.shape)]))
    first, second = draw(st.permutations([case, other]))
    return Case(
        apply(first.expression, second.expression),
        lambda stream: np.asarray(apply(floats(first.model(stream)), floats(second.model(stream)))),
    )


def _broadcast(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


@st.composite
def joined(draw: st.DrawFn, case: Case) -> Case:
    rank, function = len(case.shape), draw(st.sampled_from(["stack", "concatenate"]))
    double = Case(case.expression * 2, lambda stream: floats(case.model(stream)) * 2)
    if function == "stack" or not rank:
        axis, parts = draw(st.integers(-rank - 1, rank)), draw(st.permutations([case, double, case]))
        return Case(
            stack([part.expression for part in parts], axis),
            lambda stream: np.stack(together(*(part.model(stream) for part in parts)), axis),
        )
    axis = draw(st.integers(-rank, rank - 1))
    place = (*(slice(None),) * (axis % rank), slice(1))
    begun = Case(case.expression[place], lambda stream: case.model(stream)[place])
    parts = draw(st.permutations([case, begun, draw(st.sampled_from([case, double]))]))
    return Case(
        concatenate([part.expression for part in parts], axis),
        lambda stream: np.concatenate(together(*(part.model(stream) for part in parts)), axis),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    case = draw(leaves())
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from([indexed, reduced, rearranged, combined, joined]))
        case = draw(kind(case))
    return case
