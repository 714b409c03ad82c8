"""Checkpoints: trees of arrays and scalars that come back exactly, whenever the writer was killed.

A checkpoint is a folder ``checkpoints/<steps>`` with one file of raw bytes for each named part (``learner``,
``environment``, ``replay``, ...) and ``manifest.json``, which describes every leaf with its checksum. It is written
under another name, made durable and then renamed, so that a name without a leading dot always holds a whole
checkpoint. A part can be read without touching the others.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import WeftError
from weft.runs.files import disk_errors, sync_folder
from weft.runs.leaves import CorruptedError, check_part, read_part, write_part
from weft.types import Tree

FORMAT = 1

_log = logging.getLogger("weft")
_NAME = re.compile(r"(\d{12,})(?:\.(\d+))?")


class Checkpoint(NamedTuple):
    """What was restored."""

    steps: int
    mean_return: float | None
    parts: dict[str, Tree]
    path: Path


class Checkpoints:
    """The checkpoints in one folder. Any process may restore; only the one that holds the run's lock may save."""

    def __init__(self, folder: str | Path, keep: int = 3, warn: Callable[[str], None] = _log.warning) -> None:
        """Keep the newest ``keep`` and the best; ``warn`` hears of checkpoints that cannot be used."""
        self.folder = Path(folder)
        self.keep = keep
        self.warn = warn

    def save(self, parts: Mapping[str, Tree], steps: int, mean_return: float | None = None) -> Path:
        """Write a checkpoint that is whole or not there, then delete the ones that need not be kept.

        ``parts`` maps names to trees of numpy and JAX arrays (PRNG keys too), int, float, bool, str, bytes and None.
        Checkpoints of more steps than ``steps`` belong to a future that was given up, and go too.
        """
        temporary = self.folder / f".{steps:012d}.writing"
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers()
            try:
                temporary.mkdir()
                _write(temporary, parts, steps, mean_return)
                path = self._unused(steps)
                os.rename(temporary, path)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            sync_folder(self.folder)
            self._delete_superseded(path, steps)
        return path

    def restore(
        self, templates: Mapping[str, Tree] | None = None, best: bool = False, whole: bool = False
    ) -> Checkpoint:
        """Return the newest checkpoint that is not damaged, or the one with the best mean return.

        ``templates`` names the parts to read, all of them by default. A part's template is a tree with the structure,
        shapes and dtypes that it must have (``jax.eval_shape`` gives one for free); where it is None the part comes
        back as it was stored, which only dicts, lists, tuples and named tuples can. With ``whole``, the other parts
        must not be damaged either, so that they can be had by ``read`` from the same checkpoint.
        """
        paths = self._paths()
        if best and (path := self._best(paths)) is not None:
            paths = [*(other for other in paths if other != path), path]
        for path in reversed(paths):
            try:
                if whole:
                    _check(path)
                return read(path, templates)
            except CorruptedError as error:
                self.warn(f"Checkpoint {path} cannot be used, trying the one before it: {error}.")
        problem = "holds no whole checkpoint" if paths else "holds no checkpoint yet"
        raise WeftError(f"{self.folder} {problem}, so that there is nothing to restore.")

    def steps(self) -> list[int]:
        """Return the steps of every checkpoint that is there, oldest first."""
        return [_order(path)[0] for path in self._paths()]

    def _paths(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted((path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)), key=_order)

    def _unused(self, steps: int) -> Path:
        """Return a name that is free: one that exists is superseded, never overwritten, so that one is always whole."""
        name, again = f"{steps:012d}", 1
        path = self.folder / name
        while path.exists():
            again += 1
            path = self.folder / f"{name}.{again}"
        return path

    def _best(self, paths: list[Path]) -> Path | None:
        """Return the path of the highest mean return, the newest one of equals."""
        returns = {path: mean_return for path in paths if (mean_return := _mean_return(path)) is not None}
        return max(reversed(returns), key=returns.__getitem__, default=None)

    def _delete_superseded(self, written: Path, steps: int) -> None:
        paths = self._paths()
        valid = [path for path in paths if path == written or _order(path)[0] < steps]
        kept = {*valid[-self.keep :], self._best(valid)}
        for path in paths:
            if path not in kept:
                _delete(path)

    def _remove_leftovers(self) -> None:
        """Remove what killed writers left; there is no other live writer, for it would hold the run's lock."""
        for pattern in (".*.writing", ".*.deleted"):
            for path in self.folder.glob(pattern):
                shutil.rmtree(path)


def _order(path: Path) -> tuple[int, int]:
    steps, _, again = path.name.partition(".")
    return int(steps), int(again or 1)


def _delete(path: Path) -> None:
    """Delete a checkpoint so that it is never seen half deleted."""
    hidden = path.with_name(f".{path.name}.deleted")
    os.rename(path, hidden)
    shutil.rmtree(hidden)


def _write(folder: Path, parts: Mapping[str, Tree], steps: int, mean_return: float | None) -> None:
    finite = mean_return is not None and math.isfinite(mean_return)
    manifest = {
        "format": FORMAT,
        "steps": steps,
        "mean_return": float(mean_return) if finite else None,  # type: ignore[arg-type]
        "time": time.time(),
        "parts": {name: write_part(folder / f"{name}.bin", tree) for name, tree in parts.items()},
    }
    text = json.dumps(manifest)
    with open(folder / "manifest.json", "w", encoding="utf-8") as file:
        file.write(f"{text}\n{zlib.crc32(text.encode()):08x}\n")
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        text, _, checksum = (path / "manifest.json").read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        raise CorruptedError("its manifest.json cannot be read") from None
    if checksum.strip() != f"{zlib.crc32(text.encode()):08x}":
        raise CorruptedError("its manifest.json was changed or cut off")
    manifest = json.loads(text)
    if manifest["format"] > FORMAT:
        raise WeftError(f"{path} was written by a newer weft: upgrade weft to read it.")
    return manifest


def _mean_return(path: Path) -> float | None:
    try:
        return _read_manifest(path)["mean_return"]
    except (CorruptedError, WeftError):
        return None


def _check(path: Path) -> None:
    for name, described in _read_manifest(path)["parts"].items():
        check_part(path / f"{name}.bin", described)


def read(path: Path, templates: Mapping[str, Tree] | None = None) -> Checkpoint:
    """Return the checkpoint in ``path``; ``templates`` as for ``Checkpoints.restore``."""
    manifest = _read_manifest(path)
    described = manifest["parts"]
    parts = {}
    for name in described if templates is None else templates:
        if name not in described:
            raise WeftError(f"Checkpoint {path} has no part {name!r}: it has {', '.join(sorted(described))}.")
        template = None if templates is None else templates[name]
        parts[name] = read_part(path / f"{name}.bin", described[name], template)
    return Checkpoint(manifest["steps"], manifest["mean_return"], parts, path)
