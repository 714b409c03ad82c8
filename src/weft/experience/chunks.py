"""Storage of steps: chunks of consecutive steps of one stream, each stored once however many items refer to it.

A chunk is a row of slots for ``length`` steps. The *place* of a step is ``chunk * length + offset``. A chunk knows the
one that follows it in its stream, so that whatever begins at a place can be followed from there. Chunks that nothing
refers to any more are used again (the idea of Reverb, Cassirer et al. 2021, arXiv:2102.04736).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.experience.columns import Column, CompressedColumn, Compression, column_of
from weft.program import Leaf
from weft.trees import map_tree
from weft.types import Tree

NOWHERE = -1


class Chunks:
    """Columns of steps, in chunks that are counted while something refers to them."""

    def __init__(self, layout: Tree, length: int, number: int, compression: Compression | None = None) -> None:
        self.layout = layout
        self.length = length
        self.number = number
        self.columns: Tree = map_tree(lambda leaf: column_of(leaf, length, number, compression), layout)
        self._named: list[tuple[str, Column]] = named_leaves(self.columns)
        self._forms = [(leaf.shape, np.dtype(leaf.dtype)) for _, leaf in named_leaves(layout)]
        self._following = np.full(number, NOWHERE)
        self._references = np.zeros(number, np.int64)
        self._free = np.arange(number)[::-1].copy()
        """A stack of chunks that may be used; what was used last is used next, as its memory is there already."""
        self.free = number

    @property
    def used(self) -> int:
        """Chunks that something refers to."""
        return self.number - self.free

    @property
    def nbytes(self) -> int:
        """Bytes that the steps in use take."""
        return sum(column.nbytes(self.used) for _, column in self._named)

    def compression(self) -> dict[str, float]:
        """Return how many times smaller chunks were made, and the seconds that it took; empty without compression."""
        squeezed = [column for _, column in self._named if isinstance(column, CompressedColumn)]
        if not squeezed:
            return {}
        raw, stored = (sum(getattr(column, name) for column in squeezed) for name in ("raw_bytes", "stored_bytes"))
        return {
            "ratio": raw / max(stored, 1),
            "compressing_seconds": sum(column.compressing_seconds for column in squeezed),
            "expanding_seconds": sum(column.expanding_seconds for column in squeezed),
        }

    def open(self, number: int) -> np.ndarray:
        """Return new chunks [number], each referred to once."""
        if number > self.free:
            self._grow(max(self.number + self.number // 2, self.number + number))
        chunks = self._free[self.free - number : self.free][::-1].copy()
        self.free -= number
        self._references[chunks] = 1
        self._following[chunks] = NOWHERE
        return chunks

    def link(self, chunks: np.ndarray, following: np.ndarray) -> None:
        """Say which chunks follow these."""
        self._following[chunks] = following

    def close(self, chunks: np.ndarray) -> None:
        """Say that nothing more will be written into these."""
        for _, column in self._named:
            column.close(chunks)

    def hold(self, chunks: np.ndarray) -> None:
        """Count one more reference to each of ``chunks`` [N], which may repeat."""
        if len(chunks) == 1:
            self._references[chunks] += 1
        else:
            np.add.at(self._references, chunks, 1)

    def drop(self, chunks: np.ndarray) -> None:
        """Count one reference less to each of ``chunks`` [N], which may repeat."""
        np.subtract.at(self._references, chunks, 1)
        unused = chunks[self._references[chunks] == 0]
        if not len(unused):
            return
        unused = np.unique(unused)
        self._free[self.free : self.free + len(unused)] = unused[::-1]
        self.free += len(unused)
        for _, column in self._named:
            column.forget(unused)

    def hold_items(self, begins: np.ndarray, spans: np.ndarray) -> None:
        """Refer to all chunks of items [N] that begin at places and go on for ``spans`` steps."""
        self.hold(self.chunks_of(begins, spans))

    def drop_items(self, begins: np.ndarray, spans: np.ndarray) -> None:
        """Give up what ``hold_items`` refers to."""
        if len(begins):
            self.drop(self.chunks_of(begins, spans))

    def chunks_of(self, begins: np.ndarray, spans: np.ndarray) -> np.ndarray:
        """Return the chunks of items, one after the other; a chunk comes as often as items have it."""
        chunks, offsets = np.divmod(begins, self.length)
        more = (offsets + spans - 1) // self.length
        if not np.count_nonzero(more):
            return chunks
        found = [chunks]
        while np.count_nonzero(far := more > 0):
            chunks, more = self._following[chunks[far]], more[far] - 1
            found.append(chunks)
        return np.concatenate(found)

    def later(self, places: np.ndarray, steps: int) -> np.ndarray:
        """Return the places that many steps later in the same streams."""
        flat = places.reshape(-1) + steps
        over = np.flatnonzero(flat % self.length < steps % self.length) if steps < self.length else np.arange(len(flat))
        if len(over):
            begins = places.reshape(-1)[over]
            offsets, chunks = begins % self.length + steps, begins // self.length
            hops = offsets // self.length
            while np.count_nonzero(far := hops > 0):
                chunks[far] = self._following[chunks[far]]
                hops -= far
            flat[over] = chunks * self.length + offsets % self.length
        return flat.reshape(places.shape)

    def window(self, begins: np.ndarray, span: int) -> np.ndarray:
        """Return the places [N, span] of consecutive steps."""
        if span == 1:
            return begins[:, None]
        if span <= self.length:
            places = begins[:, None] + np.arange(span)
            chunks, offsets = np.divmod(begins, self.length)
            over = np.flatnonzero(offsets + span > self.length)
            if len(over):
                chunks = chunks[over]
                beyond = np.arange(span) + offsets[over, None] >= self.length
                places[over] += beyond * ((self._following[chunks] - chunks - 1) * self.length)[:, None]
            return places
        return np.stack([self.later(begins, step) for step in range(span)], axis=1)

    def leaves(self, steps: Tree, leading: tuple[int, ...]) -> list[np.ndarray]:
        """Return the leaves of steps [*leading, ...] in the order of the layout; refuse those that do not fit it."""
        given: list[Any] = []
        if not _flatten(self.layout, steps, given):
            raise WeftError(f"A step has to have the columns {names_of(self.layout)}, not {names_of(steps)}.")
        leaves = [np.asarray(leaf) for leaf in given]
        for (name, _), leaf, (shape, dtype) in zip(self._named, leaves, self._forms, strict=True):
            if leaf.shape != leading + shape:
                found = leaf.shape[len(leading) :] if leaf.shape[: len(leading)] == leading else leaf.shape
                raise WeftError(f"Column {name} of a step has the shape {found}, but {shape} was declared.")
            if leaf.dtype != dtype and not np.can_cast(leaf.dtype, dtype, "same_kind"):
                raise WeftError(f"Column {name} of a step is {leaf.dtype}, which does not fit {dtype}.")
        return leaves

    def write(self, places: np.ndarray, leaves: list[np.ndarray]) -> None:
        """Write the leaves of steps, [*shape of places, ...] each, at places that are all different."""
        at: slice | np.ndarray = places
        flat = places.reshape(-1)
        first, number = int(flat[0]), len(flat)
        if int(flat[-1]) - first == number - 1 and (number < 3 or (np.diff(flat) == 1).all()):
            at = slice(first, first + number)
            if places.ndim > 1:
                leaves = [leaf.reshape(number, *leaf.shape[places.ndim :]) for leaf in leaves]
        for (_, column), leaf in zip(self._named, leaves, strict=True):
            column.write(at, leaf)

    def take(self, places: np.ndarray, *path: str | int) -> Tree:
        """Return the steps, leaves [*shape of places, ...], of all columns or of the subtree at ``path``."""
        tree = self.columns
        for key in path:
            tree = tree[key]
        return _take(tree, places)

    def save(self) -> Tree:
        """Return everything as a tree of arrays; only what is in use."""
        used = np.flatnonzero(self._references > 0)
        return {
            "number": self.number,
            "used": used,
            "references": self._references[used],
            "following": self._following[used],
            "free": self._free[: self.free],
            "columns": {name: column.save(used) for name, column in self._named},
        }

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned."""
        if int(saved["number"]) > self.number:
            self._grow(int(saved["number"]))
        used = np.asarray(saved["used"])
        self._references[:] = 0
        self._references[used] = saved["references"]
        self._following[used] = saved["following"]
        free = np.concatenate([np.arange(int(saved["number"]), self.number)[::-1], saved["free"]])
        self._free[: len(free)] = free
        self.free = len(free)
        for name, column in self._named:
            column.restore(used, saved["columns"][name])

    def _grow(self, number: int) -> None:
        added = np.arange(self.number, number)
        self._free = np.concatenate([added[::-1], self._free])
        self.free += len(added)
        self._following = np.concatenate([self._following, np.full(len(added), NOWHERE)])
        self._references = np.concatenate([self._references, np.zeros(len(added), np.int64)])
        for _, column in self._named:
            column.grow(number)
        self.number = number


