"""The subcommands that take a run or a name; each is one call of the Python API."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

import weft
from weft.cli.parsing import call


def evaluate(arguments: list[str]) -> None:
    """``weft evaluate RUN``."""

    def command(
        run: Positional[Path], episodes: int = 20, best: bool = False, sample: bool = False, json: bool = False
    ) -> None:
        """Play whole episodes with a trained policy and print what they return.

        Args:
            run: Folder of the run.
            episodes: Episodes to play.
            best: Use the checkpoint with the highest mean return instead of the newest.
            sample: Sample actions as in training instead of taking the likeliest.
            json: Print one JSON object.
        """
        result = weft.load(run).evaluate(episodes, deterministic=not sample, best=best)
        _print_evaluation(result, json)

    call(command, arguments, "weft evaluate")


def resume(arguments: list[str]) -> None:
    """``weft resume RUN``."""

    def command(run: Positional[Path], steps: int | None = None) -> None:
        """Continue a run from its newest checkpoint.

        Args:
            run: Folder of the run.
            steps: Total steps of the run; unset: what it was begun with.
        """
        weft.load(run).resume(steps)

    call(command, arguments, "weft resume")


def replay_order(arguments: list[str]) -> None:
    """``weft replay-order RUN``."""

    def command(run: Positional[Path], folder: Path | None = None) -> None:
        """Repeat an asynchronous run bit for bit, on the runtime inline, in the recorded order of its events.

        Args:
            run: Folder of the run.
            folder: Of the repetition; unset: a new one in runs/.
        """
        weft.load(run).repeat(folder)

    call(command, arguments, "weft replay-order")


def record(arguments: list[str]) -> None:
    """``weft record RUN``."""

    def command(run: Positional[Path], output: Path | None = None, episodes: int = 1, best: bool = False) -> None:
        """Film whole episodes of a trained policy.

        Args:
            run: Folder of the run.
            output: An .mp4 or .gif file; unset: video.mp4 in the run's folder.
            episodes: Episodes to film.
            best: Use the checkpoint with the highest mean return instead of the newest.
        """
        print(weft.load(run).record(output, episodes=episodes, best=best))

    call(command, arguments, "weft record")


def plot(arguments: list[str]) -> None:
    """``weft plot RUN...``."""

    def command(runs: Positional[tuple[Path, ...]], output: Path = Path("plot.png")) -> None:
        """Draw returns and speed; runs that differ in their seed alone become one line with a confidence band.

        Args:
            runs: Folders of the runs.
            output: The picture to write.
        """
        print(weft.plot(runs, output))

    call(command, arguments, "weft plot")


def list_names(arguments: list[str]) -> None:
    """``weft list WHAT``."""

    def command(what: Positional[Literal["algorithms", "environments", "topologies", "runtimes"]]) -> None:
        """List what there is.

        Args:
            what: Of which kind.
        """
        if what == "environments":
            from weft.envs import known

            for library, ids in known().items():
                print(f"{library}:", *(f"  {name}" for name in sorted(ids)), sep="\n")
        else:
            _print_modules(what)

    call(command, arguments, "weft list")


def show(arguments: list[str]) -> None:
    """``weft show NAME``."""

    def command(name: Positional[str]) -> None:
        """Show the settings of an algorithm (default, range, meaning, and the paper) or of a topology.

        Args:
            name: An algorithm, by name or module:factory; or a topology.
        """
        from weft import algorithms, topologies
        from weft.config import GRAPH

        if name in topologies.TOPOLOGIES and name not in algorithms.ALGORITHMS:
            _print_settings(GRAPH, topologies.settings_class(name))
            return
        factory = algorithms.find(name)
        _print_settings(factory.__name__, algorithms.settings_class(factory))
        if name in topologies.TOPOLOGIES:
            print()
            _print_settings(GRAPH, topologies.settings_class(name))

    call(command, arguments, "weft show")


def _print_evaluation(result: Any, as_json: bool) -> None:
    if as_json:
        row = {
            "mean_return": result.mean_return,
            "standard_deviation": result.standard_deviation,
            "episodes": len(result.returns),
            "returns": result.returns.tolist(),
            "lengths": result.lengths.tolist(),
        }
        print(json.dumps(row))
        return
    print(
        f"mean return {result.mean_return:.1f} ± {result.standard_deviation:.1f} (standard deviation) over "
        f"{len(result.returns)} episodes, mean length {result.lengths.mean():.0f}"
    )


def _print_modules(kind: str) -> None:
    """Print names with the first line of their file, without importing them."""
    from weft.algorithms import ALGORITHMS
    from weft.runtime import RUNTIMES
    from weft.topologies import TOPOLOGIES

    modules = {name: place.module for name, place in TOPOLOGIES.items()}
    names: dict[str, str] = {"algorithms": ALGORITHMS, "topologies": modules, "runtimes": RUNTIMES}[kind]
    for name in sorted(names):
        print(f"{name:<9} {_first_line(names[name].partition(':')[0])}")


def _first_line(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0].removeprefix(f"``{module.rpartition('.')[2]}``: ")


def _print_settings(name: str, kind: type) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from weft.settings import meanings

    console = Console(highlight=False)
    console.print(Text(f"{name}: {(kind.__doc__ or '').strip()}", "bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("setting", "default", "range"):
        table.add_column(column, no_wrap=True)
    table.add_column("meaning", ratio=1)
    texts = meanings(kind)
    nested = []
    for field in dataclasses.fields(kind):
        default = _default(field)
        if dataclasses.is_dataclass(default):
            nested.append((f"{name}.{field.name}", type(default)))
            continue
        flag = f"--{name}.{field.name}".replace("_", "-")
        table.add_row(flag, _value(default), _range(field), texts.get(field.name, ""))
    console.print(table)
    for section, inner in nested:
        console.print()
        _print_settings(section, inner)


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _value(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _range(field: dataclasses.Field[Any]) -> str:
    limits = field.metadata
    if "above" in limits:
        return f"> {limits['above']:g}"
    if "low" in limits:
        return f">= {limits['low']:g}" if limits["high"] == float("inf") else f"{limits['low']:g} to {limits['high']:g}"
    return ""
