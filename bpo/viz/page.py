"""A tree as one HTML file that opens in any browser, without a network: point at an action to read it, click to fold."""

from __future__ import annotations

import html
import math
from importlib import resources
from typing import Any

from bpo.files import to_json
from bpo.tree import ROOT
from bpo.tree_log import SavedTree
from bpo.viz.layout import ending, label_start, labels, rows
from bpo.viz.text import action_of, one_line, summary, tree_lines

# Characters of a label that fit into one column of tree.js (104 pixels of its 11 pixel font).
COLUMN = 16


def script() -> str:
    """The JavaScript module that draws a tree, in the page and in the widget."""
    return resources.files(__package__).joinpath("tree.js").read_text(encoding="utf-8")


def style() -> str:
    """Its style sheet."""
    return resources.files(__package__).joinpath("tree.css").read_text(encoding="utf-8")


def plain(saved: SavedTree) -> dict[str, Any]:
    """What tree.js draws, as plain values: one object per node, with null where there is no number."""
    tree, credit = saved.tree, saved.credit
    row, words = rows(tree), labels(tree, credit, COLUMN)
    nodes = []
    for node in range(len(tree)):
        step, leaf = tree.steps[node], not tree.children[node]
        nodes.append(
            {
                "parent": None if node == ROOT else int(tree.parent[node]),
                "x": int(tree.depth[node]),
                "y": int(row[node]),
                "branch": len(tree.children[node]) > 1,
                "label": words[node],
                "label_x": float(label_start(tree, node)) if node != ROOT else 0.0,
                "action": action_of(tree, node),
                "log_prob": None if step is None else _number(sum(step.decision.log_probs)),
                "observation": saved.observations[node],
                "entropy": _number(tree.entropy[node]),
                "advantage": float(credit.advantage[node]),
                "weight": float(credit.weight[node]),
                "has_signal": bool(credit.has_signal[node]),
                "mass": float(tree.mass[node]),
                "q": _number(tree.value[node]),
                "siblings": _number(saved.siblings[node]),
                "return": _number(tree.returns[node]),
                "ending": ending(tree, node) if leaf else None,
                "won": leaf and bool(tree.outcome[node].get("won", tree.returns[node] > 0)),
            }
        )
    return {
        "title": tree.task,
        "subtitle": f"{saved.method}, update {saved.update}: {summary(tree)}",
        "limit": float(abs(credit.advantage).max()),
        "nodes": nodes,
    }


def page(saved: SavedTree) -> str:
    """The whole file: data, script and style in one, and the tree as text for readers without either."""
    # No "<" is left in the data, so that no text of a sandbox can end the element it lies in.
    data = to_json(plain(saved)).replace("<", "\\u003c")
    name, text = html.escape(one_line(saved.tree.task)), html.escape("\n".join(tree_lines(saved.tree, saved.credit)))
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{name}</title>
<style>
body {{ margin: 0 auto; padding: 12px 16px; }}
{style()}</style>
</head>
<body class="bpo-tree">
<main id="tree"></main>
<details><summary>The tree as text</summary><pre>{text}</pre></details>
<script type="application/json" id="data">{data}</script>
<script type="module">
{script()}
draw(document.getElementById("tree"), JSON.parse(document.getElementById("data").textContent));
</script>
</body>
</html>
"""


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
