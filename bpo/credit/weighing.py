"""How the tokens of a rollout share its weight: a credit rule with the same advantages and other weights.

Rules give every edge the rollout's mass, so that the loss is a sum over tokens and a mean over rollouts. Each function here
takes a rule of a batch and returns one. A token is one that left a choice; auxiliary rollouts have none. Dividing by what was
realised biases the gradient (theory.md, B7); dividing by a constant does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bpo.credit.record import Credit, CreditRule
from bpo.tree import ROOT, Tree

if TYPE_CHECKING:
    from bpo.memory import Memory

Weighing = Callable[[CreditRule], CreditRule]


def tokens(tree: Tree) -> np.ndarray:
    """int64 [n], tokens of the edge into every node that left a choice; 0 at the root and in auxiliary rollouts."""
    counts = [0 if node == ROOT or tree.auxiliary[node] else len(tree.edge(node).decision.free) for node in range(len(tree))]
    return np.array(counts, np.int64)


def by_sum(rule: CreditRule) -> CreditRule:
    """Every token counts as much as its rollout: the rule as it is."""
    return rule


def by_rollout(rule: CreditRule) -> CreditRule:
    """The mean over the tokens of a rollout, then over rollouts (GRPO, arXiv 2402.03300): mass / tokens of the rollout.

    For trees that branch at the root only. Long rollouts that fail are punished less per token.
    """
    return partial(_by_rollout, rule)


def by_batch(rule: CreditRule) -> CreditRule:
    """The mean over all tokens of the update (DAPO, arXiv 2503.14476): trees / tokens, which the objective divides by trees."""
    return partial(_by_batch, rule)


def by_cap(rule: CreditRule, cap: int) -> CreditRule:
    """Mass / cap, with a constant `cap` of tokens, like the generation limit (Dr.GRPO, arXiv 2503.20783)."""
    return rule if cap == 1 else partial(_by_cap, rule, cap)


WEIGHINGS: dict[str, Weighing] = {"sum": by_sum, "rollout": by_rollout, "batch": by_batch}


def _by_rollout(rule: CreditRule, trees: Sequence[Tree], memory: Memory | None = None) -> list[Credit]:
    return [_reweighed(credit, 1 / lengths(tree)) for tree, credit in zip(trees, rule(trees, memory), strict=True)]


def lengths(tree: Tree) -> np.ndarray:
    """float64 [n], tokens of the rollout that an edge belongs to, at least 1; for trees that branch at the root only."""
    counts, whole = tokens(tree), np.ones(len(tree))
    for child in tree.children[ROOT]:
        path = tree.main_path(child)
        whole[path] = max(counts[path].sum(), 1)
    return whole


def _by_batch(rule: CreditRule, trees: Sequence[Tree], memory: Memory | None = None) -> list[Credit]:
    share = len(trees) / max(sum(tokens(tree).sum() for tree in trees), 1)
    credits = rule(trees, memory)
    return [replace(credit, weight=np.where(credit.weight > 0, share, 0.0)) for credit in credits]


def _by_cap(rule: CreditRule, cap: int, trees: Sequence[Tree], memory: Memory | None = None) -> list[Credit]:
    return [_reweighed(credit, 1 / cap) for credit in rule(trees, memory)]


def _reweighed(credit: Credit, factor: np.ndarray | float) -> Credit:
    return replace(credit, weight=credit.weight * factor)
