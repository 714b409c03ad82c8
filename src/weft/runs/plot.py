"""Returns and speed of runs as one figure; runs that differ in their seed only are one line with a confidence band."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from weft.errors import WeftError
from weft.runs import metrics
from weft.runs.files import disk_errors
from weft.runs.folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which the colour-blind can tell apart."""
_STYLES = ("-", "--", ":", "-.")
_POINTS = 400
_RESAMPLES = 1000
_CONFIDENCE = 95
_IDENTITY = ("algorithm", "environment", "topology", "runtime")
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
}


class _Run(NamedTuple):
    config: dict[str, Any]
    """Flat, without what tells seeds apart."""
    columns: dict[str, np.ndarray]


class _Group(NamedTuple):
    runs: list[_Run]
    label: str


class HasFolder(Protocol):
    """A run."""

    folder: Path


Source: TypeAlias = str | Path | HasFolder
"""A run, or its folder."""


def plot(runs: Sequence[Source | Sequence[Source]], output: str | Path) -> Path:
    """Draw mean return and steps per second of ``runs`` over agent steps into the picture ``output``.

    Runs whose configurations differ in the seed only are averaged, with a 95 % bootstrap interval of the mean over
    the seeds; a list among ``runs`` is averaged whatever its configurations. Returns ``output``.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups = _labelled(_grouped(runs))
    output = Path(output)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(8.0, 3.4), dpi=200, layout="constrained")
        FigureCanvasAgg(figure)
        returns, speed = figure.subplots(1, 2)
        for place, group in enumerate(groups):
            look = {
                "color": _COLOURS[place % len(_COLOURS)],
                "linestyle": _STYLES[place // len(_COLOURS) % len(_STYLES)],
            }
            _draw(returns, group, "mean_return", look)
            _draw(speed, group, "steps_per_second", look)
        _finish(returns, "Learning", "mean return of an episode")
        _finish(speed, "Speed", "agent steps per second")
        speed.set_ylim(bottom=0)
        _name(figure, returns, groups)
        with disk_errors(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(output)
    return output


def _grouped(runs: Sequence[Source | Sequence[Source]]) -> list[list[_Run]]:
    """Return the runs by the line they belong to, in the order given."""
    groups: dict[Any, list[_Run]] = {}
    for place, item in enumerate(runs):
        if isinstance(item, str) or not isinstance(item, Sequence):
            run = _load(item)
            groups.setdefault(tuple(sorted((name, repr(value)) for name, value in run.config.items())), []).append(run)
        else:
            groups[place] = [_load(path) for path in item]
    if not groups:
        raise WeftError("There is nothing to plot: name at least one run.")
    return list(groups.values())


def _load(source: Source) -> _Run:
    path = source if isinstance(source, str | Path) else source.folder
    folder = RunFolder.open(path)
    columns = metrics.read(folder.path)
    if "mean_return" not in columns or not np.isfinite(columns["mean_return"]).any():
        raise WeftError(f"{path} has no returns to plot yet: no episode has ended.")
    config = {name: value for name, value in _flat(folder.config) if name not in ("seed", "folder")}
    return _Run(config, columns)


def _flat(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        else:
            yield name, value


def _labelled(groups: list[list[_Run]]) -> list[_Group]:
    """Name each group by what tells it from the others: its identity, and its settings among those of its identity."""
    configs = [group[0].config for group in groups]
    identities = [[config.get(name) for name in _IDENTITY] for config in configs]
    labels = []
    for group, config, identity in zip(groups, configs, identities, strict=True):
        parts = [str(config.get(name)) for name in _differing(configs, _IDENTITY)]
        alike = [other for other, its in zip(configs, identities, strict=True) if its == identity]
        parts += [f"{name} {config.get(name)}" for name in _differing(alike, config)]
        seeds = f" ({len(group)} seeds)" if len(group) > 1 else ""
        labels.append(_Group(group, (", ".join(parts) or "mean") + seeds))
    return labels


def _differing(configs: Sequence[Mapping[str, Any]], names: Iterable[str]) -> list[str]:
    """Return the settings, of those named, that are not the same in all configurations."""
    return [name for name in names if len({repr(config.get(name)) for config in configs}) > 1]


def _draw(axes: Axes, group: _Group, name: str, look: Mapping[str, Any]) -> None:
    """Draw the column ``name``: the mean over the runs, and how sure it is where there are several."""
    curves = [curve for run in group.runs if len((curve := _curve(run, name))[0])]
    if not curves:
        return
    if len(curves) == 1:
        axes.plot(*curves[0], label=group.label, linewidth=1.4, **look)
        return
    first = max(steps[0] for steps, _ in curves)
    last = min(steps[-1] for steps, _ in curves)
    steps = np.linspace(first, max(first, last), _POINTS)
    values = np.stack([np.interp(steps, *curve) for curve in curves])
    low, high = _interval(values)
    axes.plot(steps, values.mean(0), label=group.label, linewidth=1.4, **look)
    axes.fill_between(steps, low, high, color=look["color"], alpha=0.18, linewidth=0)


def _curve(run: _Run, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and values where the value is known."""
    steps = run.columns["steps"]
    values = run.columns.get(name, np.full(len(steps), np.nan))
    known = np.isfinite(values)
    return steps[known], values[known]


def _interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bootstrap interval [P], [P] of the mean over the rows of ``values`` [seeds, P]."""
    seeds = len(values)
    resamples = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), _RESAMPLES)
    tail = (100 - _CONFIDENCE) / 2
    low, high = np.percentile(resamples @ values / seeds, [tail, 100 - tail], axis=0)
    return low, high


def _finish(axes: Axes, title: str, label: str) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel("agent steps")
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(left=0)


def _name(figure: Figure, axes: Axes, groups: list[_Group]) -> None:
    """Say what all lines share in the title, what each is and what the bands are in the legend."""
    configs = [group.runs[0].config for group in groups]
    shared = [str(configs[0].get(name)) for name in ("algorithm", "environment") if not _differing(configs, [name])]
    figure.suptitle(" on ".join(shared))
    several = any(len(group.runs) > 1 for group in groups)
    if several or len(groups) > 1:
        handles, labels = axes.get_legend_handles_labels()
        title = f"mean over seeds with its {_CONFIDENCE} % bootstrap interval" if several else None
        legend = figure.legend(handles, labels, loc="outside lower center", ncols=min(len(groups), 3), title=title)
        legend.get_title().set(fontsize=8, color="#555555")
