"""Where the nodes of a drawn tree go, and what is written beside its edges: numbers and words, no drawing."""

from __future__ import annotations

import numpy as np

from bpo.credit import Credit
from bpo.tree import ROOT, Tree
from bpo.viz.text import action_of, one_line, signed

# Part of a column in which an edge into another row bends; labels begin behind it.
BEND = 0.45
# Distance from a node to the label of the edge that goes straight on from it.
MARGIN = 0.12
# An action that is shortened to less than this says nothing.
SHORTEST = 5


def rows(tree: Tree) -> np.ndarray:
    """int64 [n], the row of every node, 0 at the top: one row per leaf, shared by all nodes of the path to it (`main_path`).

    Forks leave their path upwards and downwards in turn, and the later a fork leaves the nearer it stays. So with depth along x
    the backbone and every other path are straight, and no two edges cross.
    """
    found = np.zeros(len(tree), np.int64)
    free = iter(range(len(tree)))

    def place(start: int) -> None:
        path = tree.main_path(start)
        forks = [fork for node in path for fork in tree.children[node][1:]]
        for fork in forks[1::2]:
            place(fork)
        found[path] = next(free)
        for fork in forks[0::2][::-1]:
            place(fork)

    place(ROOT)
    return found


def labels(tree: Tree, credit: Credit, column: float) -> list[str]:
    """n entries, the words to write along the edge into each node, "" where there is no room.

    column   characters that fit into the width of one column

    An edge that leaves a branch point is compared with its siblings: it has its advantage, and its action, shortened if it must
    be; the label may reach over the edges that follow. Other edges have their action where all of it fits. No label reaches
    past the next branch point of its path, where edges bend away.
    """
    words = [""] * len(tree)
    starts = [ROOT, *(child for children in tree.children for child in children[1:])]
    for start in starts:
        path = tree.main_path(start)
        stops = [float(tree.depth[node]) for node in path if len(tree.children[node]) != 1]
        written = 0.0
        for node in path if start != ROOT else path[1:]:
            compared = len(tree.children[tree.parent[node]]) > 1
            begin = float(label_start(tree, node))
            room = int((min(stop for stop in stops if stop >= tree.depth[node]) - begin) * column)
            if begin < written:
                continue
            words[node] = _compared(tree, credit, node, room) if compared else _whole(one_line(action_of(tree, node)), room)
            written = begin + (len(words[node]) + 1) / column
    return words


def label_start(tree: Tree, node: int) -> float:
    """Where along x the label of the edge into `node` begins: right of its parent, behind the bend where others leave there."""
    return tree.depth[node] - 1 + (BEND if len(tree.children[tree.parent[node]]) > 1 else MARGIN)


def ending(tree: Tree, leaf: int) -> str:
    """How an episode ended, in words, and its return; a path that was left open has none."""
    if not tree.ended[leaf]:
        return "left open"
    facts = tree.outcome[leaf]
    word = "" if "won" not in facts else "won" if facts["won"] else "cut off" if facts.get("truncated") else "lost"
    return f"{word}, G {tree.returns[leaf]:.3g}".lstrip(", ")


def _compared(tree: Tree, credit: Credit, node: int, room: int) -> str:
    number = signed(credit.advantage[node], bool(credit.has_signal[node]))
    action = one_line(action_of(tree, node))
    left = room - len(number) - 1
    if len(action) > left:
        action = action[: left - 1] + "…" if left > SHORTEST else ""
    return _whole(f"{number} {action}".strip(), room)


def _whole(label: str, room: int) -> str:
    return label if len(label) <= room else ""
