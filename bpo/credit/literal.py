"""The literal reading of Branching Policy Optimization: advantages at branch points, and what other steps get of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bpo.credit.record import SPREAD, Credit, each, leave_one_out, reads, require_finished, trained
from bpo.tree import Tree


@reads("returns")
def bpo(
    trees: Sequence[Tree],
    running: float | None = None,
    *,
    suffix: str = "broadcast",
    prefix: str = "backbone",
    lam: float = 0.95,
) -> list[Credit]:
    """The paper's estimator, read literally (arXiv 2607.14171, Eqs. 3 to 5); every edge has weight 1.

    At a branch point child k gets A = G_k - mean of the other children's G, where G_k is the return of the path that child k
    continues. `suffix` is what the steps after it on that path get, which the paper leaves open (new here): "zero";
    "broadcast", A is added on all of them; "nearest", A holds until the next branch point of the path. `prefix="backbone"` adds
    lam^(t-u) times the backbone's A to the backbone steps u < t (Eq. 4); "off" leaves them out. Biased in general.
    """
    return [_literal(tree, suffix, prefix, lam) for tree in each(trees)]


def _literal(tree: Tree, suffix: str, prefix: str, lam: float) -> Credit:
    require_finished(tree)
    n = len(tree)
    advantage, spread, flat = np.zeros(n), np.zeros(n, bool), np.zeros(n, bool)

    def credit(node: int, value: float, has_spread: bool) -> None:
        advantage[node] += value
        (spread if has_spread else flat)[node] = True

    backbone = set(tree.backbone)
    for point in tree.branch_points:
        children = tree.children[point]
        returns = np.array([tree.returns[tree.main_leaf(child)] for child in children])
        has_spread = bool(np.ptp(returns) > SPREAD)
        local = leave_one_out(returns, np.full(len(children), 1 / len(children)))
        for child, value in zip(children, local, strict=True):
            credit(child, value, has_spread)
            if suffix == "zero":
                continue
            for node in tree.main_path(child)[1:]:
                if suffix == "nearest" and len(tree.children[tree.parent[node]]) > 1:
                    break
                credit(node, value, has_spread)
        if prefix == "backbone" and point in backbone:
            for node in tree.backbone[1 : tree.depth[point] + 1]:
                credit(node, lam ** float(tree.depth[point] - tree.depth[node] + 1) * local[0], has_spread)
    # An edge that no group credits belongs to the tree's loss (its KL) as long as the tree has a signal at all.
    has_signal = spread | (~spread & ~flat & spread.any())
    return Credit(advantage, trained(tree, np.ones(n)), trained(tree, has_signal))
