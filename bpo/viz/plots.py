"""Figures from plain data, readable in greyscale. Every function returns a matplotlib figure and leaves saving to `save`."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bpo.errors import require
from bpo.files import write_atomically
from bpo.viz.palette import GREY, style

Points = Sequence[tuple[float, float]]


def learning_curves(
    curves: Mapping[str, Sequence[Points]], *, limit: float | None = None, xlabel: str = "updates", ylabel: str = "success"
) -> Any:
    """Success against what was spent: per label one thick line of means and one thin line per seed.

    curves   per label one list of (x, success) points per seed, all seeds with equally many points
    limit    where to draw a vertical line: the budget that all are compared at
    """
    figure, axes = _axes(6.4, 4.0)
    from matplotlib.ticker import EngFormatter

    for index, (label, seeds) in enumerate(curves.items()):
        look = style(index)
        for points in seeds:
            axes.plot(*zip(*points, strict=True), color=look.color, linewidth=0.6, alpha=0.5)
        count = min(len(points) for points in seeds)
        middle = [[sum(points[i][axis] for points in seeds) / len(seeds) for i in range(count)] for axis in (0, 1)]
        axes.plot(*middle, color=look.color, marker=look.marker, linestyle=look.line, markersize=5, label=_literal(label))
    if limit is not None:
        axes.axvline(limit, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), label="compared up to here")
    axes.set(xlabel=_literal(xlabel), ylabel=_literal(ylabel))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 600000 tokens are 600k: long labels would overlap
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    return figure


def intervals(rows: Mapping[str, tuple[float, float, float]], *, xlabel: str) -> Any:
    """One line per label: a positive value with its interval, (value, low, high), on a logarithmic axis."""
    figure, axes = _axes(6.4, 0.6 + 0.38 * max(len(rows), 1))
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for index, (value, low, high) in enumerate(rows.values()):
        look = style(index)
        axes.plot([low, high], [index, index], color=look.color, linestyle="-", linewidth=2)
        axes.plot([value], [index], color=look.color, marker=look.marker, markersize=7)
    axes.set(xlabel=_literal(xlabel), xscale="log", ylim=(len(rows) - 0.5, -0.5))
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(rows)), [_literal(label) for label in rows])
    return figure


def training(metrics: Sequence[Mapping[str, Any]]) -> Any:
    """Three panels over the updates of one run: success of its rollouts, gradient norm, returns per tree."""
    rows = [row for row in metrics if row["update"] > 0]
    figure, panels = _figure(3, 9.0, 2.6)
    names = {"success": "success of rollouts", "grad_norm": "gradient norm", "returns_per_tree": "returns per tree"}
    for index, (axes, (key, label)) in enumerate(zip(panels, names.items(), strict=True)):
        look = style(index)
        axes.plot(
            [row["update"] for row in rows], [row[key] for row in rows], color=look.color, marker=look.marker, markersize=4
        )
        axes.set(xlabel="update", title=label)
        axes.grid(alpha=0.3)
    return figure


def png(figure: Any) -> bytes:
    """The figure as PNG; equal figures are equal bytes."""
    from PIL import Image

    drawn, buffer = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100, metadata={"Software": None})
    # A plot has few colours; a palette of 256 holds them in a third of the bytes.
    palette = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    palette.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def save(figure: Any, path: Path) -> None:
    """Write the figure as PNG, whole or not at all."""
    write_atomically(path, png(figure))


def _literal(text: str) -> str:
    # Two dollars would begin and end a formula, and a line in front keeps a name out of the legend.
    return ("\u200a" if text.startswith("_") else "") + text.replace("$", r"\$")


def _axes(width: float, height: float) -> tuple[Any, Any]:
    figure, axes = _figure(1, width, height)
    axes.grid(alpha=0.3)
    return figure, axes


def _figure(panels: int, width: float, height: float) -> tuple[Any, Any]:
    # Not through pyplot: no global state, no window, and nothing to close.
    require("matplotlib", "notebooks")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, panels)
