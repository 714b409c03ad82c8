"""Errors meant for the user: one clear sentence each; the command line prints it and exits with code 2."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class WeftError(Exception):
    """Something the user can put right. Its text is one sentence that says what is wrong and what to do."""


class TrainingDiverged(WeftError):
    """A loss, a gradient or an observation became NaN or infinite; the last good checkpoint is kept."""


def unknown(kind: str, name: str, known: Iterable[str]) -> WeftError:
    """Return the error for a name that does not exist, with the nearest ones that do."""
    known = sorted(known)
    spelt = {item.lower(): item for item in known}
    names = [spelt[near] for near in difflib.get_close_matches(name.lower(), spelt, n=3, cutoff=0.5)]
    listed = f"there is {', '.join(known)}." if len(known) <= 30 else f"see `weft list {kind.split()[-1]}s`."
    hint = f"did you mean {' or '.join(names)}?" if names else listed
    return WeftError(f"There is no {kind} named {name!r}: {hint}")


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it.

    >>> require("json", "text", "reading JSON").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise WeftError(f'{purpose} needs {error.name}: pip install "weft[{extra}]"') from None
