"""Labels of users in Markdown: the signs that they are, and no links, emphasis, HTML or formulas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# An underscore between letters or digits means nothing to Markdown; the bar between cells is escaped by the grid.
SIGNS = re.compile(r"[\\`*\[\]<>&~$]|(?<![^\W_])_|_(?![^\W_])")


def escaped(text: str) -> str:
    """The text so that Markdown shows it as it is, on one line."""
    return SIGNS.sub(lambda found: "\\" + found[0], " ".join(text.split()))


def with_escaped_labels(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table as `tables.build` makes it, with every text in it that a preset can choose ready for Markdown."""
    rows = [
        {**row, "label": escaped(row["label"]), "matched_to": [escaped(label) for label in row.get("matched_to", [])]}
        for row in table["rows"]
    ]
    official = table["official"]
    return {
        **table,
        "preset": escaped(table["preset"]),
        "scale": escaped(table["scale"]),
        "rows": rows,
        "pairs": [{**pair, "a": escaped(pair["a"]), "b": escaped(pair["b"])} for pair in table["pairs"]],
        "missing": [escaped(title) for title in table["missing"]],
        "reference": escaped(table["reference"]),
        "sets": [{**one, "areas": {escaped(label): found for label, found in one["areas"].items()}} for one in table["sets"]],
        "official": official and {**official, "rows": {escaped(label): row for label, row in official["rows"].items()}},
    }
