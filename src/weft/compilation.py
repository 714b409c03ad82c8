"""How JAX compiles and starts programs, set once before it is first used."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

_IN_ORDER = "xla_cpu_enable_concurrency_optimized_scheduler"


def prepare_jax() -> None:
    """Keep compiled programs on disk, and start them on the CPU without handing them to another thread.

    A policy call of a small network takes 15 us when it runs in the calling thread and 30 us when it is handed over;
    nothing in weft relies on the CPU working ahead. A cache folder that the user has chosen is left alone.
    """
    _run_operations_in_order()
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if jax.config.values["jax_compilation_cache_dir"] is None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(base / "weft" / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _run_operations_in_order() -> None:
    """Tell XLA not to share the operations of a program among threads (each may still use several by itself).

    Handing over an operation takes longer than doing it where networks are small: a policy call takes 64 us instead
    of 21 us on two cores. XLA takes this from the environment only, before its first use, and ends the process at a
    flag that it does not know, so it is given to no version that was not tried. What the user has set stays.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    tried = (0, 7) <= tuple(int(part) for part in version("jaxlib").split(".")[:2]) <= (0, 10)
    if tried and _IN_ORDER not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{_IN_ORDER}=false".strip()