def layout_of(steps: Tree) -> Tree:
    """Return the layout of one step, given leaves [B, ...]."""
    return map_tree(lambda leaf: Leaf(np.shape(leaf)[1:], np.asarray(leaf).dtype.name), steps)


def named_leaves(tree: Tree, name: str = "") -> list[tuple[str, Tree]]:
    """Return the leaves of nested dicts and tuples with names such as ``observation.camera``."""
    if isinstance(tree, dict):
        items = [(str(key), part) for key, part in tree.items()]
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        items = list(zip(tree._fields, tree, strict=True))
    elif isinstance(tree, tuple):
        items = [(str(place), part) for place, part in enumerate(tree)]
    else:
        return [(name or "step", tree)]
    return [leaf for key, part in items for leaf in named_leaves(part, f"{name}.{key}" if name else key)]


def names_of(tree: Tree) -> str:
    """Return the names of all leaves, in words."""
    return ", ".join(name for name, _ in named_leaves(tree)) or "(none)"


def _flatten(layout: Tree, tree: Tree, into: list[Any]) -> bool:
    """Append the leaves of a tree, in the order of the layout; returns whether they are those of the layout."""
    if isinstance(layout, dict):
        return (
            isinstance(tree, dict)
            and layout.keys() == tree.keys()
            and all(_flatten(part, tree[name], into) for name, part in layout.items())
        )
    if isinstance(layout, tuple):
        if not isinstance(tree, tuple) or len(layout) != len(tree):
            return False
        return all(_flatten(part, other, into) for part, other in zip(layout, tree, strict=True))
    into.append(tree)
    return not isinstance(tree, dict | tuple)


def _take(columns: Tree, places: np.ndarray) -> Tree:
    if not isinstance(columns, dict | tuple):
        return columns.take(places)
    return map_tree(lambda column: column.take(places), columns)
