"""A plan that searches: when all paths of a tree have ended it forks where the best path fell short of its values most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bpo.builder import TreeBuilder
from bpo.credit.gae import advantages
from bpo.plan import Forest, Fork, Plan
from bpo.tree import ROOT, Tree


class SearchPlan(Plan):
    """`starts` paths from the root, then `searches` times one more path, from the state that `shortfall` names.

    Children share evenly in the end, and where they are depends on what was drawn: biased. Values are those of the method's
    critic, 0 where there is none; gamma and lam as in `bpo.credit.gae`.
    """

    def __init__(self, starts: int, searches: int, gamma: float, lam: float):
        self.starts, self.searches, self.gamma, self.lam = starts, searches, gamma, lam
        self._left: dict[int, int] = {}

    def forks(self, forest: Forest, memory: Any, rng: np.random.Generator) -> Sequence[Fork]:
        if not forest.fresh:
            self._left = dict.fromkeys(range(len(forest.trees)), self.searches)
            return [Fork(tree, ROOT, self.starts) for tree in self._left]
        wanted = []
        for number, builder in enumerate(forest.trees):
            if self._left[number] and not _open(builder):
                self._left[number] -= 1
                tree = builder.finish()
                values = np.zeros(len(tree)) if memory is None else memory.values([tree])[0]
                wanted.append(Fork(number, shortfall(tree, values, self.gamma, self.lam), 1))
        return wanted


def shortfall(tree: Tree, values: np.ndarray, gamma: float, lam: float) -> int:
    """The state on the greedy path from which on the path gave least against what was expected there.

    The greedy path takes the child with the largest advantage; the score of a state is minus the discounted sum of the
    advantages that follow on it, which with exact values and lam = 0 is V(s) minus what the path then returned. Ties go to the
    earliest state.
    """
    gain = advantages(tree, values, gamma, lam)
    path, node = [], ROOT
    while tree.children[node]:
        node = max(tree.children[node], key=lambda child: gain[child])
        path.append(node)
    scores = np.zeros(len(path) + 1)
    for place in range(len(path) - 1, -1, -1):
        scores[place] = -gain[path[place]] + gamma * scores[place + 1]
    return int(tree.parent[path[int(scores[:-1].argmax())]])


def _open(builder: TreeBuilder) -> bool:
    inner = set(builder.parent[1:])
    return any(not builder.ended[node] for node in range(len(builder)) if node not in inner)
