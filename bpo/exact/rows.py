"""The estimators that `bpo exact` reports, by name, and the report itself (conventions: theory.md, section 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bpo import credit, select
from bpo.credit import CreditRule
from bpo.exact.moments import Z99, Moments, coefficients, moments
from bpo.exact.problem import Problem, reportable
from bpo.exact.realise import LIMIT, SAMPLES, USUAL, Budget, blocks
from bpo.rollout import Growth
from bpo.select import Boundary
from bpo.tree import Tree


class AtDepths(select.CausalSelector):
    """Branches at given depths of the path."""

    def __init__(self, *depths: int):
        super().__init__()
        self.depths = depths

    def wants(self, boundary: Boundary) -> bool:
        return boundary.depth in self.depths


class PostHocAtDepths(select.PostHocSelector):
    """Branches at given depths of the finished backbone: the same places as AtDepths, the literal way of growing."""

    def __init__(self, *depths: int):
        super().__init__()
        self.depths = depths

    def ranking(self, boundaries, candidates, count):
        return [i for i in candidates if boundaries[i].depth in self.depths]


@dataclass(frozen=True)
class Estimator:
    """How a tree grows and who gets credit. `deepest`: the deepest branch depth, which the problem must have."""

    growth: Growth
    rule: CreditRule
    deepest: int = 0


def estimators(threshold: float, J: float) -> dict[str, Estimator]:
    """All rows for an entropy threshold in nats and the exact J, which some rows use as the root's baseline."""
    independent = Growth(select.RootOnly(), points=1, width=4, root=True)
    rows = {
        "rloo_n4": Estimator(independent, credit.rloo),
        "grpo_n4_population_std": Estimator(independent, credit.grpo),
        "drgrpo_n4": Estimator(independent, credit.drgrpo),
    }
    for depths, width in (((0,), 4), ((1,), 4), ((2,), 4), ((0, 1, 2), 2)):
        growth = Growth(PostHocAtDepths(*depths), points=len(depths), width=width)
        for suffix in ("zero", "broadcast"):
            rule = partial(credit.bpo, suffix=suffix, prefix="off")
            rows[f"literal_B{''.join(map(str, depths))}_k{width}_{suffix}_noprefix"] = Estimator(growth, rule, max(depths))
    for points, width, suffix in ((1, 4, "zero"), (1, 4, "broadcast"), (2, 3, "broadcast")):
        growth = Growth(select.TopEntropy(), points=points, width=width)
        rows[f"literal_top{points}_k{width}_{suffix}_prefix.95"] = Estimator(growth, partial(credit.bpo, suffix=suffix))
    against_j = partial(credit.bpo_split, running=J, root_baseline="running")
    plain = partial(credit.bpo_split, root_baseline="zero")
    for width in (2, 4):
        fixed = Growth(AtDepths(1), points=1, width=width)
        causal = Growth(select.Threshold(threshold), points=1, width=width)
        post_hoc = Growth(select.TopEntropy(), points=1, width=width)
        rows[f"splitting_B1_k{width}_rootbaselineJ"] = Estimator(fixed, against_j, 1)
        rows[f"splitting_threshold_M1_k{width}_rootbaselineJ"] = Estimator(causal, against_j)
        rows[f"splitting_top1_posthoc_k{width}_rootbaselineJ"] = Estimator(post_hoc, against_j)
    for weights in ("even", "planned"):
        causal = Growth(select.Threshold(threshold), points=2, width=3, weights=weights)
        fixed = Growth(AtDepths(0, 2), points=2, width=3, weights=weights)
        rows[f"splitting_threshold_M2_k3_{weights}"] = Estimator(causal, plain)
        rows[f"splitting_B02_k3_{weights}"] = Estimator(fixed, plain, 2)
    return rows


