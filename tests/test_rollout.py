"""Growth: shapes of the trees, budgets, streams, the ledger."""

from __future__ import annotations

import numpy as np
import pytest

from bpo import select
from bpo.errors import BadInput
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import Growth, Ledger, grow
from bpo.sandboxes.toy import TASKS, ToyTree

DEEP = list(range(64))


def grown(growth, tasks=TASKS[:2], boxes=4, seed=0, values=DEEP):
    policy = TabularPolicy.uniform(values)
    return grow(list(tasks), [ToyTree(values) for _ in range(boxes)], policy, growth, (seed,))


def test_thirteen_returns_of_four_branch_points_with_four_children():
    for growth in (
        Growth(select.TopEntropy(), points=4, width=4),
        Growth(select.Every(1), points=4, width=4, root=True),
        Growth(select.RootOnly(), points=1, width=13, root=True),
    ):
        trees, ledger = grown(growth)
        assert growth.planned_returns == 13
        assert [len(tree.leaves) for tree in trees] == [13, 13]
        assert ledger.returns == 26
        assert ledger.env_steps == sum(len(tree) - 1 for tree in trees)


def test_planned_weights_make_all_leaves_weigh_the_same_when_the_plan_is_carried_out():
    trees, _ = grown(Growth(select.Every(1), points=4, width=4, root=True, weights="planned"))
    assert trees[0].mass[trees[0].leaves] == pytest.approx(1 / 13)
    trees, _ = grown(Growth(select.Every(1), points=4, width=4, root=True, weights="even"))
    assert sorted(set(np.round(trees[0].mass[trees[0].leaves], 12))) == pytest.approx([4**-4, 4**-3, 4**-2, 4**-1])


def test_planned_weights_stay_as_planned_when_nothing_fires():
    trees, _ = grown(Growth(select.Threshold(9.9), points=4, width=4, root=True, weights="planned"))
    assert sorted(trees[0].mass[trees[0].leaves]) == pytest.approx([1 / 13, 1 / 13, 1 / 13, 10 / 13])


def test_nested_growth_branches_on_forks():
    trees, _ = grown(Growth(select.Every(1), points=2, width=3, root=True, nested=True))
    assert len(trees[0].leaves) == 9
    assert trees[0].mass[trees[0].leaves] == pytest.approx(1 / 9)


def test_a_shortfall_becomes_root_rollouts_only_on_request():
    shallow = [0, 1, 1, 0]
    trees, _ = grown(Growth(select.TopEntropy(), points=4, width=4), values=shallow)
    assert [len(tree.leaves) for tree in trees] == [7, 7]
    trees, _ = grown(Growth(select.TopEntropy(), points=4, width=4, fill="root"), values=shallow)
    assert [len(tree.leaves) for tree in trees] == [13, 13]
    assert len(trees[0].children[0]) == 4 + 6
    trees[0].validate()


def test_streams_belong_to_seed_task_tree_node_and_child():
    growth = Growth(select.Every(2), points=3, width=3, root=True, trees=2)
    one, _ = grown(growth, boxes=1)
    many, _ = grown(growth, boxes=4)
    assert [tree.to_json() for tree in one] == [tree.to_json() for tree in many]
    alone, _ = grown(growth, tasks=TASKS[1:2])
    assert [tree.to_json() for tree in alone] == [tree.to_json() for tree in one[2:]]
    other, _ = grown(growth, seed=1)
    assert [tree.to_json() for tree in other] != [tree.to_json() for tree in one]
    assert one[0].to_json() != one[1].to_json()


def test_siblings_are_drawn_with_replacement_from_the_policy():
    """Frequencies of the root's children match the policy, and repeated actions keep continuations of their own."""
    policy = TabularPolicy.bernoulli(dict.fromkeys(("", "0", "1", "00", "01", "10", "11"), 0.3))
    growth = Growth(select.RootOnly(), points=1, width=13, root=True)
    actions = []
    for seed in range(150):
        trees, _ = grow([TASKS[0]], [ToyTree(range(8))], policy, growth, (seed,))
        actions += [trees[0].steps[child].decision.action for child in trees[0].children[0]]
        assert len(trees[0]) == 1 + 3 * 13
    share = actions.count("1") / len(actions)
    assert share == pytest.approx(0.3, abs=4 * np.sqrt(0.21 / len(actions)))


def test_ledgers_add():
    total = Ledger(returns=1, env_steps=2, rollout_s=0.5) + Ledger(
        returns=3, prefilled=4, generated=5, computed=6, update_s=1.0
    )
    assert total == Ledger(4, 2, 4, 5, 6, 0.5, 1.0)


def test_every_node_but_the_root_has_an_edge(tree):
    assert [tree.edge(node) for node in range(1, len(tree))] == list(tree.steps[1:])
    with pytest.raises(ValueError, match="no edge leads to node 0"):
        tree.edge(0)


def test_a_path_leads_from_below_the_root_to_its_node():
    (tree, _), _ = grown(Growth(select.Every(1), points=2, width=3, root=True, nested=True))
    assert tree.path(0) == []
    assert [0, *tree.path(tree.backbone[-1])] == list(tree.backbone)
    for leaf in tree.leaves:
        way = tree.path(int(leaf))
        assert way[-1] == leaf
        assert len(way) == tree.depth[leaf]
        assert tree.parent[way].tolist() == [0, *way[:-1]]


def test_growing_needs_a_sandbox_and_a_table_a_whole_tree():
    with pytest.raises(BadInput, match="grow is given no sandboxes"):
        grown(Growth(select.RootOnly(), points=1, width=2, root=True), boxes=0)
    with pytest.raises(BadInput, match="returns has 3 entries, which is not a power of the 2 actions"):
        TabularPolicy.uniform([0, 1, 0])
