"""The streams that steps come from: each writes chunk after chunk, and remembers the newest of them."""

from __future__ import annotations

import numpy as np

from weft.experience.chunks import NOWHERE, Chunks
from weft.types import EVERY, Ids, Tree


class Streams:
    """B streams that are written side by side, though not all at every time.

    The last ``reach`` steps of each are kept in storage even if no item refers to them yet.
    """

    def __init__(self, chunks: Chunks, number: int, reach: int) -> None:
        self._chunks = chunks
        self._every = np.arange(number)
        self._depth = -(-reach // chunks.length) + 2
        self._newest = np.full((number, self._depth), NOWHERE)
        """[B, depth] chunks; the one with steps ``i * length`` to ``(i + 1) * length - 1`` stands at ``i % depth``."""
        self.count = np.zeros(number, np.int64)
        """[B] steps of each stream since it began."""

    def resolve(self, ids: Ids) -> np.ndarray:
        """Return the ids of streams as an array."""
        return self._every[ids]

    def extend(self, ids: np.ndarray, leaves: list[np.ndarray], length: int | None) -> None:
        """Write at most a chunk of steps, leaves [length, len(ids), ...]; None: one step, leaves [len(ids), ...]."""
        size, alone = self._chunks.length, length is None
        length = length or 1
        count = self.count[ids]
        opening = ids[-count % size < length]
        complete = self._open(opening, -(-self.count[opening] // size)) if len(opening) else opening
        index = count if alone else count + np.arange(length)[:, None]
        self._chunks.write(self.places(ids, index), leaves)
        if len(complete):
            self._chunks.close(complete)
        self.count[ids] = count + length

    def places(self, ids: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return the places of the steps ``index`` [..., len(ids)], counted since the streams began; of recent ones."""
        size = self._chunks.length
        return self._newest[ids, index // size % self._depth] * size + index % size

    def reset(self, ids: Ids = EVERY) -> None:
        """Forget what streams were about: the next step of each begins it anew."""
        ids = self.resolve(ids)
        held = self._newest[ids].reshape(-1)
        self._chunks.drop(held[held != NOWHERE])
        self._newest[ids] = NOWHERE
        self.count[ids] = 0

    def save(self) -> Tree:
        """Everything as a tree of arrays."""
        return {"newest": self._newest, "count": self.count}

    def restore(self, saved: Tree) -> None:
        """Continue from what ``save`` returned."""
        self._newest, self.count = np.array(saved["newest"]), np.array(saved["count"])

    def _open(self, ids: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Begin the chunk that is the ``number``-th of each of the streams; returns those that they follow."""
        oldest = self._newest[ids, number % self._depth]
        self._chunks.drop(oldest[oldest != NOWHERE])
        opened = self._chunks.open(len(ids))
        before = self._newest[ids, (number - 1) % self._depth]
        linked = (before != NOWHERE) & (number > 0)
        self._chunks.link(before[linked], opened[linked])
        self._newest[ids, number % self._depth] = opened
        return before[linked]
