"""The resolved configuration of a run: what its config.toml holds and what repeats it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from weft import topologies
from weft.envs.settings import EnvironmentSettings
from weft.errors import WeftError
from weft.settings import as_tree, check, positive, resolve, within


@dataclass(frozen=True)
class TrainSettings:
    """Everything about a run but the algorithm's own settings."""

    topology: str = "local"
    """Where actors, learners and replay are and what travels between them."""
    runtime: str | None = None
    """How the parts are executed; unset: as suits the topology."""
    actors: int = positive(1)
    """Actors, each with its own environments."""
    envs: int = positive(8)
    """Environments of each actor."""
    steps: int = positive(100_000)
    """Agent steps over all environments; always the total of the run, when resuming too."""
    seed: int = within(0, 0, 2**32 - 1)
    """Everything random follows from it."""
    torso: str | None = None
    """Your own network in place of the observation adapter's, as module:name."""
    loggers: tuple[str, ...] = ("tensorboard",)
    """Where metrics go beside the run's own file: tensorboard, wandb, mlflow."""
    checkpoint_every: int | None = positive(None)
    """Steps between two checkpoints; unset: a tenth of the run."""
    keep: int = positive(3)
    """Checkpoints kept beside the best one."""
    patience: float = positive(60.0)
    """Seconds without progress after which a part of the run is named, with what it waits for."""
    env: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    """How the environments are made."""


@dataclass(frozen=True)
class Config:
    """A run, resolved: names, settings, and the algorithm's settings."""

    algorithm: str
    environment: str
    train: TrainSettings
    section: str
    """Under which the algorithm's own settings stand: its short name."""
    settings: Any
    """The algorithm's own settings, of the class that it declares."""
    graph: Any
    """The topology's own settings, of the class that it declares."""

    def as_tree(self) -> dict[str, Any]:
        """Return nested dicts, as in config.toml."""
        names = {"algorithm": self.algorithm, "environment": self.environment}
        sections = {GRAPH: as_tree(self.graph), self.section: as_tree(self.settings)}
        return {**names, **as_tree(self.train), **sections}


GRAPH = "graph"
"""Under which the settings of the topology stand."""


def resolved(tree: Mapping[str, Any], section: str, settings_class: type) -> Config:
    """Return the configuration that nested dicts describe, or say which setting is wrong."""
    values = dict(tree)
    for name in ("algorithm", "environment"):
        if not values.get(name):
            raise WeftError(f"The configuration names no {name}.")
    algorithm, environment = str(values.pop("algorithm")), str(values.pop("environment"))
    settings, graph = values.pop(section, {}), values.pop(GRAPH, {})
    train = resolve(TrainSettings, values, "train")
    topology = topologies.place(train.topology)
    if train.runtime is None:
        train = replace(train, runtime=topology.runtime)
    return Config(
        algorithm,
        environment,
        train,
        section,
        _of_class(settings_class, settings, section),
        _of_class(topologies.settings_class(train.topology), graph, GRAPH),
    )


def _of_class(kind: type, settings: Any, section: str) -> Any:
    if not isinstance(settings, kind):
        settings = resolve(kind, settings, section)
    return check(settings, section)


def name_of(thing: str | Callable[..., Any] | tuple[Any, ...]) -> str:
    """Return the name by which a configuration knows the user's own code: ``module:qualified.name``.

    What has no name that can be imported (a lambda, a closure, a pair) is described in angle brackets, and has to be
    given again when the run is loaded.
    """
    if isinstance(thing, str):
        return thing
    name = f"{getattr(thing, '__module__', None)}:{getattr(thing, '__qualname__', None)}"
    return f"<{type(thing).__name__}>" if "None" in name.split(":") or "<" in name else name
