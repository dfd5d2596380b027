"""Values of states from auxiliary rollouts, which are played and never trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bpo.credit.record import SPREAD, Credit, each, require_finished, trained
from bpo.errors import BadInput
from bpo.tree import ROOT, Tree


def vineppo(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """Advantage r_t + V(s_{t+1}) - V(s_t), with V(s) the mean return of the auxiliary rollouts from s (arXiv 2410.01679).

    Needs rollouts from the root whose first states have auxiliary rollouts; weight 1/N. A leaf has the value of what its
    rollout returned. Where a state has none, the steps around it share one advantage, from the last value to the next (new
    here). With a value in every state the advantages of a rollout add up to its return minus V(s_0). Unbiased: the value of
    s_t knows nothing of the action that is drawn there for training, and the next value is one of what the action led to.
    """
    return [_from_values(tree) for tree in each(trees)]


def estimated(tree: Tree) -> np.ndarray:
    """float64 [n], mean return (from the root on) of the auxiliary rollouts from a state; of a leaf its own; nan elsewhere."""
    found = np.full(len(tree), np.nan)
    for node in range(len(tree)):
        if tree.auxiliary[node]:
            continue
        if tree.auxiliary_children[node]:
            found[node] = np.mean([tree.returns[tree.main_leaf(child)] for child in tree.auxiliary_children[node]])
        elif not tree.children[node]:
            found[node] = tree.returns[node]
    return found


def _from_values(tree: Tree) -> Credit:
    require_finished(tree)
    if not tree.auxiliary_children[ROOT] or any(node != ROOT for node in tree.branch_points):
        raise BadInput(f"{tree.task}: this rule needs rollouts from the root, and auxiliary rollouts there at least")
    before = estimated(tree)
    after = before.copy()
    for node in range(1, len(tree)):
        if np.isnan(before[node]):
            before[node] = before[tree.parent[node]]
    for node in range(len(tree) - 1, 0, -1):
        if np.isnan(after[node]) and not tree.auxiliary[node]:
            after[node] = after[tree.children[node][0]]
    advantage = np.zeros(len(tree))
    edges = np.flatnonzero(~tree.auxiliary)[1:]
    advantage[edges] = after[edges] - before[tree.parent[edges]]
    has_signal = np.abs(advantage) > SPREAD
    return Credit(np.where(has_signal, advantage, 0.0), trained(tree, tree.mass), trained(tree, has_signal))
