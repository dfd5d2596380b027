"""The picture of a rollout tree: a matplotlib figure that can be read in greyscale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bpo.errors import require
from bpo.tree_log import SavedTree
from bpo.viz.layout import BEND, ending, label_start, labels, rows
from bpo.viz.palette import GREY, MINUS, PLUS, ZERO
from bpo.viz.text import one_line, summary

# Width of an average character in the figure's font, as a part of the font's size.
CHARACTER = 0.58
DASHES, DOTS = (0, (2.0, 1.0)), (0, (1, 2))


@dataclass(frozen=True)
class _Sheet:
    """What a tree is drawn on: node -> (x, y) in columns and rows; a column and a row in inches, the font in points."""

    x: np.ndarray
    y: np.ndarray
    column: float
    row: float

    @property
    def roomy(self) -> bool:
        return self.row > 0.25

    @property
    def font(self) -> float:
        return 7.0 if self.roomy else 5.5


def tree_figure(saved: SavedTree) -> Any:
    """One tree from left to right, one row per leaf; a matplotlib figure for `plots.png` and `plots.save`.

    Edges: colour is the advantage, dashes where it is negative, thin dots where no gradient is sent; width is the mass. Nodes:
    size is the entropy of the policy there, diamonds are branch points. Leaves: a star is a won episode, a cross another one.
    """
    require("matplotlib", "notebooks")
    from matplotlib.figure import Figure

    tree = saved.tree
    deepest, leaves = max(int(tree.depth.max()), 1), len(tree.leaves)
    width = float(np.clip(1.1 * deepest, 5.5, 13.0))
    sheet = _Sheet(tree.depth, rows(tree), width / deepest, float(np.clip(5.2 / leaves, 0.16, 0.4)))
    # Not through pyplot: no global state, no window, and nothing to close.
    figure = Figure(figsize=(width + 2.6, sheet.row * leaves + 1.7), layout="constrained")
    axes = figure.subplots()
    colors = _colors(float(np.abs(saved.credit.advantage).max()) or 1.0)
    _draw_edges(axes, saved, sheet, colors)
    _draw_nodes(axes, saved, sheet)
    _write_words(axes, saved, sheet)
    axes.set(xlim=(-0.15, deepest + 0.75 / sheet.column), ylim=(leaves - 0.4, -0.8), yticks=[])
    whole = all(step is None or step.decision.ended for step in tree.steps)
    axes.set_xlabel("actions from the start" if whole else "actions, and pauses inside them, from the start", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.spines[["left", "right", "top"]].set_visible(False)
    title = f"{one_line(tree.task)}\n{saved.method}, update {saved.update}: {summary(tree)}"
    axes.set_title(title, fontsize=9, loc="left", parse_math=False)
    bar = figure.colorbar(colors, ax=axes, shrink=min(1.0, 3.0 / (sheet.row * leaves)), aspect=18, pad=0.01)
    bar.set_label("advantage", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    key = _key(float(np.nanmax(tree.entropy)))
    figure.legend(handles=key, loc="outside lower center", ncols=4, fontsize=7, frameon=False, handlelength=3)
    return figure


def _colors(limit: float) -> Any:
    """Advantage -> colour, from -limit to limit."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    return ScalarMappable(Normalize(-limit, limit), LinearSegmentedColormap.from_list("advantage", (MINUS, ZERO, PLUS)))


def _draw_edges(axes: Any, saved: SavedTree, sheet: _Sheet, colors: Any) -> None:
    tree, credit = saved.tree, saved.credit
    for node in range(1, len(tree)):
        parent, advantage = tree.parent[node], credit.advantage[node]
        look = {"color": GREY, "linewidth": 0.8, "linestyle": DOTS}
        if credit.has_signal[node]:
            width = 0.9 + 3.6 * np.sqrt(tree.mass[node])
            look = {"color": colors.to_rgba(advantage), "linewidth": width, "linestyle": DASHES if advantage < 0 else "-"}
        line = _edge(sheet.x[parent], sheet.y[parent], sheet.x[node], sheet.y[node])
        axes.plot(*line, **look, solid_capstyle="butt", dash_capstyle="butt", zorder=1)


def _edge(x0: float, y0: float, x1: float, y1: float) -> tuple[np.ndarray, np.ndarray]:
    """The line from parent to child: a bend in the first part of the column, then straight along the child's row."""
    if y0 == y1:
        return np.array([x0, x1]), np.array([y0, y1])
    part = np.linspace(0, 1, 24)
    return np.append(x0 + BEND * (x1 - x0) * part, x1), np.append(y0 + (y1 - y0) * part**2 * (3 - 2 * part), y1)


def _draw_nodes(axes: Any, saved: SavedTree, sheet: _Sheet) -> None:
    tree, x, y = saved.tree, sheet.x, sheet.y
    # The largest mark is that of one nat, or of the most uncertain state above it; narrow columns get small marks.
    largest = (44 if sheet.roomy else 16) * min(1.0, sheet.column / 0.6) ** 2
    area = 4 + largest * np.nan_to_num(tree.entropy) / max(float(np.nanmax(tree.entropy)), 1.0)
    states = np.array([node for node in range(len(tree)) if len(tree.children[node]) == 1], np.int64)
    for some, marker, face, more in ((states, "o", "white", 0), (tree.branch_points, "D", "black", 8)):
        axes.scatter(x[some], y[some], s=area[some] + more, marker=marker, c=face, edgecolors="black", linewidths=0.6, zorder=3)
    won = np.array([bool(tree.outcome[leaf].get("won", tree.returns[leaf] > 0)) for leaf in tree.leaves])
    for some, marker, face, size in ((tree.leaves[won], "*", "black", 60), (tree.leaves[~won], "X", GREY, 22)):
        axes.scatter(x[some], y[some], s=size, marker=marker, c=face, linewidths=0, zorder=3)


def _write_words(axes: Any, saved: SavedTree, sheet: _Sheet) -> None:
    tree = saved.tree
    style = {"textcoords": "offset points", "fontsize": sheet.font, "parse_math": False}  # a dollar begins no formula
    for leaf in tree.leaves:
        axes.annotate(ending(tree, leaf), (sheet.x[leaf], sheet.y[leaf]), (6, 0), va="center", **style)
    for node, label in enumerate(labels(tree, saved.credit, 72 * sheet.column / (CHARACTER * sheet.font))):
        if label:
            above = 1.5 + 1.8 * np.sqrt(tree.mass[node])  # clear of the line
            axes.annotate(label, (label_start(tree, node), sheet.y[node]), (0, above), va="bottom", color="#333333", **style)


def _key(entropy: float) -> list[Any]:
    from matplotlib.lines import Line2D

    mark = {"color": "black", "linewidth": 0, "markersize": 5}
    state = f"state; large: high entropy (here to {entropy:.2f} nats)"
    return [
        Line2D([], [], color=PLUS, linewidth=2.5, label="advantage above 0"),
        Line2D([], [], color=MINUS, linewidth=2.5, linestyle=DASHES, label="below 0"),
        Line2D([], [], color=GREY, linewidth=0.8, linestyle=DOTS, label="no gradient"),
        Line2D([], [], color=ZERO, linewidth=4.5, label="wide: much of the mass"),
        Line2D([], [], marker="D", label="branch point", **mark),
        Line2D([], [], marker="o", markerfacecolor="white", label=state, **mark),
        Line2D([], [], marker="*", label="won", **mark | {"markersize": 8}),
        Line2D([], [], marker="X", label="not won", **mark | {"color": GREY, "markeredgewidth": 0}),
    ]
