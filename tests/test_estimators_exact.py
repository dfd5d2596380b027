"""Exact moments, by the growth and credit code that trains, against values that an independent program computed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from bpo import credit, select
from bpo.exact import AtDepths, PostHocAtDepths, Problem, check_unbiased, moments, report, theorem2
from bpo.exact.check import PROBLEMS
from bpo.exact.controls import CONTROLS
from bpo.exact.moments import LIMIT, factors
from bpo.exact.realise import Budget, by_shape, one_by_one, shapes, state_numbers
from bpo.exact.rows import estimators
from bpo.rollout import Growth

SPLIT = partial(credit.bpo_split, root_baseline="zero")
BINARY, TERNARY, ENDING = PROBLEMS
SMALL = Problem.from_spec({"p": [0.3, 0.8, 0.45], "r": [0.2, 1.0, 0.0, 0.7]})
ROWS = list(estimators(0.64, 0.252))


@pytest.fixture(scope="module")
def reported(exact_moments):
    return report(exact_moments)


@pytest.mark.parametrize("name", ROWS)
def test_moments_equal_the_independent_reference(name, exact_moments, reported):
    """The same growth and credit code that trains reproduces bias, covariance and cost of every reading."""
    expected, found = exact_moments["estimators"][name], reported["estimators"][name]
    assert found["exact"]
    for field, value in expected.items():
        assert found[field] == pytest.approx(value, abs=1e-9), field


def test_everything_else_of_the_reference(exact_moments, reported):
    assert set(reported["estimators"]) == set(exact_moments["estimators"])
    assert reported["J"] == pytest.approx(exact_moments["J"], abs=1e-12)
    assert reported["gradient"] == pytest.approx(exact_moments["gradient"], abs=1e-12)
    assert reported["entropies"] == pytest.approx(exact_moments["entropies"], abs=1e-9)
    assert set(reported["theorem2"]) == set(exact_moments["theorem2"])
    for name, row in exact_moments["theorem2"].items():
        assert reported["theorem2"][name] == pytest.approx(row, abs=1e-9)


def test_theorem_2_holds_for_every_depth_and_width(reported):
    """Var(root LOO) - Var(sibling LOO) = K/(K-1) Var(V(s_t)) (theory.md, T2); and theory.md, C1."""
    for name, row in reported["theorem2"].items():
        width = int(name[-1])
        explained = width / (width - 1) * row["prefix_explained"]
        assert row["var_root_loo"] - row["var_sibling"] == pytest.approx(explained, abs=1e-12)
    assert reported["theorem2"]["t1_k2"]["prefix_explained"] <= reported["theorem2"]["t2_k2"]["prefix_explained"]


def test_theorem_2_is_sampled_above_the_limit_and_has_intervals(exact_moments, reported):
    problem = Problem.from_spec(exact_moments)
    exact = reported["theorem2"]["t1_k4"]
    row = theorem2(problem, 1, 4, Budget(limit=600, samples=20_000, seed=3))
    assert (row["exact"], row["n"], set(row["interval"])) == (False, 20_000, {"level", "var_root_loo"})
    low, high = row["interval"]["var_root_loo"]
    assert low < exact["var_root_loo"] < high < 1.1 * low
    assert row["var_sibling"] == pytest.approx(exact["var_sibling"], abs=1e-12)


def test_rows_whose_branch_depths_do_not_exist_are_left_out():
    out = report({"p": [0.3, 0.8, 0.45], "r": [0.2, 1.0, 0.0, 0.7], "threshold": 0.6})
    assert set(ROWS) - set(out["estimators"]) == {name for name in ROWS if "_B2" in name or "_B012" in name or "_B02" in name}


def test_three_actions_have_one_logit_each():
    out = report({"p": [[0.5, 0.3, 0.2]], "r": [0.0, 1.0, 0.5], "threshold": 0.6})
    assert out["gradient"][0] == pytest.approx([0.5 * (0 - 0.4), 0.3 * (1 - 0.4), 0.2 * (0.5 - 0.4)])
    assert out["estimators"]["rloo_n4"]["mean"][0] == pytest.approx(out["gradient"][0], abs=1e-12)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param(name, problem, id=f"{name}-{problem.width}-actions")
        for problem in (SMALL, TERNARY)
        for name, row in estimators(0.6, problem.J).items()
        if row.deepest < problem.depth and "k4" not in name and "n4" not in name
    ],
)
def test_shapes_stand_for_all_trees_that_grow(name, problem):
    """Filling forks into shapes gives the same trees, with the same probabilities and credits, as growing every one of them."""
    row = estimators(0.6, problem.J)[name]
    grown = {}
    for chance, (tree,) in one_by_one(problem, row.growth):
        key = (tuple(tree.parent), tuple(state_numbers(problem, tree)))
        assert key not in grown
        grown[key] = (chance, tree)
    for shape in shapes(problem, row.growth):
        for actions in shape.all():
            states = shape.states(actions)
            for chance, nodes in zip(shape.probability(states), states, strict=True):
                other, tree = grown.pop((tuple(shape.template.parent), tuple(nodes)))
                assert chance == pytest.approx(other, abs=1e-15)
                assert shape.tree(nodes).to_json() == tree.to_json()
                mine, theirs = row.rule([shape.tree(nodes)])[0], row.rule([tree])[0]
                assert factors(mine) == pytest.approx(factors(theirs), abs=1e-15)
    assert not grown


@pytest.mark.parametrize("name", ["rloo_n4", "literal_top1_k4_broadcast_prefix.95", "splitting_threshold_M2_k3_planned"])
def test_sharing_calls_among_equal_returns_changes_nothing(name):
    """Rules of the library are called once per pattern of returns; wrapped in a function they are called for every tree."""
    row = estimators(0.6, BINARY.J)[name]
    shared = moments(BINARY, row.growth, row.rule)
    single = moments(BINARY, row.growth, lambda trees: row.rule(trees))
    assert shared.mean == pytest.approx(single.mean, abs=1e-14)
    assert shared.trace_cov == pytest.approx(single.trace_cov, abs=1e-14)


@pytest.mark.parametrize(
    "name", ["grpo_n4_population_std", "literal_top2_k3_broadcast_prefix.95", "splitting_B1_k4_rootbaselineJ"]
)
def test_sampled_moments_come_with_intervals_that_hold_the_exact_ones(name):
    spec = {"p": [0.6, 0.3, 0.8, 0.5, 0.3, 0.55, 0.2], "r": [0.0, 0.1, 1.0, 0.0, 0.7, 0.0, 0.2, 1.0], "threshold": 0.6}
    problem = Problem.from_spec(spec)
    row = estimators(0.6, problem.J)[name]
    exact = moments(problem, row.growth, row.rule)
    sampled = moments(problem, row.growth, row.rule, limit=10, samples=20_000, seed=1)
    assert (exact.exact, sampled.exact, sampled.realisations) == (True, False, 20_000)
    assert (exact.error == 0).all()
    z = (sampled.mean - exact.mean)[sampled.error > 0] / sampled.error[sampled.error > 0]
    assert np.abs(z).max() < 3.5
    assert 0 < sampled.trace_error < 0.1 * sampled.trace_cov
    assert abs(sampled.trace_cov - exact.trace_cov) < 3.5 * sampled.trace_error
    assert abs(sampled.env_steps - exact.env_steps) <= 3.5 * sampled.steps_error + 1e-9
    again = moments(problem, row.growth, row.rule, limit=10, samples=20_000, seed=1)
    assert (again.mean == sampled.mean).all()


def test_gradient_is_that_of_finite_differences():
    """d J / d logit, with one logit per action, by moving the logits."""
    table = TERNARY.probabilities
    for state, action in ((0, 2), (3, 1)):
        moved = []
        for step in (1e-5, -1e-5):
            logits = np.log(table).copy()
            logits[state, action] += step
            shifted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            moved.append(Problem(shifted, TERNARY.returns).J)
        assert (moved[0] - moved[1]) / 2e-5 == pytest.approx(TERNARY.gradient[state, action], abs=1e-9)


@pytest.mark.parametrize("weights", ["even", "planned"])
@pytest.mark.parametrize(
    ("growth", "problems"),
    [
        (Growth(select.RootOnly(), 1, 3, root=True), PROBLEMS),
        (Growth(select.Threshold(0.6), 2, 2, root=True), PROBLEMS),
        (Growth(select.Coin(0.5), 2, 2, root=True), PROBLEMS),
        (Growth(AtDepths(1, 2), 2, 2), PROBLEMS),
        (Growth(select.Every(1), 2, 2, root=True, nested=True), (SMALL, TERNARY)),
        (Growth(select.Threshold(0.6), 1, 2, trees=2), (SMALL,)),
        (Growth(select.RootOnly(), 0, 1, trees=2), PROBLEMS),
    ],
    ids=["root", "threshold", "coin", "depths", "nested", "two-trees", "no-branch-point"],
)
def test_mass_splitting_is_unbiased_for_causal_selectors(growth, problems, weights):
    """The mean equals grad J exactly, whatever selector, weights, nesting or shrinkage (theory.md, T3; theory.md, C3)."""
    plan = Growth(**{**vars(growth), "weights": weights})
    for shrink in (0.0, 0.4):
        rule = partial(credit.bpo_split, root_baseline="trees" if growth.trees > 1 else "zero", shrink=shrink)
        verdict = check_unbiased(plan, rule, problems=problems)
        assert verdict.unbiased, verdict.relative_bias


def test_a_shrunk_baseline_saves_variance_for_few_children():
    """With an exact baseline above the fork, mixing it in saves more the fewer siblings there are."""
    saved = []
    for width in (2, 3, 4):
        growth = Growth(AtDepths(1), points=1, width=width)
        plain, mixed = (
            moments(BINARY, growth, partial(credit.bpo_split, running=BINARY.J, root_baseline="running", shrink=s)).trace_cov
            for s in (0.0, 0.3)
        )
        saved.append(1 - mixed / plain)
    assert saved[0] > 0.15
    assert saved[0] > saved[1] > saved[2] > 0


@pytest.mark.parametrize("name", CONTROLS)
def test_the_check_catches_every_way_of_breaking_it(name):
    """The negative controls B1 to B7 (theory.md, B1); the sound counterpart of each passes."""
    control = CONTROLS[name]
    assert check_unbiased(*control.sound).unbiased
    broken = check_unbiased(control.growth, control.rule, sampling=control.sampling)
    assert broken.relative_bias > 0.05
    assert not broken.unbiased


def test_literal_bpo_never_trains_an_action_before_the_first_branch_point():
    """R = a_0, branch at t = 1: every sibling advantage is 0 although the gradient of J is p(1-p) (theory.md, N1)."""
    problem = Problem.from_spec({"p": [0.3, 0.5, 0.5], "r": [0, 0, 1, 1]})
    found = moments(problem, Growth(PostHocAtDepths(1), 1, 2), partial(credit.bpo, prefix="off"))
    assert np.abs(found.mean).max() == 0
    assert found.cosine is None
    assert problem.gradient[0, 0] == pytest.approx(0.3 * 0.7)


def test_what_cannot_be_enumerated_is_said():
    nested = Growth(select.Every(1), 2, 3, nested=True)
    assert not by_shape(SMALL, nested)
    with pytest.raises(ValueError, match="more than 100 trees"):
        moments(SMALL, nested, SPLIT, limit=100)
    with pytest.raises(ValueError, match="not to 1"):
        moments(SMALL, Growth(select.RootOnly(), 1, 2, root=True), credit.rloo, sampling=lambda tree: 2.0)
    assert LIMIT == 2_000_000
