"""Keep memory that was used once: XLA asks for its working memory anew in every call, and gives it back after it."""

from __future__ import annotations

import ctypes
import sys

_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1


def keep_memory() -> None:
    """Tell glibc not to return freed memory to the system, up to 2 GiB, so that it need not be mapped again.

    Without this every training step of a convolutional network takes thousands of page faults, a quarter of its
    time. It works only before JAX is loaded; elsewhere than on Linux with glibc nothing is done.
    """
    if not sys.platform.startswith("linux") or "jax" in sys.modules:
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_ARENA_MAX, 1)
        libc.mallopt(_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
