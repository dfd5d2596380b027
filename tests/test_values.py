"""Values from auxiliary rollouts (VinePPO): what they add up to, that they train nothing, and that they are unbiased."""

from __future__ import annotations

import numpy as np
import pytest

from bpo import credit
from bpo.exact import Problem, check_unbiased
from bpo.methods import build
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import grow
from bpo.sandboxes.toy import TASKS, ToyTree
from bpo.tree import ROOT
from bpo.update import make_batch

RETURNS = [0.1, 0.9, 0.4, 0.3, 0.0, 1.0, 0.2, 0.6, 0.7, 0.35, 0.8, 0.15, 0.45, 0.05, 0.55, 0.95]
SMALL = (
    Problem.from_spec({"p": [0.3, 0.8, 0.45], "r": [0.0, 1.0, 0.3, 0.5]}),
    Problem.from_spec({"p": [0.6, 0.5, 0.35], "r": [0.0, 0.0, 0.1, 1.0], "ends": {"0": 0.3}}),
)


def grown(**parameters):
    method = build("vineppo", {"returns": 3, "values": 2, **parameters})
    (tree,), ledger = grow(TASKS[:1], [ToyTree(RETURNS)], TabularPolicy.uniform(RETURNS), method.growth, (0,))
    return tree, ledger


def test_the_advantages_of_a_rollout_add_up_to_its_return_minus_the_first_value():
    tree, _ = grown()
    (found,) = credit.vineppo([tree])
    first = np.mean([tree.returns[tree.main_leaf(node)] for node in tree.auxiliary_children[ROOT]])
    for child in tree.children[ROOT]:
        path = tree.main_path(child)
        assert found.advantage[path].sum() == pytest.approx(tree.returns[path[-1]] - first, abs=1e-12)
        assert found.weight[path] == pytest.approx(1 / 3)


def test_auxiliary_rollouts_are_in_no_batch_and_begin_in_every_state_of_a_rollout():
    tree, ledger = grown()
    (found,) = credit.vineppo([tree])
    batch = make_batch([tree], [found])
    trained = [tree.edge(node) for node in range(1, len(tree)) if not tree.auxiliary[node] and found.has_signal[node]]
    assert [step for _, step in batch.steps] == [step.decision for step in trained]
    inner = [node for node in range(len(tree)) if tree.children[node] and not tree.auxiliary[node]]
    assert [len(tree.auxiliary_children[node]) for node in inner] == [2] * len(inner)
    assert len(inner) == 1 + 3 * 3
    assert ledger.returns == 3 + 2 * len(inner)


def test_steps_without_a_value_between_them_share_one_advantage():
    tree, _ = grown(every=2)
    (found,) = credit.vineppo([tree])
    for child in tree.children[ROOT]:
        one, two, three, four = tree.main_path(child)
        middle = np.mean([tree.returns[tree.main_leaf(node)] for node in tree.auxiliary_children[two]])
        assert not tree.auxiliary_children[one]
        assert not tree.auxiliary_children[three]
        assert found.advantage[one] == found.advantage[two]
        assert found.advantage[[three, four]] == pytest.approx(tree.returns[four] - middle, abs=1e-12)


@pytest.mark.parametrize("every", [1, 2])
def test_the_gradient_is_unbiased_with_and_without_early_ends(every):
    method = build("vineppo", {"returns": 2, "values": 1, "every": every})
    assert check_unbiased(method.growth, method.credit, problems=SMALL).unbiased


def test_a_tree_without_values_is_refused():
    method = build("rloo", {"returns": 3})
    trees, _ = grow(TASKS[:1], [ToyTree(RETURNS)], TabularPolicy.uniform(RETURNS), method.growth, (0,))
    with pytest.raises(ValueError, match="tree-00: this rule needs rollouts from the root, and auxiliary rollouts there"):
        credit.vineppo(trees)
