"""weft: write a reinforcement-learning algorithm once, choose at launch how it is executed.

>>> import weft
>>> run = weft.train("ppo", "CartPole-v1", steps=200_000, seed=0)  # doctest: +SKIP
>>> run.evaluate(episodes=20).mean_return  # doctest: +SKIP
500.0
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.envs import EnvironmentSettings, make
    from weft.errors import TrainingDiverged, WeftError
    from weft.launch import graph
    from weft.runs.plot import plot
    from weft.training import Run, load, train, train_seeds

__version__ = "0.1.0"

_PLACES = {
    "EnvironmentSettings": "weft.envs",
    "Run": "weft.training",
    "TrainingDiverged": "weft.errors",
    "WeftError": "weft.errors",
    "graph": "weft.launch",
    "load": "weft.training",
    "make": "weft.envs",
    "plot": "weft.runs.plot",
    "train": "weft.training",
    "train_seeds": "weft.training",
}
"""The public names and where they are; each is imported when it is first asked for, so that weft itself is light."""

__all__ = [*_PLACES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    from weft.allocation import keep_memory

    keep_memory()
    value = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
