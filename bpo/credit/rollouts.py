"""Independent rollouts: trees that branch at the root only, with the other rollouts of the task as the baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bpo.credit.record import SPREAD, Credit, each, leave_one_out, reads, require_finished, trained
from bpo.errors import BadInput
from bpo.tree import ROOT, Tree


@reads("returns")
def rloo(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """REINFORCE with the leave-one-out mean of the other rollouts as baseline (arXiv 2402.14740).

    Needs trees that branch at the root only, into K >= 2 rollouts; every step of a rollout has its advantage and weight 1/K.
    Unbiased.
    """
    return [over_rollouts(tree, lambda g: leave_one_out(g, np.full(len(g), 1 / len(g)))) for tree in each(trees)]


@reads("returns")
def raw(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """The return itself, without a baseline (Williams 1992); shape and weights of `rloo`. Unbiased."""
    return [over_rollouts(tree, lambda g: g) for tree in each(trees)]


@reads("returns")
def grpo(trees: Sequence[Tree], running: float | None = None, *, std: str = "population") -> list[Credit]:
    """Group-normalised advantage (R - mean) / std (arXiv 2402.03300; BPO's Eq. 2).

    `std` is "population", divided by N as the paper writes it, or "sample", by N - 1 as in most released code: every advantage
    is then smaller by sqrt((N-1)/N). Same shape and weights as `rloo` (sum over steps, mean over rollouts: no division by the
    response length). Biased: the own return is in mean and std.
    """
    ddof = {"population": 0, "sample": 1}[std]
    return [over_rollouts(tree, lambda g: (g - g.mean()) / g.std(ddof=ddof)) for tree in each(trees)]


@reads("returns")
def drgrpo(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """GRPO without the division by the standard deviation (arXiv 2503.20783): R - mean.

    Biased by the known factor (K-1)/K, which does not change the direction.
    """
    return [over_rollouts(tree, lambda g: g - g.mean()) for tree in each(trees)]


@reads("returns", "order")
def within(trees: Sequence[Tree], running: float | None = None, *, size: int) -> list[Credit]:
    """Return minus the mean of its group of `size` rollouts, in order of drawing; size 2 are pairs, size N is `drgrpo`.

    A group without spread sends nothing. Biased by the factor (size-1)/size. Errors: ValueError where groups do not come out.
    """
    return [_within(tree, size) for tree in each(trees)]


def over_rollouts(tree: Tree, advantages: Callable[[np.ndarray], np.ndarray]) -> Credit:
    require_finished(tree)
    children = tree.children[ROOT]
    if len(children) < 2 or any(node != ROOT for node in tree.branch_points):
        raise BadInput(f"{tree.task}: this rule needs two or more rollouts from the root and no other branch point")
    returns = np.array([tree.returns[tree.main_leaf(child)] for child in children])
    spread = np.ptp(returns) > SPREAD
    values = advantages(returns) if spread else np.zeros(len(children))
    advantage, has_signal = np.zeros(len(tree)), np.zeros(len(tree), bool)
    for child, value in zip(children, values, strict=True):
        for node in tree.main_path(child):
            advantage[node], has_signal[node] = value, spread
    return Credit(advantage, trained(tree, tree.mass), has_signal)


def _within(tree: Tree, size: int) -> Credit:
    children = tree.children[ROOT]
    if len(children) % size:
        raise BadInput(f"{tree.task}: {len(children)} rollouts are no groups of {size}")
    returns = np.array([tree.returns[tree.main_leaf(child)] for child in children]).reshape(-1, size)
    found = over_rollouts(tree, lambda g: (returns - returns.mean(axis=1, keepdims=True)).ravel())
    flat = np.repeat(np.ptp(returns, axis=1) <= SPREAD, size)
    for child, without in zip(children, flat, strict=True):
        if without:
            path = tree.main_path(child)
            found.advantage[path], found.has_signal[path] = 0.0, False
    return found
