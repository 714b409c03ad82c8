"""``weft train``: flags are made from the settings classes, so that a setting is declared in one place only."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

import weft
from weft import algorithms, topologies
from weft.cli.parsing import parse
from weft.config import GRAPH, TrainSettings
from weft.errors import WeftError
from weft.runs.folder import read_config
from weft.settings import as_tree, resolve

EXAMPLE = "weft train ALGORITHM ENVIRONMENT, for example weft train ppo CartPole-v1"

NAMES = {"algorithm": "See weft list algorithms; or module:factory.", "environment": "An id; or module:factory."}


@dataclasses.dataclass(frozen=True)
class Command(TrainSettings):
    """Train an algorithm in an environment and keep everything in a run folder."""

    folder: Path | None = None
    """The run's folder; unset: a new one in runs/."""
    seeds: int = 1
    """Train with this many seeds, from --seed on, one after the other."""
    config: Path | None = None
    """Begin from this configuration, such as RUN/config.toml; the other flags override it."""


def train(arguments: list[str]) -> None:
    """``weft train ALGORITHM ENVIRONMENT``."""
    path = _value_of("--config", arguments)
    tree = dict(read_config(Path(path))) if path else {}
    for name, value in zip(("algorithm", "environment"), arguments, strict=False):
        if value.startswith("-"):
            break
        tree[name] = value
    helping = bool({"-h", "--help"} & set(arguments))
    if not helping and not (tree.get("algorithm") and tree.get("environment")):
        raise WeftError(f"Say what to train and where: {EXAMPLE}.")
    section, command = _parse(arguments, tree)
    _start(section, command)


def _parse(arguments: list[str], tree: dict[str, Any]) -> tuple[str, Any]:
    """Read the flags over the defaults in ``tree``; returns the name of the algorithm's section too."""
    names = {name: str(tree.pop(name, "")) for name in NAMES}
    fields: list[Any] = [(name, _named(name.upper(), text), names[name]) for name, text in NAMES.items()]
    topology = _value_of("--topology", arguments) or tree.get("topology", TrainSettings.topology)
    section, more = settings_fields(names["algorithm"], topology, tree)
    fields += more
    kind = dataclasses.make_dataclass("Train", fields, bases=(Command,), frozen=True)
    defaults = resolve(TrainSettings, tree, "train")
    given = {field.name: getattr(defaults, field.name) for field in dataclasses.fields(TrainSettings)}
    default = kind(**given)
    return section, parse(kind, arguments, "weft train", default=default, description=_description(section))


def settings_fields(algorithm: str, topology: str, tree: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the name of an algorithm's section, and fields for its settings and those of a topology.

    Defaults are taken out of ``tree``, as far as they are there. Without an algorithm the section is empty.
    """
    section, fields = "", []
    if algorithm:
        factory = algorithms.find(algorithm)
        section = factory.__name__
        settings: Any = resolve(algorithms.settings_class(factory), tree.pop(section, {}), section)
        fields.append((section, type(settings), dataclasses.field(default=settings)))
    graph: Any = resolve(topologies.settings_class(topology), tree.pop(GRAPH, {}), GRAPH)
    if dataclasses.fields(graph):
        fields.append((GRAPH, type(graph), dataclasses.field(default=graph)))
    return section, fields


def _named(metavar: str, text: str) -> Any:
    return Annotated[Positional[str], tyro.conf.arg(metavar=metavar, help=text)]


def _description(section: str) -> str:
    more = f"Settings of {section} begin with --{section}." if section else "Name an algorithm to see its settings too."
    return f"Train an algorithm in an environment: {EXAMPLE}. {more}"


def _start(section: str, command: Any) -> None:
    tree = as_tree(command)
    folder, seeds = tree.pop("folder", None), tree.pop("seeds")
    tree.pop("config", None)
    if seeds == 1:
        weft.train(config=tree, folder=folder)
    else:
        weft.train_seeds(seeds, config=tree, folder=folder, seed=tree.pop("seed"))


def _value_of(flag: str, arguments: list[str]) -> str | None:
    """Return the value of one flag, before the flags can be parsed as a whole."""
    for argument, following in zip(arguments, [*arguments, ""][1:], strict=True):
        if argument == flag:
            return following or None
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
    return None
