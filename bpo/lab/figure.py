"""The map as a figure that can be read without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpo.errors import require
from bpo.viz.palette import GREY, style


def chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Cost ratio over the depth of the decision: a column per price of a fork, a row per horizon, with and without luck.

    Filled marks with bars are measured, with their intervals; hollow ones are predicted. K has a shape and a line of its own.
    """
    require("matplotlib", "notebooks")
    # Not through pyplot: no global state, no window, and nothing to close.
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    forks = sorted({row["fork"] for row in rows})
    lines = sorted({(row["luck"], row["horizon"]) for row in rows})
    widths = sorted({row["width"] for row in rows})
    size = (2.6 * len(forks) + 0.9, 2.0 * len(lines) + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(lines), len(forks), sharey=True, squeeze=False)
    for panels, (lucky, horizon) in zip(grid, lines, strict=True):
        for panel, fork in zip(panels, forks, strict=True):
            for index, width in enumerate(widths):
                _draw(panel, [r for r in rows if _is(r, lucky, horizon, fork, width)], index, len(widths))
            panel.axhline(1.0, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
            panel.set(yscale="log", xticks=sorted({r["depth"] for r in rows if r["horizon"] == horizon}))
            panel.set_title(f"T = {horizon}{', after luck' if lucky else ''}; a fork costs {fork:g}", fontsize=8)
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            panel.yaxis.set_minor_formatter(NullFormatter())
            panel.set_yticks([0.5, 0.7, 1.0, 1.4, 2.0])
    for panel in grid[-1]:
        panel.set_xlabel("depth of the decision")
    for panels in grid:
        panels[0].set_ylabel("branching / independent")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    return figure


def _is(row: Mapping[str, Any], lucky: bool, horizon: int, fork: float, width: int) -> bool:
    return (row["luck"], row["horizon"], row["fork"], row["width"]) == (lucky, horizon, fork, width)


def _draw(panel: Any, rows: Sequence[Mapping[str, Any]], index: int, count: int) -> None:
    look = style(index)
    # Side by side, so that bars do not hide each other.
    shift = 0.12 * (index - (count - 1) / 2)
    x = [row["depth"] + shift for row in rows]
    bars = [[row["ratio"] - row["low"] for row in rows], [row["high"] - row["ratio"] for row in rows]]
    width = rows[0]["width"]
    plain = {"color": look.color, "marker": look.marker, "linestyle": look.line, "linewidth": 1.0, "markersize": 5}
    panel.errorbar(x, [row["ratio"] for row in rows], yerr=bars, capsize=2, label=f"K = {width}, measured", **plain)
    hollow = {"markerfacecolor": "white", "linestyle": "none", "color": look.color, "marker": look.marker, "markersize": 5}
    panel.plot(x, [row["predicted"] for row in rows], label=f"K = {width}, predicted", **hollow)
