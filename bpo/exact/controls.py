"""Ways of breaking an unbiased estimator, as small as can be: `check_unbiased` must catch them (theory.md, B1 to B7)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bpo import credit, select
from bpo.credit import Credit, CreditRule
from bpo.exact.moments import Sampling
from bpo.rollout import Growth
from bpo.select import Boundary
from bpo.tree import ROOT, Tree

ROOT_ALONE = Growth(select.RootOnly(), points=1, width=2, root=True)
SPLIT = partial(credit.bpo_split, root_baseline="zero")


class Below(select.Threshold):
    """Branches where the entropy reaches a threshold, but never at the root."""

    def wants(self, boundary: Boundary) -> bool:
        return boundary.depth > 0 and super().wants(boundary)


class PostHocBelow(select.PostHocSelector):
    """The boundaries at which Below fires, found on the finished backbone: in itself no look ahead."""

    def __init__(self, threshold: float):
        super().__init__()
        self.below = Below(threshold)

    def ranking(self, boundaries: Sequence[Boundary], candidates: list[int], count: int) -> list[int]:
        return [i for i in candidates if self.below.wants(boundaries[i])]


@dataclass(frozen=True)
class Control:
    """A broken estimator: its growth, its credit rule, how it draws, what is wrong, and its sound counterpart."""

    wrong: str
    growth: Growth
    rule: CreditRule = SPLIT
    sampling: Sampling | None = None
    sound: tuple[Growth, CreditRule] = (ROOT_ALONE, SPLIT)


def own_return_in_baseline(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """A = Q - (mean over *all* children of the nearest branch point, the own one included)."""
    out = []
    for tree in trees:
        base = np.zeros(len(tree))
        for node in range(1, len(tree)):
            parent = tree.parent[node]
            base[node] = tree.value[parent] if len(tree.children[parent]) > 1 else base[parent]
        sound = credit.bpo_split([tree], running, root_baseline="zero")[0]
        out.append(replace(sound, advantage=np.where(np.arange(len(tree)) == ROOT, 0.0, tree.value - base)))
    return out


def weights_by_action(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """Mass splitting in which a child's share grows with the number of its action."""
    return [_reweighted(tree, lambda child, tree=tree: 1.0 + int(tree.steps[child].decision.action)) for tree in trees]


def weights_by_grown_leaves(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """Mass splitting in which every leaf that grew has the same mass."""
    return [_reweighted(tree, lambda child, tree=tree: _leaves_below(tree, child)) for tree in trees]


def token_mean(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """Mass splitting whose loss is divided by the number of edges that the tree happens to have."""
    sound = credit.bpo_split(trees, running, root_baseline="zero")
    return [replace(one, weight=one.weight / (len(tree) - 1)) for tree, one in zip(trees, sound, strict=True)]


def without_replacement(tree: Tree) -> float:
    """How much likelier a tree is when siblings are drawn one after the other among the actions not drawn yet."""
    factor = 1.0
    for point in tree.branch_points:
        gone: dict[str, float] = {}
        for child in tree.children[point]:
            decision = tree.steps[child].decision
            if decision.action in gone:
                return 0.0
            factor /= 1.0 - sum(gone.values())
            gone[decision.action] = math.exp(decision.log_probs[0])
    return factor


CONTROLS = {
    "own return in the baseline": Control(
        "a child's baseline contains the child's own return", ROOT_ALONE, own_return_in_baseline
    ),
    "selector that looks ahead": Control(
        "the branch point is the most uncertain boundary of the finished backbone",
        Growth(select.TopEntropy(), points=1, width=2),
        sound=(Growth(select.Threshold(0.6), points=1, width=2), SPLIT),
    ),
    "weights that look at the action": Control("a child's share depends on its action", ROOT_ALONE, weights_by_action),
    "equal weight per leaf that grew": Control(
        "a child's share depends on how many leaves grew below it",
        Growth(Below(0.6), points=2, width=2, root=True),
        weights_by_grown_leaves,
        sound=(Growth(Below(0.6), points=2, width=2, root=True), SPLIT),
    ),
    "distinct siblings": Control("siblings are drawn without replacement", ROOT_ALONE, SPLIT, without_replacement),
    "top-up rollouts": Control(
        "a tree that found no branch point gets another rollout from the root",
        Growth(PostHocBelow(0.6), points=1, width=2, fill="root"),
        sound=(Growth(PostHocBelow(0.6), points=1, width=2), SPLIT),
    ),
    "token-mean loss": Control(
        "the loss is divided by the number of edges that grew",
        Growth(Below(0.6), points=1, width=2),
        token_mean,
        sound=(Growth(Below(0.6), points=1, width=2), SPLIT),
    ),
}


def _reweighted(tree: Tree, wish) -> Credit:
    weight = tree.weight.copy()
    for point in tree.branch_points:
        wishes = np.array([wish(child) for child in tree.children[point]], float)
        weight[list(tree.children[point])] = wishes / wishes.sum()
    return credit.bpo_split([replace(tree, weight=weight)], root_baseline="zero")[0]


def _leaves_below(tree: Tree, node: int) -> int:
    return sum(_leaves_below(tree, child) for child in tree.children[node]) or 1
