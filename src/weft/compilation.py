"""Where compiled programs are kept, so that the second run of anything starts quickly."""

from __future__ import annotations

import os
from pathlib import Path


def keep_compiled() -> None:
    """Let JAX keep what it compiles in weft's cache folder, unless the user has chosen another place."""
    import jax

    if jax.config.jax_compilation_cache_dir is not None:
        return
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(base / "weft" / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
