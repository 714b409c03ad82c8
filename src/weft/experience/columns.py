"""One column of the steps in storage: an array, or, where it is to take less memory, compressed chunks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from weft.errors import require
from weft.program import Leaf
from weft.types import Tree


@dataclass(frozen=True)
class Compression:
    """How columns of at least ``least`` bytes a step are compressed, chunk by chunk, once a chunk is complete."""

    codec: Literal["lz4", "zstd"]
    level: int = 1
    least: int = 256


class Column(Protocol):
    """The values [places, ...] of one leaf of the steps."""

    def write(self, at: slice | np.ndarray, values: np.ndarray) -> None:
        """Write values at places."""

    def take(self, places: np.ndarray) -> np.ndarray:
        """Return copies of the values [*shape of places, ...]."""

    def close(self, chunks: np.ndarray) -> None:
        """Learn that nothing more is written into ``chunks``."""

    def forget(self, chunks: np.ndarray) -> None:
        """Learn that ``chunks`` are no longer used."""

    def grow(self, number: int) -> None:
        """Make room for ``number`` chunks."""

    def nbytes(self, used: int) -> int:
        """Return how much memory ``used`` chunks take."""

    def save(self, used: np.ndarray) -> Tree:
        """Return what the chunks ``used`` hold."""

    def restore(self, used: np.ndarray, saved: Tree) -> None:
        """Continue from what ``save`` returned."""


def column_of(leaf: Leaf, length: int, number: int, compression: Compression | None) -> Column:
    """Return the column for steps like ``leaf``, in ``number`` chunks of ``length``."""
    if compression is not None and leaf.size * np.dtype(leaf.dtype).itemsize >= compression.least:
        return CompressedColumn(leaf, length, compression)
    return RawColumn(leaf, length, number)


class RawColumn:
    """An array; memory that was never written takes none."""

    def __init__(self, leaf: Leaf, length: int, number: int) -> None:
        self._length = length
        self._values = np.zeros((number * length, *leaf.shape), leaf.dtype)

    def write(self, at: slice | np.ndarray, values: np.ndarray) -> None:
        """Write values at places."""
        self._values[at] = values

    def take(self, places: np.ndarray) -> np.ndarray:
        """Return copies of the values [*shape of places, ...]."""
        return self._values.take(places, axis=0)

    def close(self, chunks: np.ndarray) -> None:
        """Nothing to do."""

    def forget(self, chunks: np.ndarray) -> None:
        """Nothing to do."""

    def grow(self, number: int) -> None:
        """Make room for ``number`` chunks."""
        grown = np.zeros((number * self._length, *self._values.shape[1:]), self._values.dtype)
        grown[: len(self._values)] = self._values
        self._values = grown

    def nbytes(self, used: int) -> int:
        """Return how much memory ``used`` chunks take."""
        return used * self._length * (self._values[:1].nbytes)

    def save(self, used: np.ndarray) -> Tree:
        """Return the values of the chunks ``used``, [len(used), length, ...]."""
        return self._in_chunks()[used]

    def restore(self, used: np.ndarray, saved: Tree) -> None:
        """Continue from what ``save`` returned."""
        self._in_chunks()[used] = saved

    def _in_chunks(self) -> np.ndarray:
        return self._values.reshape(-1, self._length, *self._values.shape[1:])


class CompressedColumn:
    """Compressed bytes of complete chunks, and arrays of those that are still written."""

    def __init__(self, leaf: Leaf, length: int, compression: Compression) -> None:
        self._shape, self._dtype, self._length = (length, *leaf.shape), np.dtype(leaf.dtype), length
        self._squeeze, self._expand = codec(compression)
        self._open: dict[int, np.ndarray] = {}
        self._closed: dict[int, bytes] = {}
        self.raw_bytes = self.stored_bytes = 0
        """Of all chunks that were compressed so far."""
        self.compressing_seconds = self.expanding_seconds = 0.0

    def write(self, at: slice | np.ndarray, values: np.ndarray) -> None:
        """Write values at places."""
        places = np.arange(at.start, at.stop) if isinstance(at, slice) else at.reshape(-1)
        values = np.asarray(values).reshape(len(places), *self._shape[1:])
        for chunk in np.unique(places // self._length).tolist():
            inside = places // self._length == chunk
            held = self._open.setdefault(chunk, np.zeros(self._shape, self._dtype))
            held[places[inside] % self._length] = values[inside]

    def take(self, places: np.ndarray) -> np.ndarray:
        """Return copies of the values [*shape of places, ...]."""
        flat = places.reshape(-1)
        chunks, order = np.unique(flat // self._length, return_inverse=True)
        taken = np.empty((len(flat), *self._shape[1:]), self._dtype)
        offsets = flat % self._length
        by_chunk = np.argsort(order, kind="stable")
        ends = np.cumsum(np.bincount(order))
        for chunk, members in zip(chunks.tolist(), np.split(by_chunk, ends[:-1]), strict=True):
            taken[members] = self._chunk(chunk)[offsets[members]]
        return taken.reshape(*places.shape, *self._shape[1:])

    def close(self, chunks: np.ndarray) -> None:
        """Compress ``chunks``."""
        began = time.perf_counter()
        for chunk in chunks.tolist():
            values = self._open.pop(chunk)
            self._closed[chunk] = self._squeeze(values)
            self.raw_bytes += values.nbytes
            self.stored_bytes += len(self._closed[chunk])
        self.compressing_seconds += time.perf_counter() - began

    def forget(self, chunks: np.ndarray) -> None:
        """Give back the memory of ``chunks``."""
        for chunk in chunks.tolist():
            self._open.pop(chunk, None)
            self._closed.pop(chunk, None)

    def grow(self, number: int) -> None:
        """Nothing to do."""

    def nbytes(self, used: int) -> int:
        """Return how much memory the chunks take."""
        return sum(map(len, self._closed.values())) + sum(values.nbytes for values in self._open.values())

    def save(self, used: np.ndarray) -> Tree:
        """Return what the chunks ``used`` hold: bytes as they are, one after the other, and open chunks."""
        closed = [chunk for chunk in used.tolist() if chunk in self._closed]
        pieces = [np.frombuffer(self._closed[chunk], np.uint8) for chunk in closed]
        opened = [chunk for chunk in used.tolist() if chunk in self._open]
        return {
            "closed": np.array(closed, np.int64),
            "sizes": np.array([len(piece) for piece in pieces], np.int64),
            "bytes": np.concatenate([np.zeros(0, np.uint8), *pieces]),
            "open": np.array(opened, np.int64),
            "values": np.array([self._open[chunk] for chunk in opened], self._dtype).reshape(-1, *self._shape),
        }

    def restore(self, used: np.ndarray, saved: Tree) -> None:
        """Continue from what ``save`` returned."""
        ends = np.cumsum(saved["sizes"])
        pieces = np.split(np.asarray(saved["bytes"]), ends[:-1]) if len(ends) else []
        self._closed = {chunk: piece.tobytes() for chunk, piece in zip(saved["closed"].tolist(), pieces, strict=True)}
        self._open = {
            chunk: np.array(values) for chunk, values in zip(saved["open"].tolist(), saved["values"], strict=True)
        }

    def _chunk(self, chunk: int) -> np.ndarray:
        if chunk in self._open:
            return self._open[chunk]
        began = time.perf_counter()
        values = np.frombuffer(self._expand(self._closed[chunk]), self._dtype).reshape(self._shape)
        self.expanding_seconds += time.perf_counter() - began
        return values


def codec(compression: Compression) -> tuple[Callable[[np.ndarray], bytes], Callable[[bytes], bytes]]:
    """Return (compress an array, expand bytes)."""
    purpose = f"Compression by {compression.codec}"
    if compression.codec == "lz4":
        lz4 = require("lz4.frame", "compression", purpose)
        return (
            lambda values: lz4.compress(np.ascontiguousarray(values).data, compression_level=compression.level),
            lz4.decompress,
        )
    zstandard = require("zstandard", "compression", purpose)
    compressor, expander = zstandard.ZstdCompressor(level=compression.level), zstandard.ZstdDecompressor()
    return lambda values: compressor.compress(np.ascontiguousarray(values).data), expander.decompress
