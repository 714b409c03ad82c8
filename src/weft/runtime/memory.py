"""Memory that the two ends of a channel see: of this process alone, or shared by file descriptor.

Shared memory has no name: it is a file that was never in a folder. So nothing is left behind, however its users die.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

PAGE = mmap.PAGESIZE


class Memory(Protocol):
    """Zeroed bytes, aligned to a page, with a lock that its owner's death releases."""

    @property
    def buffer(self) -> memoryview:
        """The bytes."""

    def locked(self) -> Any:
        """Return a context manager that excludes all others."""


class PrivateMemory:
    """Memory of the threads of one process."""

    def __init__(self, size: int) -> None:
        self.buffer = memoryview(mmap.mmap(-1, max(size, 1)))
        self._lock = threading.Lock()

    def locked(self) -> threading.Lock:
        """Return a context manager that excludes all others."""
        return self._lock


CHUNK = 1 << 26
"""Bytes that an arena maps at a time: every mapping holds a descriptor, and memory never written costs nothing."""


class Arena:
    """A nameless file out of which shared memory is cut; children inherit its one descriptor."""

    def __init__(self) -> None:
        self.descriptor = _nameless_file()
        self._size = 0
        self._chunk: tuple[int, memoryview] = (0, memoryview(b""))
        self._used = 0

    def allocate(self, size: int) -> SharedMemory:
        """Return the next ``size`` bytes."""
        size = -(-max(size, 1) // PAGE) * PAGE
        if self._used + size > len(self._chunk[1]):
            self._grow(max(size, CHUNK))
        begin, self._used = self._used, self._used + size
        offset, buffer = self._chunk
        return SharedMemory(buffer[begin : begin + size], (self.descriptor, offset, len(buffer), begin, size))

    def _grow(self, size: int) -> None:
        offset, self._size = self._size, self._size + size
        os.ftruncate(self.descriptor, self._size)
        self._chunk, self._used = (offset, _mapped(self.descriptor, offset, size)), 0

    def close(self) -> None:
        """Give up the descriptor; what is mapped stays until nothing refers to it."""
        os.close(self.descriptor)


Place = tuple[int, int, int, int, int]
"""descriptor, offset and size of the chunk, begin and size of the memory in it"""


class SharedMemory:
    """Part of an arena. Pickled, it is its place, for a child that has inherited the arena's descriptor."""

    def __init__(self, buffer: memoryview, place: Place) -> None:
        self.buffer = buffer
        self._place = place

    def __reduce__(self) -> tuple[Callable[..., SharedMemory], Place]:
        return _inherited, self._place

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude all other processes."""
        descriptor, offset, _, begin, _ = self._place
        fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, offset + begin)
        try:
            yield
        finally:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, offset + begin)


def _inherited(descriptor: int, offset: int, chunk: int, begin: int, size: int) -> SharedMemory:
    buffer = _mapped_once(descriptor, offset, chunk)[begin : begin + size]
    return SharedMemory(buffer, (descriptor, offset, chunk, begin, size))


def _mapped(descriptor: int, offset: int, size: int) -> memoryview:
    return memoryview(mmap.mmap(descriptor, size, offset=offset))


_mapped_once = lru_cache(maxsize=None)(_mapped)
"""For a child, to whom a descriptor never means another arena."""


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("weft", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
