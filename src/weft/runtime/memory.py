"""Memory that the two ends of a channel see: of this process alone, or shared by file descriptor.

Shared memory has no name: it is a file that was never in a folder. So nothing is left behind, however its users die.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


class Arena:
    """A nameless file out of which shared memory is cut; children inherit its one descriptor."""

    def __init__(self) -> None:
        self.descriptor = _nameless_file()
        self._size = 0

    def allocate(self, size: int) -> SharedMemory:
        """Return the next ``size`` bytes."""
        offset, size = self._size, -(-max(size, 1) // PAGE) * PAGE
        self._size += size
        os.ftruncate(self.descriptor, self._size)
        return SharedMemory(self.descriptor, offset, size)

    def close(self) -> None:
        """Give up the descriptor; what is mapped stays until nothing refers to it."""
        os.close(self.descriptor)


class SharedMemory:
    """Part of an arena. Pickled, it is the arena's descriptor, which a child must have inherited."""

    def __init__(self, descriptor: int, offset: int, size: int) -> None:
        self._place = descriptor, offset, size
        self.buffer = memoryview(mmap.mmap(descriptor, size, offset=offset))

    def __reduce__(self) -> tuple[type[SharedMemory], tuple[int, int, int]]:
        return SharedMemory, self._place

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude all other processes."""
        descriptor, offset, _ = self._place
        fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, offset)
        try:
            yield
        finally:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, offset)


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("weft", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
