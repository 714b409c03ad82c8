"""``weft graph``: the program that a training would run, printed and drawn."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

import weft
from weft import topologies
from weft.cli.parsing import parse
from weft.cli.train import settings_fields
from weft.config import GRAPH
from weft.errors import WeftError
from weft.settings import as_tree

EXAMPLE = "weft graph impala --actors 4 --output graph.svg"


@dataclasses.dataclass(frozen=True)
class Command:
    """Show who sends what to whom in a topology."""

    topology: Annotated[Positional[str], tyro.conf.arg(metavar="TOPOLOGY", help="See weft list topologies.")]
    algorithm: Annotated[Positional[str], tyro.conf.arg(metavar="ALGORITHM")] = ""
    """By default the one with the topology's name, or else a usual one of those that it serves."""
    environment: Annotated[Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = "CartPole-v1"
    """An id; or module:factory."""
    actors: int | None = None
    """How many actors."""
    envs: int | None = None
    """Environments of each actor."""
    output: Path | None = None
    """Draw it too: an .svg or .png file."""


def graph(arguments: list[str]) -> None:
    """``weft graph TOPOLOGY``."""
    named = [argument for argument in arguments[:2] if not argument.startswith("-")]
    if not named and not {"-h", "--help"} & set(arguments):
        raise WeftError(f"Say which topology: {EXAMPLE}.")
    topology = named[0] if named else "local"
    topologies.place(topology)
    algorithm = named[1] if len(named) > 1 else ""
    section, fields = settings_fields(algorithm, topology, {})
    kind = dataclasses.make_dataclass("Graph", fields, bases=(Command,), frozen=True)
    command: Any = parse(kind, arguments, "weft graph", description=f"Show who sends what to whom, as in: {EXAMPLE}.")
    tree = as_tree(command)
    program = weft.graph(
        command.topology,
        command.algorithm or None,
        command.environment,
        actors=command.actors,
        envs=command.envs,
        settings=tree.get(section) if section else None,
        graph=tree.get(GRAPH),
    )
    print(program)
    if command.output is not None:
        print(f"\nDrawn in {program.draw(command.output)}")
