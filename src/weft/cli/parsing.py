"""Reading arguments with tyro; what is wrong with them becomes one sentence, as everywhere in weft."""

from __future__ import annotations

import contextlib
import functools
import io
import re
from collections.abc import Callable
from typing import Any

import tyro

from weft.errors import WeftError


def parse(kind: Callable[..., Any], arguments: list[str], prog: str, **options: Any) -> Any:
    """Return ``kind`` made from the arguments, or say what is wrong with them; ``options`` are tyro's own."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, args=arguments, prog=prog, **options)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise WeftError(f"{_sentence(said.getvalue())} (see `{prog} --help`).") from None


def call(command: Callable[..., None], arguments: list[str], prog: str) -> None:
    """Call a function whose parameters are the flags of a subcommand."""

    @functools.wraps(command)
    def bound(*positional: Any, **flags: Any) -> Callable[[], None]:
        return functools.partial(command, *positional, **flags)

    parse(bound, arguments, prog)()


def _sentence(box: str) -> str:
    """Return what the first part of tyro's box says, and the flags that it suggests.

    >>> _sentence("╭─ Error ─╮\\n│ Unrecognized: --clp │\\n│ ─── │\\n│ Perhaps you meant: │\\n│ --clip FLOAT │\\n╰─╯")
    'Unrecognized: --clp: did you mean --clip?'
    """
    lines = [line.strip("│ ") for line in box.splitlines() if line[:1] not in "╭╰"]
    first, *rest = " ".join("|" if not line.strip("─") else line for line in lines).split("|")
    near = re.findall(r"--[\w.-]+(?= [A-Z{]|, )", rest[0]) if rest and "you meant" in rest[0] else []
    hint = f": did you mean {' or '.join(dict.fromkeys(near[:3]))}?" if near else ""
    return f"{first.strip().rstrip('.')}{hint}"
