"""Advantages that are shifted and scaled to mean 0 and standard deviation 1 over the tokens of an update."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bpo.credit.record import SPREAD, Credit, CreditRule
from bpo.credit.weighing import tokens
from bpo.tree import Tree

if TYPE_CHECKING:
    from bpo.memory import Memory


def whitened(rule: CreditRule) -> CreditRule:
    """A rule of a batch with its advantages whitened: (A - mean) / population std, over tokens, each by its edge's weight.

    Edges without a signal are among those that the mean is taken over, and have one afterwards: a flat group is below or above
    the rest of the update. Biased: every advantage is in mean and std, and the mean depends on how long rollouts became.
    """
    return partial(_whitened, rule)


def _whitened(rule: CreditRule, trees: Sequence[Tree], memory: Memory | None = None) -> list[Credit]:
    credits = rule(trees, memory)
    counts = np.concatenate([credit.weight * tokens(tree) for tree, credit in zip(trees, credits, strict=True)])
    values = np.concatenate([credit.advantage for credit in credits])
    total = float(counts.sum()) or 1.0
    mean = float(counts @ values) / total
    std = float(np.sqrt(counts @ (values - mean) ** 2 / total))
    return [_scaled(credit, mean, std) for credit in credits]


def _scaled(credit: Credit, mean: float, std: float) -> Credit:
    trained = credit.weight > 0
    if std <= SPREAD:
        return Credit(np.zeros_like(credit.advantage), credit.weight, np.zeros_like(trained))
    return Credit(np.where(trained, (credit.advantage - mean) / std, 0.0), credit.weight, trained)
