"""Problems in which episodes end early: exact values, and the post hoc choices that only such problems find out."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from bpo import credit, select
from bpo.checkfork import check_fork
from bpo.errors import BadInput
from bpo.exact import Problem, check_unbiased, moments, report
from bpo.exact.check import COINS, PROBLEMS
from bpo.exact.realise import EndingTree, blocks, one_by_one, state_numbers
from bpo.rollout import TRAJECTORY, Growth
from bpo.sandboxes.toy import TASKS
from bpo.tree import ROOT

SPLIT = partial(credit.bpo_split, root_baseline="zero")
SPEC = {"p": [0.6, 0.5, 0.35], "r": [0.0, 0.0, 0.1, 1.0], "ends": {"0": 0.3}}
ENDING = Problem.from_spec(SPEC)
DEEP = Problem.from_spec(
    {"p": [0.6, 0.3, 0.8, 0.5, 0.3, 0.55, 0.2], "r": [0.0, 0.1, 1.0, 0.0, 0.7, 0.0, 0.2, 1.0], "ends": {"0": 0.4, "11": 0.9}}
)
POST_HOC = (select.EquallySpaced(), select.RandomChoice())
CAUSAL = (select.Every(1), select.Coin(0.5))


def test_values_are_those_of_the_episodes_that_can_happen():
    """J = 0.4 * 0.3 + 0.6 * (0.65 * 0.1 + 0.35 * 1.0), by hand."""
    J = ENDING.J
    assert pytest.approx(0.4 * 0.3 + 0.6 * 0.415) == J
    assert ENDING.gradient[:, 0] == pytest.approx([0.24 * (0.415 - 0.3), 0.0, 0.6 * 0.35 * 0.65 * 0.9])
    assert ENDING.variance(1) == pytest.approx(0.4 * (0.3 - ENDING.J) ** 2 + 0.6 * (0.415 - ENDING.J) ** 2)
    squares = 0.4 * 0.3**2 + 0.6 * (0.65 * 0.1**2 + 0.35)
    assert ENDING.variance() == pytest.approx(squares - ENDING.J**2)


@pytest.mark.parametrize("problem", [ENDING, DEEP])
def test_the_gradient_is_that_of_finite_differences(problem):
    logits = np.log(problem.probabilities[:, 1] / problem.probabilities[:, 0])
    for state in range(len(logits)):
        values = []
        for step in (1e-5, -1e-5):
            p = 1 / (1 + np.exp(-(logits + step * (np.arange(len(logits)) == state))))
            values.append(Problem(np.stack([1 - p, p], axis=1), problem.returns, True, problem.ends).J)
        assert (values[0] - values[1]) / 2e-5 == pytest.approx(problem.gradient[state, 0], abs=1e-9)


def test_episodes_end_where_the_problem_says():
    """Three kinds of episodes, one of them a step shorter, with the probabilities of the policy."""
    found = {}
    for chance, (tree,) in one_by_one(ENDING, TRAJECTORY):
        assert tree.actions[-1] == 0
        found[tuple(state_numbers(ENDING, tree)[1:])] = (chance, tree.returns[-1], bool(tree.outcome[-1]["won"]))
    assert found == {
        (1,): (pytest.approx(0.4), 0.3, True),
        (2, 5): (pytest.approx(0.6 * 0.65), 0.1, True),
        (2, 6): (pytest.approx(0.6 * 0.35), 1.0, True),
    }


def test_the_sandbox_with_early_ends_forks_exactly():
    ends = {"01": 1.0, "110": 0.5, "0010": 0.0}
    report = check_fork(lambda: EndingTree(range(64), 2, ends), TASKS, games=4, branches=3, steps=30, seed=0)
    assert report.steps > 100
    assert not report.mismatches
    tree = EndingTree(range(64), 2, ends)
    tree.reset(TASKS[0])
    for sandbox in (tree, *tree.fork(1)):
        sandbox.step("0")
        assert (sandbox.step("1").done, sandbox.state_key()) == (True, (0, 1))
        with pytest.raises(RuntimeError, match="over"):
            sandbox.step("0")


@pytest.mark.parametrize("selector", POST_HOC, ids=lambda one: type(one).__name__)
def test_a_choice_over_the_finished_backbone_knows_its_length(selector):
    """theory.md, N7: no entropy and no return is looked at, and the estimate is biased where episodes can end early."""
    growth = Growth(selector, points=1, width=2)
    equal_lengths = check_unbiased(growth, SPLIT, problems=[problem for problem in PROBLEMS if not problem.ends])
    assert equal_lengths.unbiased
    everywhere = check_unbiased(growth, SPLIT)
    assert not everywhere.unbiased
    assert everywhere.relative_bias > 0.5
    assert check_unbiased(growth, SPLIT, problems=[DEEP]).relative_bias > 0.1


@pytest.mark.parametrize("selector", CAUSAL, ids=lambda one: type(one).__name__)
def test_the_causal_counterparts_pass(selector):
    """theory.md, T3, with and without the root as a branch point, given every set of coins."""
    for growth in (Growth(selector, 1, 2), Growth(selector, 2, 2, root=True), Growth(selector, 2, 2, nested=True)):
        assert check_unbiased(growth, SPLIT, problems=[ENDING, DEEP]).relative_bias < 1e-12


def test_one_set_of_coins_can_hide_a_random_choice():
    """Why the check takes several: given these coins the choice is fixed, and it may be the harmless one."""
    growth = Growth(select.RandomChoice(), points=1, width=2)
    biases = [moments(ENDING, growth, SPLIT, key=key).bias for key in COINS]
    assert min(biases) < 1e-12
    assert max(biases) > 0.05


def test_the_masses_of_leaves_sum_to_one_where_paths_differ_in_length():
    """theory.md, I4: over the leaves, not over a depth that some paths do not reach."""
    for _, (tree,) in one_by_one(DEEP, Growth(select.Every(1), 2, 2, root=True)):
        assert tree.mass[tree.leaves].sum() == pytest.approx(1)
        assert tree.value[ROOT] == pytest.approx(float(tree.mass[tree.leaves] @ tree.returns[tree.leaves]))


def test_the_mean_return_of_a_post_hoc_tree_is_not_that_of_the_policy():
    """theory.md, N9: the mean over the leaves is biased for J; the backbone's return is not, nor is a causal tree's mean."""

    def means(selector):
        growth = Growth(selector, points=1, width=3)
        pairs = [(c, t.value[ROOT], t.returns[t.main_leaf(ROOT)]) for c, (t,) in one_by_one(ENDING, growth)]
        chance, leaves, backbone = np.array(pairs).T
        return chance @ leaves, chance @ backbone

    leaves, backbone = means(select.EquallySpaced())
    assert abs(leaves - ENDING.J) > 0.01
    assert backbone == pytest.approx(ENDING.J)
    assert means(select.Every(1)) == (pytest.approx(ENDING.J), pytest.approx(ENDING.J))


@pytest.mark.parametrize(
    ("ends", "named"),
    [({"00": 1.0}, "'00'"), ({"": 1.0}, "''"), ({"2": 1.0}, "'2'"), ({"0": "x"}, "'x'"), ({"0": np.nan}, "nan"), ([0], "ends")],
)
def test_ends_that_cannot_be_are_named(ends, named):
    with pytest.raises(BadInput, match=named):
        Problem.from_spec({**SPEC, "ends": ends})


def test_what_needs_equal_lengths_says_so():
    with pytest.raises(BadInput, match="same length"):
        report({**SPEC, "threshold": 0.6})
    with pytest.raises(BadInput, match="enumerated singly"):
        blocks(ENDING, TRAJECTORY)
