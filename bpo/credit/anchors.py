"""Groups of steps that started in the same state: what independent rollouts share by accident, and forks by construction."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

import numpy as np

from bpo.credit.record import SPREAD, Credit, require_finished, trained
from bpo.errors import BadInput
from bpo.tree import ROOT, Tree

# A step is the edge into (number of the tree, node).
Edge = tuple[int, int]
# Texts that are this similar count as one state (the paper's ratio).
SIMILAR = 0.95


def gigpo(
    trees: Sequence[Tree],
    running: float | None = None,
    *,
    std: str = "sample",
    over: str = "steps",
    anchor: str = "text",
    omega: float = 1.0,
    gamma: float = 0.95,
) -> list[Credit]:
    """Advantage of the rollout plus `omega` times that of the step among steps from the same state (arXiv 2505.10978).

    Rollout: (R - mean) / F over the task's rollouts; `over` = "steps" counts each once per step, as the released code does by
    default, "rollouts" once. Step: (R_t - mean) / F over all steps of the task with the same anchor, R_t = sum of
    gamma^(k-t) r_k. F is the "sample" or "population" std, or 1 for "none". A group of one, or without spread, gives 0.
    `anchor`: "text", the same observation (the paper); "similar", a ratio of matching signs of 0.95 or more to the first of a
    group; "state", the same state of the sandbox, which may count steps. Weight 1/N. Biased: own returns in mean and std, and
    a state that was reached again says something of the actions before.
    """
    for tree in trees:
        require_finished(tree)
        if any(node != ROOT for node in tree.branch_points):
            raise BadInput(f"{tree.task}: this rule needs rollouts from the root and no other branch point")
    edges = [(t, node) for t, tree in enumerate(trees) for node in range(1, len(tree)) if not tree.auxiliary[node]]
    returns = {edge: _outcome(trees, edge) for edge in edges}
    rollouts = list(returns.values()) if over == "steps" else [_outcome(trees, first) for first in _firsts(trees)]
    center, scale = _statistics(np.array(rollouts), std)
    total = {edge: (value - center) / scale if scale else 0.0 for edge, value in returns.items()}
    for group in anchored(trees, anchor):
        later = np.array([discounted(trees[t], node, gamma) for t, node in group])
        center, scale = _statistics(later, std) if len(group) > 1 else (0.0, 0.0)
        for edge, value in zip(group, later, strict=True):
            total[edge] += omega * (value - center) / scale if scale else 0.0
    return [_credit(tree, {node: total[t, node] for s, node in edges if s == t}) for t, tree in enumerate(trees)]


def anchored(trees: Sequence[Tree], anchor: str) -> list[list[Edge]]:
    """The steps of one task's trees in groups that started in the same state, in order of the first of each."""
    groups: dict[Hashable, list[Edge]] = {}
    for t, tree in enumerate(trees):
        for node in range(1, len(tree)):
            if not tree.auxiliary[node]:
                key = tree.state_key[tree.parent[node]] if anchor == "state" else _text(tree, node)
                if anchor == "similar" and key not in groups:
                    key = next((other for other in groups if similar(str(other), str(key))), key)
                groups.setdefault(key, []).append((t, node))
    return list(groups.values())


def similar(one: str, other: str) -> bool:
    """Whether two texts have a ratio of matching signs of SIMILAR or more."""
    return SequenceMatcher(None, one, other).ratio() >= SIMILAR


def discounted(tree: Tree, node: int, gamma: float) -> float:
    """sum of gamma^(k-t) r_k from the edge into `node` on, along first children."""
    return float(sum(gamma**k * tree.reward[later] for k, later in enumerate(tree.main_path(node))))


def _firsts(trees: Sequence[Tree]) -> list[Edge]:
    return [(t, child) for t, tree in enumerate(trees) for child in tree.children[ROOT]]


def _outcome(trees: Sequence[Tree], edge: Edge) -> float:
    t, node = edge
    return float(trees[t].returns[trees[t].main_leaf(node)])


def _statistics(values: np.ndarray, std: str) -> tuple[float, float]:
    """(mean, what is divided by); 0 where the values have no spread."""
    if np.ptp(values) <= SPREAD:
        return float(values.mean()), 0.0
    scale = 1.0 if std == "none" else float(values.std(ddof={"population": 0, "sample": 1}[std]))
    return float(values.mean()), scale


def _text(tree: Tree, node: int) -> str:
    """What was observed before the action on the edge into `node`; contexts hold it, are it, or are its text."""
    context = tree.edge(node).context
    observation = getattr(context, "observation", context)
    return str(getattr(observation, "text", observation))


def _credit(tree: Tree, values: dict[int, float]) -> Credit:
    advantage = np.array([values.get(node, 0.0) for node in range(len(tree))])
    has_signal = np.abs(advantage) > SPREAD
    return Credit(np.where(has_signal, advantage, 0.0), trained(tree, tree.mass), trained(tree, has_signal))
