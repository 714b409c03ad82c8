"""Finding the user's own code by name: ``module:attribute``."""

from __future__ import annotations

import importlib
from typing import Any

from weft.errors import WeftError, unknown


def find(name: str, kind: str) -> Any:
    """Import what ``module:attribute`` names; ``kind`` says in messages what it is meant to be.

    >>> find("math:pi", "number")
    3.141592653589793
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise WeftError(f"The {kind} {name!r} is not of the form module:name.")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise WeftError(f"There is no module named {error.name!r}, which {name} asks for.") from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise unknown(f"{kind} in {module}", part, [item for item in vars(found) if item[0] != "_"])
        found = getattr(found, part)
    return found
