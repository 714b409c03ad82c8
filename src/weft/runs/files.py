"""Writing to disk so that nothing is ever half there, and saying in one sentence why it could not be done."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.errors import WeftError

_REASONS = {
    errno.ENOSPC: "the disk that holds {path} is full; free some space and resume",
    errno.EDQUOT: "the disk quota for {path} is used up; free some space and resume",
    errno.EFBIG: "{path} would be larger than this system allows a file to be",
    errno.EACCES: "there is no permission to write {path}",
    errno.EPERM: "there is no permission to write {path}",
    errno.ENOTDIR: "a part of {path} is a file, not a folder",
    errno.ENAMETOOLONG: "{path} is too long a name for this system",
    errno.EROFS: "the disk that holds {path} is read-only",
}


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system says of ``path`` into a WeftError; every other error passes."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REASONS:
            raise
        sentence = _REASONS[error.errno].format(path=path)
        raise WeftError(f"{sentence[0].upper()}{sentence[1:]}.") from error


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, text: str) -> None:
    """Replace the file by one with this text; a reader sees the old or the new one, whatever happens."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with disk_errors(path):
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def to_json(value: Mapping[str, Any], indent: int | None = None) -> str:
    """Return strictly valid JSON: numbers that are not finite become null, arrays of one element numbers.

    >>> to_json({"loss": float("nan"), "steps": 3})
    '{"loss": null, "steps": 3}'
    """
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
