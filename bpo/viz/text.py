"""A rollout tree as lines of text: readable in a terminal, in a notebook without widgets, and by a screen reader."""

from __future__ import annotations

import numpy as np

from bpo.credit import Credit
from bpo.errors import counted, instance
from bpo.printing import one_line
from bpo.tree import ROOT, Tree

# What is left of an action at least where a line is shortened.
SHORTEST = 8


def tree_lines(tree: Tree, credit: Credit | None = None, width: int | None = None) -> list[str]:
    """One line per action, indented only where paths part, with what the numbers of that edge are.

    H is the entropy (nats) of the action's first token with a choice, m the edge's mass, A its advantage (where a credit is
    given; without a sign where it sends no gradient); a leaf ends with its return G. Branch points are marked with *. Where a
    `width` is given, actions are shortened so that lines have at most as many characters, as far as `SHORTEST` allows.
    """
    hint = ": grow gives a list of them and what they cost, so name one, like trees[0]"
    instance("tree", tree, Tree, hint)
    if credit is not None:
        instance("credit", credit, Credit, ": a credit rule gives a list of them, one for each tree")
    if width is not None:
        counted("width", width)
    lines = [one_line(tree.task)]

    def walk(node: int, indent: str) -> None:
        children = tree.children[node]
        while len(children) == 1:
            lines.append(_line(tree, children[0], credit, indent, width))
            children = tree.children[children[0]]
        for number, child in enumerate(children):
            last = number == len(children) - 1
            lines.append(_line(tree, child, credit, f"{indent}{'`-' if last else '|-'}* ", width))
            walk(child, indent + ("   " if last else "|  "))

    walk(ROOT, "")
    return lines


def action_of(tree: Tree, node: int) -> str:
    """The action that led to the node, as it was written; at the root none. Writing that pauses ends with three dots."""
    step = tree.steps[node]
    return "" if step is None else step.decision.action + ("" if step.decision.ended else "...")


def signed(value: float, has_signal: bool = True) -> str:
    """An advantage as it is printed; one that sends no gradient has no sign."""
    return f"{value:+.2f}" if has_signal else f"{abs(value):.2f}"


def summary(tree: Tree) -> str:
    """Leaves, branch points and the mean return of a tree, in words."""
    leaves, points = len(tree.leaves), len(tree.branch_points)
    counts = f"{leaves} {'leaf' if leaves == 1 else 'leaves'}, {points} branch point{'' if points == 1 else 's'}"
    return f"{counts}, mean return {tree.value[ROOT]:.3g}"


def _line(tree: Tree, node: int, credit: Credit | None, start: str, width: int | None) -> str:
    action = one_line(action_of(tree, node))
    entropy = tree.entropy[tree.parent[node]]
    advantage = "" if credit is None else f", A {signed(credit.advantage[node], bool(credit.has_signal[node]))}"
    numbers = f" [H {entropy:.2f}, m {tree.mass[node]:.3f}{advantage}]"
    if not tree.children[node]:
        numbers += f" -> G = {tree.returns[node]:g}" if tree.ended[node] else " -> left open"
    if np.isnan(entropy):
        numbers = ""
    if width is not None:
        room = max(width - len(start) - len(numbers), SHORTEST)
        action = action if len(action) <= room else action[: room - 3] + "..."
    return f"{start}{action}{numbers}"
