"""The invariants I1 to I7 of docs/theory.md, section 6, as properties of the library's own growth and credit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from bpo import credit, select
from bpo.errors import BadInput
from bpo.methods import build
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import TRAJECTORY, Growth, grow
from bpo.sandboxes.toy import ToyTree
from bpo.tree import ROOT, Tree
from bpo.update import make_batch

few = settings(max_examples=60, deadline=None)
members = st.lists(st.tuples(st.floats(-9, 9, width=32), st.floats(0.0625, 1, width=32)), min_size=2, max_size=8)


@few
@given(members)
def test_weighted_leave_one_out_advantages_cancel(group):
    """I1: sum_k w_k (1 - w_k) A_k = 0, since a member's baseline redistributes exactly what the others have."""
    values, weights = np.array(group).T
    weights = weights / weights.sum()
    advantages = credit.leave_one_out(values, weights)
    assert (weights * (1 - weights) * advantages).sum() == pytest.approx(0, abs=1e-9)
    even = credit.leave_one_out(values, np.full(len(values), 1 / len(values)))
    assert even.sum() == pytest.approx(0, abs=1e-9)


@few
@given(members, st.randoms(use_true_random=False), st.floats(-100, 100))
def test_permuting_members_permutes_advantages_and_constants_cancel(group, random, constant):
    """I2: a group has no order and no zero point."""
    values, weights = np.array(group).T
    weights = weights / weights.sum()
    order = list(range(len(values)))
    random.shuffle(order)
    advantages = credit.leave_one_out(values, weights)
    assert credit.leave_one_out(values[order], weights[order]) == pytest.approx(advantages[order], abs=1e-9)
    assert credit.leave_one_out(values + constant, weights) == pytest.approx(advantages, abs=1e-8)


@few
@given(strategies.trees(), st.floats(-50, 50))
def test_a_constant_on_all_returns_changes_no_sibling_advantage(grown, constant):
    """I2, on whole trees: shift every leaf's return."""
    tree = grown[0]
    reward = tree.reward.copy()
    reward[tree.leaves] += constant
    shifted = _fresh(tree, reward=reward)
    for rule in (credit.bpo_split, credit.bpo):
        before, after = rule([tree])[0], rule([shifted])[0]
        assert after.advantage == pytest.approx(before.advantage, abs=1e-8)


@few
@given(strategies.returns, st.integers(0, 9999))
def test_no_branch_point_is_the_plain_trajectory_estimator(values, seed):
    """I3: one path of mass one; the advantage is the return minus the other trees' mean."""
    growth = Growth(**{**vars(TRAJECTORY), "trees": 3})
    grown, _ = grow(["tree-00"], [ToyTree(values)] * 1, TabularPolicy.uniform(values), growth, (seed,))
    returns = np.array([tree.returns[tree.leaves[0]] for tree in grown])
    for i, (tree, out) in enumerate(zip(grown, credit.bpo_split(grown), strict=True)):
        assert len(tree.leaves) == 1
        assert out.weight[1:] == pytest.approx(1)
        expected = returns[i] - np.delete(returns, i).mean()
        assert out.advantage[1:] == pytest.approx(expected if abs(expected) > 1e-12 else 0, abs=1e-12)


@few
@given(strategies.trees())
def test_masses_sum_to_one(grown):
    """I4: over the leaves, and over the edges of every depth that all leaves reach (all, in the toy tree)."""
    tree = grown[0]
    assert tree.mass[tree.leaves].sum() == pytest.approx(1)
    for depth in range(1, int(tree.depth.max()) + 1):
        assert tree.mass[tree.depth == depth].sum() == pytest.approx(1)


@few
@given(strategies.trees())
def test_a_shared_step_is_counted_once(grown):
    """I5: one node, so one term of the loss, per drawn action; value at the root is the mass-weighted mean of the leaves."""
    tree = grown[0]
    tree.validate()
    assert len(tree.steps) - 1 == sum(step is not None for step in tree.steps)
    assert tree.value[ROOT] == pytest.approx(float(tree.mass[tree.leaves] @ tree.returns[tree.leaves]), abs=1e-9)


@few
@given(strategies.root_trees())
def test_rloo_is_bpo_split_with_the_root_as_the_only_branch_point(grown):
    """I7: identical numbers, not only equal in expectation."""
    for one, other in zip(credit.rloo(grown), credit.bpo_split(grown), strict=True):
        assert np.array_equal(one.advantage, other.advantage)
        assert np.array_equal(one.weight, other.weight)
        assert np.array_equal(one.has_signal, other.has_signal)


@few
@given(strategies.trees())
def test_trees_survive_json(grown):
    tree = grown[0]
    again = Tree.from_json(tree.to_json())
    for name in ("parent", "sibling_index", "weight", "reward", "actions", "position"):
        assert np.array_equal(getattr(again, name), getattr(tree, name))
    assert np.array_equal(again.entropy, tree.entropy, equal_nan=True)
    assert again.to_json() == tree.to_json()


def test_a_group_without_spread_sends_nothing():
    """Equal returns: no advantage, and the edges have no signal, so not even the KL term moves the policy."""
    values = [1.0] * 8
    for rule, growth in (
        (credit.rloo, Growth(select.RootOnly(), 1, 4, root=True)),
        (credit.grpo, Growth(select.RootOnly(), 1, 4, root=True)),
        (credit.bpo_split, Growth(select.Every(1), 3, 2, root=True)),
        (credit.bpo, Growth(select.TopEntropy(), 2, 3)),
    ):
        grown, _ = grow(["tree-00"], [ToyTree(values)], TabularPolicy.uniform(values), growth, (0,))
        out = rule(grown)[0]
        assert not out.has_signal.any()
        assert not make_batch(grown, [out]).steps
        assert np.abs(out.advantage).max() == 0


def test_the_same_task_twice_gives_two_independent_trees():
    values = list(range(64))
    growth = Growth(select.RootOnly(), 1, 4, root=True)
    (one, other), _ = grow(["tree-00"] * 2, [ToyTree(values), ToyTree(values)], TabularPolicy.uniform(values), growth, (0,))
    assert one.returns[one.leaves].tolist() != other.returns[other.leaves].tolist()


def test_a_root_that_is_a_branch_point_needs_a_point():
    """Refused when the method is built, not after its first rollouts."""
    with pytest.raises(BadInput, match=r"bpo_split\.points is 0"):
        build("bpo_split", {"points": 0})
    build("bpo_split", {"points": 0, "root": False, "trees": 2})
    build("bpo_split", {"points": 0, "root_baseline": "zero"})


def test_validation_names_the_broken_rule():
    grown, _ = grow(
        ["tree-00"], [ToyTree([0, 1])], TabularPolicy.uniform([0, 1]), Growth(select.RootOnly(), 1, 2, root=True), (0,)
    )
    tree = grown[0]
    with pytest.raises(ValueError, match="sum to one"):
        _fresh(tree, weight=np.array([1.0, 0.5, 0.4])).validate()
    with pytest.raises(ValueError, match="precede"):
        _fresh(tree, parent=np.array([-1, 0, 2])).validate()


def _fresh(tree: Tree, **changes) -> Tree:
    """A copy without cached derived arrays."""
    return replace(tree, **changes)