def report(
    spec: Mapping[str, Any],
    *,
    where: str = "the spec",
    limit: int = LIMIT,
    samples: int = SAMPLES,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Everything about the decision tree {p, r, threshold}: J, gradient, entropies, every estimator's moments, Theorem 2.

    `progress(what, done, total)` is called with what = "rows" and "this row". Gradients are lists per state: of one number
    where p is P(action 1), of one number per action where p has a list per state.
    """
    problem, threshold = reportable(spec, where)
    rows = {name: row for name, row in estimators(threshold, problem.J).items() if row.deepest < problem.depth}
    budget = Budget(limit, samples, seed)
    total = len(rows) + 2 * problem.depth
    found: dict[str, Any] = {}
    theorem: dict[str, Any] = {}

    def done() -> None:
        if progress:
            progress("rows", len(found) + len(theorem), total)

    for name, row in rows.items():
        inner = partial(progress, "this row") if progress else None
        result = moments(problem, row.growth, row.rule, limit=limit, samples=samples, seed=seed, progress=inner)
        found[name] = plain(result, problem)
        done()
    for width in (2, 4):
        root = _root_loo(problem, width, budget)
        for depth in range(problem.depth):
            theorem[f"t{depth}_k{width}"] = _theorem2(problem, depth, width, root, budget)
            done()
    return {
        "p": spec["p"],
        "r": spec["r"],
        "threshold": threshold,
        "J": problem.J,
        "gradient": per_state(problem.gradient, problem),
        "entropies": dict(zip(problem.states, problem.entropy.tolist(), strict=True)),
        "estimators": found,
        "theorem2": theorem,
    }


def plain(result: Moments, problem: Problem) -> dict[str, Any]:
    """Moments as plain values; 99 % intervals where they were sampled."""
    row: dict[str, Any] = {
        "bias": result.bias,
        "cosine": result.cosine,
        "trace_cov": result.trace_cov,
        "env_steps": result.env_steps,
        "mean": per_state(result.mean, problem),
        "returns": result.returns,
        "exact": result.exact,
        "n": result.realisations,
    }
    if not result.exact:
        half = Z99 * result.error
        row["interval"] = {
            "level": 0.99,
            "mean": [per_state(result.mean - half, problem), per_state(result.mean + half, problem)],
            "trace_cov": _around(result.trace_cov, result.trace_error),
            "env_steps": _around(result.env_steps, result.steps_error),
        }
    return row


@dataclass(frozen=True)
class Variance:
    """A variance, and its standard error where it was sampled."""

    value: float
    exact: bool
    error: float


def theorem2(problem: Problem, depth: int, width: int, budget: Budget = USUAL) -> dict[str, Any]:
    """Variance of a leave-one-out advantage among `width` returns, at the root and at a branch point at `depth`.

    Theorem 2: the first minus the second is K/(K-1) times the variance of V(s_t), the part of the return that the prefix
    explains. Both variances are taken over the trees that `grow` makes, with the advantages that the credit code gives. A row
    with a sampled variance says so and has a 99 % interval.
    """
    return _theorem2(problem, depth, width, _root_loo(problem, width, budget), budget)


def _root_loo(problem: Problem, width: int, budget: Budget) -> Variance:
    growth = Growth(select.RootOnly(), points=1, width=width, root=True)
    return advantage_variance(problem, growth, credit.rloo, lambda tree: [tree.backbone[1]], budget)


def _theorem2(problem: Problem, depth: int, width: int, root: Variance, budget: Budget) -> dict[str, Any]:
    growth, rule = Growth(AtDepths(depth), points=1, width=width), partial(credit.bpo_split, root_baseline="zero")
    found = {
        "var_root_loo": root,
        "var_sibling": advantage_variance(problem, growth, rule, lambda tree: [tree.backbone[depth + 1]], budget),
    }
    row: dict[str, Any] = {name: variance.value for name, variance in found.items()}
    row |= {"prefix_explained": problem.variance(depth), "varG": problem.variance()}
    sampled = {name: variance for name, variance in found.items() if not variance.exact}
    if sampled:
        around = {name: _around(variance.value, variance.error) for name, variance in sampled.items()}
        row |= {"exact": False, "n": budget.samples, "interval": {"level": 0.99, **around}}
    return row


def advantage_variance(
    problem: Problem, growth: Growth, rule: CreditRule, nodes: Callable[[Tree], Sequence[int]], budget: Budget = USUAL
) -> Variance:
    """Variance, over all trees, of the mean of the advantages of the edges into `nodes(tree)`."""
    exact, found = blocks(problem, growth, budget)
    values, chances = [], []
    for block in found:
        advantages = coefficients(block.shape, block.states, rule, of=lambda credit: credit.advantage)
        values.append(advantages[:, list(nodes(block.shape.template))].mean(axis=1))
        chances.append(block.chance)
    value, chance = np.concatenate(values), np.concatenate(chances)
    squares = (value - chance @ value) ** 2
    error = 0.0 if exact else float(squares.std() / np.sqrt(len(value)))
    return Variance(float(chance @ squares), exact, error)


def per_state(values: np.ndarray, problem: Problem) -> list:
    """[S, F] as a list per state, of numbers where there is one logit per state."""
    return values[:, 0].tolist() if problem.logistic else values.tolist()


def _around(value: float, error: float) -> list[float]:
    return [value - Z99 * error, value + Z99 * error]
