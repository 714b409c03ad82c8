"""How JAX compiles and starts programs, set once before it is first used."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def prepare_jax() -> None:
    """Keep compiled programs on disk, and start them on the CPU without handing them to another thread.

    A policy call of a small network takes 15 us when it runs in the calling thread and 30 us when it is handed over;
    nothing in weft relies on the CPU working ahead. A cache folder that the user has chosen is left alone.
    """
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if jax.config.values["jax_compilation_cache_dir"] is None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(base / "weft" / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def compiled(function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]:
    """Return ``function`` compiled for being called once for every step; ``donate`` names arguments to overwrite."""
    import jax

    return jax.jit(function, donate_argnums=donate, compiler_options=_options(jax.default_backend()))


@cache
def _options(backend: str) -> dict[str, Any]:
    """On the CPU, do one thing after the other.

    By default XLA orders operations so that several threads can share them, which for networks of a few thousand
    weights takes longer than the operations: a policy call of 15 us becomes one of 40 us on two cores.
    """
    return {"xla_cpu_enable_concurrency_optimized_scheduler": False} if backend == "cpu" else {}
