"""The estimators' exact moments against values that an independent program computed (shared/reference/exact_moments.json)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from enumeration import Problem, moments

from bpo import credit, select
from bpo.rollout import Growth

SPLIT_J = partial(credit.bpo_split, running=0.252, root_baseline="running")
ROOT4 = partial(Growth, select.RootOnly(), points=1, width=4, root=True)


class AtDepths(select.CausalSelector):
    """Branches at given depths."""

    def __init__(self, *depths: int):
        super().__init__()
        self.depths = depths

    def wants(self, boundary):
        return boundary.depth in self.depths


class PostHocAtDepths(select.PostHocSelector):
    def __init__(self, *depths: int):
        super().__init__()
        self.depths = depths

    def ranking(self, boundaries, candidates, count):
        return [i for i in candidates if boundaries[i].depth in self.depths]


def fixed(*depths, width):
    return partial(Growth, AtDepths(*depths), points=len(depths), width=width)


def literal(*depths, width):
    return partial(Growth, PostHocAtDepths(*depths), points=len(depths), width=width)


def threshold(points, width, weights="even"):
    return partial(Growth, select.Threshold(0.64), points=points, width=width, weights=weights)


def top(points, width):
    return partial(Growth, select.TopEntropy(), points=points, width=width)


ROWS = {
    "rloo_n4": (ROOT4, credit.rloo),
    "grpo_n4_population_std": (ROOT4, credit.grpo),
    "drgrpo_n4": (ROOT4, credit.drgrpo),
    "literal_B1_k4_zero_noprefix": (literal(1, width=4), partial(credit.bpo, suffix="zero", prefix="off")),
    "literal_B1_k4_broadcast_noprefix": (literal(1, width=4), partial(credit.bpo, suffix="broadcast", prefix="off")),
    "literal_B012_k2_zero_noprefix": (literal(0, 1, 2, width=2), partial(credit.bpo, suffix="zero", prefix="off")),
    "literal_B012_k2_broadcast_noprefix": (literal(0, 1, 2, width=2), partial(credit.bpo, prefix="off")),
    "literal_top1_k4_zero_prefix.95": (top(1, 4), partial(credit.bpo, suffix="zero")),
    "literal_top1_k4_broadcast_prefix.95": (top(1, 4), credit.bpo),
    "literal_top2_k3_broadcast_prefix.95": (top(2, 3), credit.bpo),
    "splitting_B1_k2_rootbaselineJ": (fixed(1, width=2), SPLIT_J),
    "splitting_threshold_M1_k2_rootbaselineJ": (threshold(1, 2), SPLIT_J),
    "splitting_top1_posthoc_k2_rootbaselineJ": (top(1, 2), SPLIT_J),
    "splitting_B1_k4_rootbaselineJ": (fixed(1, width=4), SPLIT_J),
    "splitting_threshold_M2_k3_even": (threshold(2, 3), SPLIT_J),
    "splitting_threshold_M2_k3_planned": (threshold(2, 3, "planned"), SPLIT_J),
    "splitting_B02_k3_planned": (partial(fixed(0, 2, width=3), weights="planned"), SPLIT_J),
    "splitting_B02_k3_even": (fixed(0, 2, width=3), SPLIT_J),
}


@pytest.mark.parametrize("name", ROWS)
def test_moments_equal_the_independent_reference(name, exact_moments):
    """The same growth and credit code that trains reproduces bias, covariance and cost of every reading."""
    growth, rule = ROWS[name]
    expected = exact_moments["estimators"][name]
    problem = Problem.binary(exact_moments["p"], exact_moments["r"])
    mean, trace, steps, total = moments(problem, growth, rule)
    by_logit = mean.reshape(-1, 2)[:, 1]
    assert total == pytest.approx(1, abs=1e-12)
    assert by_logit == pytest.approx(expected["mean"], abs=1e-9)
    assert np.linalg.norm(by_logit - exact_moments["gradient"]) == pytest.approx(expected["bias"], abs=1e-9)
    # The reference has one logit per binary state, the table two of opposite sign.
    assert trace / 2 == pytest.approx(expected["trace_cov"], abs=1e-9)
    assert steps == pytest.approx(expected["env_steps"], abs=1e-9)


BINARY = Problem.binary([0.3, 0.8, 0.45], [0.2, 1.0, 0.0, 0.7])
TERNARY = Problem(
    {
        s: np.array(p)
        for s, p in {"": (0.5, 0.3, 0.2), "0": (0.2, 0.2, 0.6), "1": (0.1, 0.6, 0.3), "2": (0.4, 0.3, 0.3)}.items()
    },
    [0.0, 1.0, 0.3, 0.5, 0.2, 0.9, 0.1, 0.0, 1.0],
)


@pytest.mark.parametrize("weights", ["even", "planned"])
@pytest.mark.parametrize("problem", [BINARY, TERNARY], ids=["binary", "ternary"])
@pytest.mark.parametrize(
    ("growth", "trees"),
    [
        (Growth(select.RootOnly(), 1, 3, root=True), 1),
        (Growth(select.Threshold(0.6), 2, 2, root=True), 1),
        (Growth(select.Coin(0.5), 2, 2, root=True), 1),
        (Growth(select.Every(1), 2, 2, root=True, nested=True), 1),
        (Growth(select.Threshold(0.6), 1, 2), 2),
        (Growth(select.RootOnly(), 0, 1), 2),
    ],
    ids=["root", "threshold", "coin", "nested", "two-trees", "no-branch-point"],
)
def test_mass_splitting_is_unbiased_for_causal_selectors(growth, trees, problem, weights):
    """Theory section 5: the mean equals grad J exactly, whatever causal selector, weights or nesting."""
    plan = Growth(**{**vars(growth), "weights": weights})
    mean, _, _, total = moments(problem, lambda: plan, credit.bpo_split, trees)
    assert total == pytest.approx(1, abs=1e-12)
    assert mean == pytest.approx(problem.gradient(), abs=1e-12)


def test_a_selector_that_looks_ahead_biases_mass_splitting(exact_moments):
    """Negative control: top-1 over the finished backbone misses grad J by the amount the reference gives."""
    problem = Problem.binary(exact_moments["p"], exact_moments["r"])
    mean, *_ = moments(problem, top(1, 4), SPLIT_J)
    assert np.linalg.norm(mean - problem.gradient()) > 0.05


def test_literal_bpo_never_trains_an_action_before_the_first_branch_point():
    """R = a_0, branch at t = 1: every sibling advantage is 0 although the gradient of J is p(1-p)."""
    problem = Problem.binary([0.3, 0.5, 0.5], [0, 0, 1, 1])
    mean, *_ = moments(problem, literal(1, width=2), partial(credit.bpo, prefix="off"))
    assert np.abs(mean).max() == 0
    assert np.linalg.norm(problem.gradient()) == pytest.approx(0.3 * 0.7 * np.sqrt(2))
