"""One look for all figures: seaborn's `colorblind` colours, never alone, each with a marker and a line style of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How one series is drawn."""

    color: str
    marker: str
    line: str | tuple


COLORS = ("#0173B2", "#DE8F05", "#029E73", "#D55E00", "#CC78BC", "#CA9161", "#56B4E9", "#949494", "#ECE133", "#FBAFE4")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (5, 5)), (0, (3, 5, 1, 5)), (0, (1, 4)))
GREY = "#666666"
# Ends and middle of the advantage: in greyscale the middle is light and both ends are dark, so the sign has a dash as well.
MINUS, ZERO, PLUS = COLORS[3], "#C4C4C4", COLORS[0]


def style(index: int) -> Style:
    """The style of series number `index`; it repeats after ten."""
    return Style(COLORS[index % len(COLORS)], MARKERS[index % len(MARKERS)], LINES[index % len(LINES)])
