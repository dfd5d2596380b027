"""A rollout tree as lines of text: readable in a terminal, in a notebook without widgets, and by a screen reader."""

from __future__ import annotations

import numpy as np

from bpo.credit import Credit
from bpo.tree import ROOT, Tree


def tree_lines(tree: Tree, credit: Credit | None = None) -> list[str]:
    """One line per action, indented only where paths part, with what the numbers of that edge are.

    H is the entropy (nats) in the state where the action was drawn, m the mass of the edge, A its advantage (where a credit is
    given); a leaf ends with its return G. Branch points are marked with *.
    """
    lines = [f"{tree.task}"]

    def walk(node: int, indent: str) -> None:
        kids = tree.kids[node]
        while len(kids) == 1:
            lines.append(f"{indent}{_edge(tree, kids[0], credit)}")
            kids = tree.kids[kids[0]]
        for number, kid in enumerate(kids):
            last = number == len(kids) - 1
            lines.append(f"{indent}{'`-' if last else '|-'}* {_edge(tree, kid, credit)}")
            walk(kid, indent + ("   " if last else "|  "))

    walk(ROOT, "")
    return lines


def _edge(tree: Tree, node: int, credit: Credit | None) -> str:
    step = tree.steps[node]
    action = step.decision.action if step is not None else ""
    entropy = tree.entropy[tree.parent[node]]
    parts = [
        action,
        f"[H {entropy:.2f}, m {tree.mass[node]:.3f}" + ("" if credit is None else f", A {credit.advantage[node]:+.2f}") + "]",
    ]
    if not tree.kids[node]:
        parts.append(f"-> G = {tree.returns[node]:g}")
    return " ".join(parts) if not np.isnan(entropy) else action
