"""The plan that searches (OPTS): where it forks, how often, and what children share."""

from __future__ import annotations

import numpy as np
import pytest

from bpo.methods import build
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import grow
from bpo.sandboxes.toy import TASKS, ToyTree
from bpo.search_plan import shortfall
from bpo.tree import ROOT

RETURNS = [0.1, 0.9, 0.4, 0.3, 0.0, 1.0, 0.2, 0.6]


def grown(**parameters):
    method = build("opts_ttpo", parameters)
    trees, ledger = grow(TASKS[:3], [ToyTree(RETURNS)] * 1, TabularPolicy.uniform(RETURNS), method.growth, (0,))
    return trees, ledger


@pytest.mark.parametrize(("starts", "searches"), [(1, 3), (4, 0), (2, 5)])
def test_a_tree_has_a_leaf_per_start_and_per_search_and_children_share_evenly(starts, searches):
    trees, ledger = grown(starts=starts, searches=searches)
    assert ledger.returns == 3 * (starts + searches)
    for tree in trees:
        assert len(tree.leaves) == starts + searches
        assert tree.mass[tree.leaves].sum() == pytest.approx(1)
        for point in tree.branch_points:
            children = list(tree.children[point])
            assert tree.weight[children] == pytest.approx(1 / len(children))


def test_it_forks_where_the_best_path_fell_short_of_what_was_expected():
    """One path; the values say that its second state was worth 1, and the return is below that."""
    (tree, *_), _ = grown(starts=1, searches=0)
    one, two, three = tree.backbone[1:]
    values = np.zeros(len(tree))
    values[[ROOT, one, two]] = [0.2, 1.0, 0.1]
    gained = tree.returns[three]
    scores = {ROOT: 0.2 - gained, one: 1.0 - gained, two: 0.1 - gained}
    assert shortfall(tree, values, 1.0, 0.0) == max(scores, key=scores.get) == one
    values[[ROOT, one]] = [1.5, 1.0]
    assert shortfall(tree, values, 1.0, 0.0) == ROOT


def test_the_greedy_path_follows_the_child_with_the_largest_advantage():
    """Of several rollouts it is the best one, given values that see no difference between their first states."""
    (tree, *_), _ = grown(starts=5, searches=0)
    returns = {child: tree.returns[tree.main_leaf(child)] for child in tree.children[ROOT]}
    best = max(returns, key=returns.get)
    values = np.zeros(len(tree))
    inner = tree.main_path(best)[1]
    values[inner] = 5.0  # far above what any rollout returned, on the best path alone
    assert shortfall(tree, values, 1.0, 1.0) == inner


def test_the_values_are_those_of_the_methods_memory():
    asked = []

    class Memory:
        def values(self, trees):
            asked.extend(trees)
            return [np.zeros(len(tree)) for tree in trees]

    growth = build("opts_ttpo", {"starts": 2, "searches": 2}).growth
    grow(TASKS[:1], [ToyTree(RETURNS)], TabularPolicy.uniform(RETURNS), growth, (0,), memory=Memory())
    assert [len(tree.leaves) for tree in asked] == [2, 3]
