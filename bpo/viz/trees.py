"""The picture of a rollout tree: a matplotlib figure that can be read in greyscale."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpo.errors import require
from bpo.saved import SavedTree
from bpo.viz.layout import BEND, ending, label_start, labels, rows
from bpo.viz.palette import GREY, MINUS, PLUS, ZERO
from bpo.viz.text import one_line, summary

# Width of an average character in the figure's font, as a part of the font's size.
CHARACTER = 0.58
DASHES = (0, (2.0, 1.0))


def tree_figure(saved: SavedTree) -> Any:
    """One tree from left to right, one row per leaf; a matplotlib figure for `plots.png` and `plots.save`.

    Edges: colour is the advantage, dashes where it is negative, thin dots where no gradient is sent; width is the mass. Nodes:
    size is the entropy of the policy there, diamonds are branch points. Leaves: a star is a won episode, a cross another one.
    """
    require("matplotlib", "notebooks")
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    tree, credit = saved.tree, saved.credit
    x, y = tree.depth, rows(tree)
    row = float(np.clip(5.2 / len(tree.leaves), 0.16, 0.4))  # inches
    width = float(np.clip(1.1 * x.max(), 5.5, 13.0))
    size = 7.0 if row > 0.25 else 5.5  # points
    # Not through pyplot: no global state, no window, and nothing to close.
    figure = Figure(figsize=(width + 2.6, row * len(tree.leaves) + 1.7), layout="constrained")
    axes = figure.subplots()
    limit = float(np.abs(credit.advantage).max()) or 1.0
    colors = ScalarMappable(Normalize(-limit, limit), LinearSegmentedColormap.from_list("advantage", (MINUS, ZERO, PLUS)))
    for node in range(1, len(tree)):
        parent = tree.parent[node]
        line = DASHES if credit.advantage[node] < 0 else "-"
        axes.plot(
            *_edge(x[parent], y[parent], x[node], y[node]),
            color=colors.to_rgba(credit.advantage[node]) if credit.live[node] else GREY,
            linewidth=0.9 + 3.6 * np.sqrt(tree.mass[node]) if credit.live[node] else 0.8,
            linestyle=line if credit.live[node] else (0, (1, 2)),
            solid_capstyle="butt",
            dash_capstyle="butt",
            zorder=1,
        )
    inner = np.array([node for node in range(len(tree)) if tree.kids[node]], np.int64)
    points = np.isin(inner, tree.branch_points)
    top = float(np.nanmax(tree.entropy)) or 1.0
    room = min(1.0, width / max(x.max(), 1) / 0.6) ** 2  # narrow columns get small marks
    area = 4 + (44 if row > 0.25 else 16) * room * np.nan_to_num(tree.entropy) / max(top, 1.0)
    for marker, which, face, more in (("o", ~points, "white", 0), ("D", points, "black", 8)):
        some = inner[which]
        axes.scatter(x[some], y[some], s=area[some] + more, marker=marker, c=face, edgecolors="black", linewidths=0.6, zorder=3)
    for node in tree.leaves:
        won = bool(tree.outcome[node].get("won", tree.returns[node] > 0))
        axes.scatter(
            [x[node]],
            [y[node]],
            s=60 if won else 22,
            marker="*" if won else "X",
            c="black" if won else GREY,
            linewidths=0,
            zorder=3,
        )
        axes.annotate(ending(tree, node), (x[node], y[node]), (6, 0), textcoords="offset points", fontsize=size, va="center")
    words = labels(tree, credit, column=72 * width / max(x.max(), 1) / (CHARACTER * size))
    for node, label in enumerate(words):
        if label:
            above = 1.5 + 1.8 * np.sqrt(tree.mass[node])
            at = (label_start(tree, node), y[node])
            axes.annotate(
                label, at, (0, above), textcoords="offset points", fontsize=size, va="bottom", color="#333333", parse_math=False
            )
    axes.set_ylim(len(tree.leaves) - 0.4, -0.8)
    axes.set_xlim(-0.15, x.max() + 0.75 * x.max() / width)
    axes.set_yticks([])
    axes.set_xlabel("actions from the start", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.xaxis.get_major_locator().set_params(integer=True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    title = f"{one_line(tree.task)}\n{saved.method}, update {saved.update}: {summary(tree)}"
    axes.set_title(title, fontsize=9, loc="left", parse_math=False)
    bar = figure.colorbar(colors, ax=axes, shrink=min(1.0, 3.0 / (row * len(tree.leaves))), aspect=18, pad=0.01)
    bar.set_label("advantage", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    entry = {"color": "black", "linewidth": 0, "markersize": 5}
    legend = [
        Line2D([], [], color=PLUS, linewidth=2.5, label="advantage above 0"),
        Line2D([], [], color=MINUS, linewidth=2.5, linestyle=DASHES, label="below 0"),
        Line2D([], [], color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), label="no gradient"),
        Line2D([], [], color=ZERO, linewidth=4.5, label="wide: much of the mass"),
        Line2D([], [], marker="D", label="branch point", **entry),
        Line2D(
            [], [], marker="o", markerfacecolor="white", label=f"state; large: high entropy (here to {top:.2f} nats)", **entry
        ),
        Line2D([], [], marker="*", label="won", **entry | {"markersize": 8}),
        Line2D([], [], marker="X", label="not won", **entry | {"color": GREY, "markeredgewidth": 0}),
    ]
    figure.legend(handles=legend, loc="outside lower center", ncols=4, fontsize=7, frameon=False, handlelength=3)
    return figure


def _edge(x0: float, y0: float, x1: float, y1: float) -> tuple[np.ndarray, np.ndarray]:
    """The line from parent to child: a bend in the first part of the column, then straight along the child's row."""
    if y0 == y1:
        return np.array([x0, x1]), np.array([y0, y1])
    part = np.linspace(0, 1, 24)
    return np.append(x0 + BEND * (x1 - x0) * part, x1), np.append(y0 + (y1 - y0) * part**2 * (3 - 2 * part), y1)
