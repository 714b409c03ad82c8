"""A program as a picture: a column for each group of nodes, a row for each link between them.

Columns are ordered by how many links they are away from the main node, which is the last one, so that what actors make
flows to the right. A row crosses columns that have nothing to do with it; a dot marks those that send, an arrowhead
those that receive. So nothing overlaps, however many nodes and channels there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.drawing.folding import Group, Link, fold
from weft.drawing.text import headline, manner, sizes_of
from weft.errors import WeftError
from weft.program import Program

COLUMN, BOX, ROW, HEAD = 3.1, 2.3, 0.78, 0.85
"""Inches: from column to column, width and height of a box, and from row to row."""
MARGIN, TITLE = 0.35, 0.8
COLOURS = {"queue": "#1f6f8b", "mailbox": "#b4541a", "call": "#5b3f8c"}
INK, FAINT, PAPER = "#222222", "#bbbbbb", "#f4f1ea"
LEGEND = {
    "queue": "queue: bounded, in order (thick: agent steps)",
    "mailbox": "mailbox: the newest value and its version",
    "call": "call: request and reply",
}


def draw(program: Program, path: str | Path) -> Path:
    """Write a picture of a program, SVG or PNG by the ending of ``path``; returns the path."""
    from matplotlib import rc_context

    path = Path(path)
    if path.suffix not in (".svg", ".png"):
        raise WeftError(f"A graph is drawn as .svg or .png, not as {path.name!r}.")
    groups, links = fold(program)
    groups = _ordered(groups, links)
    figure, axes = _paper(len(groups), len(links))
    axes.text(MARGIN, TITLE / 2, headline(program), fontsize=13, fontweight="bold", color=INK, va="center")
    for place, group in enumerate(groups):
        _draw_column(axes, group, _x(place), len(links))
    for row, link in enumerate(links):
        _draw_link(axes, link, groups, TITLE + HEAD + ROW * (row + 0.75))
    _draw_legend(axes, [link.kind for link in links], TITLE + HEAD + ROW * (len(links) + 0.5))
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.fonttype": "none"}):  # words in an SVG stay words
        figure.savefig(path, dpi=160, facecolor="white")
    return path


def _ordered(groups: list[Group], links: list[Link]) -> list[Group]:
    """Return the groups, those farthest from the main node first."""
    distance = {group: 0 for group in groups if group.main}
    for _ in groups:
        for link in links:
            reached = [distance[group] for group in link.groups if group in distance]
            for group in link.groups:
                distance[group] = min(distance.get(group, len(groups)), min(reached, default=len(groups)) + 1)
    return sorted(groups, key=lambda group: -distance.get(group, 0))


def _x(place: int) -> float:
    return MARGIN + BOX / 2 + 0.1 + COLUMN * place


def _paper(columns: int, rows: int) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = max(_x(columns - 1) + BOX / 2 + MARGIN + 0.1, 8.0)
    height = TITLE + HEAD + ROW * (rows + 0.5) + 0.5
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    return figure, axes


def _draw_column(axes: Any, group: Group, x: float, rows: int) -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.plot([x, x], [TITLE + HEAD, TITLE + HEAD + ROW * (rows + 0.25)], color=FAINT, linewidth=1.2, zorder=1)
    style: Any = {"boxstyle": "round,pad=0,rounding_size=0.1", "facecolor": PAPER, "edgecolor": INK}
    for depth in (2, 1, 0) if len(group.nodes) > 1 else (0,):
        corner = (x - BOX / 2 + 0.06 * depth, TITLE - 0.06 * depth)
        axes.add_patch(FancyBboxPatch(corner, BOX, HEAD, linewidth=2.2 if group.main else 1.2, zorder=2, **style))
    fate = "the program ends with it" if group.main else group.fate
    axes.text(x, TITLE + 0.34, group.name, ha="center", va="center", fontsize=11, color=INK, zorder=3)
    axes.text(x, TITLE + 0.6, fate, ha="center", va="center", fontsize=7.5, color="#666666", zorder=3)


def _draw_link(axes: Any, link: Link, groups: list[Group], y: float) -> None:
    colour, width = COLOURS[link.kind], 2.6 if link.carries_experience else 1.4
    senders, receivers = (sorted(_x(groups.index(group)) for group in side) for side in (link.senders, link.receivers))
    within = set(senders) & set(receivers)
    left, right = min(senders + receivers), max(senders + receivers) + (0.6 if within else 0.0)
    axes.plot([left, right], [y, y], color=colour, linewidth=width, solid_capstyle="butt", zorder=4)
    for x in senders:
        axes.plot([x], [y], "o", color=colour, markersize=6, zorder=5)
    for x in receivers:
        leftwards = x in within or min(senders) > x
        side = 0.22 if leftwards else -0.22
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "mutation_scale": 15, "shrinkA": 0}
        axes.annotate("", xy=(x, y), xytext=(x + side, y), arrowprops={**arrow, "shrinkB": 3 if x in within else 0})
    if link.kind == "call":
        for x in senders:
            axes.plot([x], [y], marker="<" if x < max(receivers) else ">", color=colour, markersize=8, zorder=6)
    many = f" x {len(link.channels)}" if len(link.channels) > 1 else ""
    words = {"color": colour, "ha": "left", "zorder": 7, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
    axes.text(left + 0.28, y - 0.07, f"{link.name}{many}", va="bottom", fontsize=9, **words)
    axes.text(left + 0.28, y + 0.07, f"{sizes_of(link)}, {manner(link)}", va="top", fontsize=7, **words)


def _draw_legend(axes: Any, kinds: list[str], y: float) -> None:
    x = MARGIN
    for kind in dict.fromkeys(kinds):
        axes.text(x, y, LEGEND[kind], fontsize=7.5, color=COLOURS[kind], va="center")
        x += 0.068 * len(LEGEND[kind])
