"""The folder of a run: its configuration, where it came from, its summary, and the lock that makes it one writer's."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
import weakref
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import tomli_w

from weft.errors import WeftError
from weft.runs.files import disk_errors, to_json, write_atomically
from weft.runs.versions import git_state, software

FORMAT = 1
"""Raised whenever an older weft could no longer read what a run holds."""


class Lock:
    """An exclusive lock on a file, given up when its process ends however it ends (``flock``).

    The file says who holds it. A forked child closes its copy at once, so that it cannot outlive its parent's lock.
    """

    _held: ClassVar[weakref.WeakSet[Lock]] = weakref.WeakSet()

    def __init__(self, path: Path) -> None:
        with disk_errors(path):
            self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 200).decode(errors="replace").strip() or "another process"
            self._forget()
            raise WeftError(
                f"{path.parent} is being written by {holder}: wait for it, or choose another folder."
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()} ({shlex.join(sys.argv)[:150]})\n".encode(), 0)
        self._held.add(self)

    def release(self) -> None:
        """Let others have it; doing so twice does no harm."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            self._forget()

    def _forget(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @classmethod
    def _forget_all(cls) -> None:
        for lock in list(cls._held):
            lock._forget()


os.register_at_fork(after_in_child=Lock._forget_all)


class RunFolder:
    """A run on disk. ``create`` makes a new one and holds its lock, ``open`` finds one that is there.

    Holding the lock is for whoever trains; everyone may read. As a context manager it releases the lock at the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: Lock | None = None

    @classmethod
    def create(cls, config: Mapping[str, Any], path: str | Path | None = None) -> RunFolder:
        """Make and lock ``path``, by default ``runs/<algorithm>-<environment>-<seed>-<date-time>``.

        ``config`` is the resolved configuration as nested dicts, with ``algorithm``, ``environment`` and ``seed``.
        """
        folder = cls(_make(Path(path)) if path is not None else _make_named(config))
        try:
            folder.lock()
            if extra := sorted(item.name for item in folder.path.iterdir() if item.name != "lock"):
                run = "a run" if "versions.json" in extra else f"{extra[0]!r}"
                raise WeftError(f"{folder.path} already holds {run}: resume it, or choose another folder.")
            write_config(folder.path / "config.toml", config)
            versions = {"format": FORMAT, **software(), "git": git_state(folder.path / "git.diff")}
            write_atomically(folder.path / "versions.json", to_json(versions, indent=2))
        except BaseException:
            folder.close()
            raise
        return folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Return the run that is in ``path``, not locked."""
        path = Path(path)
        if not path.exists():
            raise WeftError(f"There is no run in {path}: it does not exist.")
        try:
            found = int(json.loads((path / "versions.json").read_text(encoding="utf-8"))["format"])
        except (OSError, ValueError, KeyError, TypeError):
            raise WeftError(f"{path} is not the folder of a run: it has no readable versions.json.") from None
        if found > FORMAT:
            raise WeftError(
                f"{path} was written by a newer weft (format {found}, this one reads {FORMAT}): upgrade weft."
            )
        return cls(path)

    def lock(self) -> None:
        """Become the only writer, or say which process is."""
        if self._lock is None:
            self._lock = Lock(self.path / "lock")

    def close(self) -> None:
        """Release the lock, if held."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def discard_unused(self) -> None:
        """Delete the folder again if nothing was trained in it, because what was asked for could not be done."""
        if not any(_holds_something(self.path / name) for name in ("checkpoints", "metrics.jsonl")):
            shutil.rmtree(self.path)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return read_config(self.path / "config.toml")

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Replace the configuration, e.g. by one with more steps when a run is resumed."""
        write_config(self.path / "config.toml", config)
        self.__dict__.pop("config", None)

    @property
    def versions(self) -> dict[str, Any]:
        """The software, machine and repository state that the run was begun with."""
        return json.loads((self.path / "versions.json").read_text(encoding="utf-8"))

    @property
    def summary(self) -> dict[str, Any]:
        """What ``write_summary`` wrote last; {} before."""
        path = self.path / "summary.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Replace ``summary.json``."""
        write_atomically(self.path / "summary.json", to_json(summary, indent=2))


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration written by ``write_config`` or by hand; the text "none" stands for None."""
    try:
        with open(path, "rb") as file:
            return _from_toml(tomllib.load(file))
    except FileNotFoundError:
        raise WeftError(f"There is no configuration {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WeftError(f"{path} is not valid TOML: {error}.") from None


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Write nested dicts as TOML. TOML has no None, so that None is written as "none"."""
    write_atomically(path, tomli_w.dumps(_to_toml(config)))


def _to_toml(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _to_toml(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_toml(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return "none" if value is None else value


def _from_toml(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _from_toml(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_from_toml(item) for item in value]
    return None if value == "none" else value


def _holds_something(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.exists() and path.stat().st_size > 0


def _make(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise WeftError(f"{path} is a file: choose another folder for the run.")
    with disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def _make_named(config: Mapping[str, Any]) -> Path:
    began = datetime.now().strftime("%Y%m%d-%H%M%S")
    parts = (config["algorithm"], config["environment"], config["seed"], began)
    name = "-".join(re.sub(r"[^\w.-]+", "-", str(part)).strip("-.") for part in parts)
    for attempt in range(1, 1000):
        path = Path("runs", name if attempt == 1 else f"{name}-{attempt}")
        try:
            with disk_errors(path):
                path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
    raise WeftError(f"There are too many runs named {name} in runs: choose a folder.")
