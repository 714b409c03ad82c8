"""What a run was begun with, so that its figures can be understood and had again: software, machine, repository."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from weft.runs.files import disk_errors

_PACKAGES = ("weft", "jax", "jaxlib", "flax", "optax", "gymnasium", "numpy")
_GIT_SECONDS = 10.0


def software() -> dict[str, Any]:
    """Return versions of Python and of the packages that decide results, the machine and the command line."""
    import jax

    return {
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "devices": [str(device.device_kind) for device in jax.devices()],
        "command": shlex.join(sys.argv),
    }


def git_state(diff: Path) -> dict[str, Any] | None:
    """Return commit and whether files differ from it, or None outside a repository; differences go to ``diff``."""
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    dirty = bool(_git("status", "--porcelain", "--untracked-files=no"))
    if dirty and (changes := _git("diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv")):
        with disk_errors(diff):
            diff.write_bytes(changes)
    return {"commit": commit.decode().strip(), "dirty": dirty}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> bytes | None:
    """Return what git prints, None if it cannot; without taking locks in the user's repository."""
    try:
        result = subprocess.run(
            ("git", "--no-optional-locks", *arguments), capture_output=True, check=True, timeout=_GIT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout
