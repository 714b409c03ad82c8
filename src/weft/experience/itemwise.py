"""numpy on batches [N, ...] of items, N >= 1, as if there were one item: axes, indices and shapes leave the batch out.

Selecting, joining, ``min`` and ``max`` keep the dtype. Arithmetic (``+ - *``, ``sum``, ``mean``, ``product``,
``partial_products``) is done in floats: floating arrays keep their precision, integers and bools become float32, so
that differences of uint8 frames do not wrap around and masks multiply as 0 and 1. Integers that are joined with floats
become float32 too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from weft.experience.indexing import Axes, Place


def index(values: np.ndarray, place: tuple[Place, ...]) -> np.ndarray:
    """Return a view, by basic indexing; slices are cut off at the end as numpy does, but have to leave something."""
    chosen: np.ndarray = values[(slice(None), *place)]
    if values.size and not chosen.size:
        raise IndexError("nothing is left")
    return chosen


def partial_products(values: np.ndarray, axis: int, exclusive: bool) -> np.ndarray:
    """Return the product of each element and all before it along ``axis``; ``exclusive``: of those before it."""
    along = normalize_axis_index(axis, values.ndim - 1) + 1
    products: np.ndarray = np.cumprod(values, along, dtype=_in_floats(values))
    if exclusive:
        products = np.roll(products, 1, along)
        np.moveaxis(products, along, 0)[0] = 1
    return products


def transpose(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return a view with the axes in another order."""
    return values.transpose(0, *_counted(values, axes))


def reshape(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the items in another shape."""
    return values.reshape(len(values), *shape)


UNARY: dict[str, Callable[..., np.ndarray]] = {
    "sum": lambda values, axis: np.asarray(np.sum(values, _counted(values, axis), dtype=_in_floats(values))),
    "mean": lambda values, axis: np.asarray(np.mean(values, _counted(values, axis), dtype=_in_floats(values))),
    "product": lambda values, axis: np.prod(values, _counted(values, axis), dtype=_in_floats(values)),
    "min": lambda values, axis: np.min(values, _counted(values, axis)),
    "max": lambda values, axis: np.max(values, _counted(values, axis)),
    "partial_products": partial_products,
    "transpose": transpose,
    "reshape": reshape,
}
"""Functions of one array, by the name under which expressions offer them."""


def concatenate(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Join along an axis that the items have."""
    along = normalize_axis_index(axis, arrays[0].ndim - 1) + 1
    return np.concatenate(arrays, along, dtype=_common(arrays))


def stack(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Join items of equal shapes along a new axis."""
    along = normalize_axis_index(axis, arrays[0].ndim) + 1
    return np.stack(arrays, along, dtype=_common(arrays))


JOINS = {"concatenate": concatenate, "stack": stack}
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def aligned(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return floating arrays of one dtype and rank, whose items broadcast as numpy broadcasts single items."""
    dtype = np.result_type(*(_in_floats(array) or array.dtype for array in arrays))
    rank = max(array.ndim for array in arrays)
    return [
        array.reshape(len(array), *(1,) * (rank - array.ndim), *array.shape[1:]).astype(dtype, copy=False)
        for array in arrays
    ]


def _counted(values: np.ndarray, axis: Axes) -> tuple[int, ...]:
    """Return axes of items (None for all) as axes of the batch."""
    rank = values.ndim - 1
    axes = range(rank) if axis is None else normalize_axis_tuple(axis, rank)
    return tuple(axis + 1 for axis in axes)


def _in_floats(values: np.ndarray) -> type[np.float32] | None:
    """Return float32 for bools and integers; None, which to numpy is their own dtype, for floats."""
    return np.float32 if values.dtype.kind in "biu" else None


def _common(arrays: Sequence[np.ndarray]) -> np.dtype:
    """Return the dtype to join in: where some are floats, bools and integers count as float32."""
    if all(_in_floats(array) for array in arrays):
        return np.result_type(*arrays)
    return np.result_type(*(_in_floats(array) or array.dtype for array in arrays))
