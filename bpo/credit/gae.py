"""Generalised advantages: differences of a critic's values, discounted and added up along the path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bpo.credit.record import SPREAD, Credit, each, require_finished, trained
from bpo.tree import ROOT, Tree

if TYPE_CHECKING:
    from bpo.memory import Memory


def gae(trees: Sequence[Tree], memory: Memory | None = None, *, gamma: float = 1.0, lam: float = 0.95) -> list[Credit]:
    """Advantage sum of (gamma lam)^k delta_{t+k}, delta = r + gamma V(s') - V(s) (arXiv 1506.02438); weight is the mass.

    A rule of a batch. `memory` is the critic; without one every value is 0, as of one that has learned nothing. At a branch
    point the sum goes on with the mean of the children's by their shares, which on rollouts from the root is the usual sum.
    Biased by the critic's error unless lam = 1, and by gamma < 1.
    """
    values = [np.zeros(len(tree)) for tree in each(trees)] if memory is None else memory.values(trees)
    return [_credit(tree, advantages(tree, value, gamma, lam)) for tree, value in zip(trees, values, strict=True)]


def advantages(tree: Tree, values: np.ndarray, gamma: float, lam: float) -> np.ndarray:
    """float64 [n], the generalised advantage of every edge outside of auxiliary rollouts, given V of every state [n]."""
    require_finished(tree)
    found = np.zeros(len(tree))
    for node in range(len(tree) - 1, ROOT, -1):
        if not tree.auxiliary[node]:
            children = list(tree.children[node])
            following = gamma * values[node] + gamma * lam * float(tree.weight[children] @ found[children]) if children else 0.0
            found[node] = tree.reward[node] + following - values[tree.parent[node]]
    return found


def _credit(tree: Tree, advantage: np.ndarray) -> Credit:
    return Credit(advantage, trained(tree, tree.mass), trained(tree, np.abs(advantage) > SPREAD))
