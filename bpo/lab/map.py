"""The map: what branching costs on the way to most of the optimum, over independent rollouts, and what theory predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpo.compare import mean
from bpo.lab.cells import Cell
from bpo.lab.families import Decision, decision
from bpo.lab.family import Family
from bpo.lab.policies import FeaturePolicy
from bpo.lab.sandbox import FamilySandbox
from bpo.lab.suite import Suite, built
from bpo.lab.table import DIGITS, Runner
from bpo.methods import BuiltMethod
from bpo.rollout import grow

# First integer of the key of the trees that a prediction is drawn from.
PREDICTION = 3
ARMS = ("branching", "independent")


@dataclass(frozen=True)
class Spot:
    """One place on the map: a decision in a binary tree, with K children at every branch point."""

    decision: Decision
    width: int

    @property
    def returns(self) -> int:
        """Leaves of a tree, of both arms."""
        return 1 + 2 * (self.width - 1)

    def arm(self, name: str) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """(method, parameters): mass splitting at the root and at the decision, or as many rollouts from the root."""
        if name == "independent":
            return "rloo", (("returns", self.returns),)
        shape = {"points": 2, "width": self.width, "selector": "every", "selector_value": self.decision.depth}
        return "bpo_split", tuple(sorted({**shape, "unit": "steps", "gap": 1}.items()))


def spots(suite: Suite) -> list[Spot]:
    """Every place of the map."""
    return [
        Spot(Decision(depth, horizon, lucky), width)
        for lucky in suite.map_luck
        for horizon, depths in suite.map_depths
        for depth in depths
        for width in suite.map_widths
    ]


def chart(suite: Suite, run: Runner) -> list[dict[str, Any]]:
    """One row per place and price of a fork: what both arms spent, their ratio with its interval, and the predicted ratio.

    ratio      geometric mean over seeds of branching's cost to TARGET of the optimum over that of independent rollouts, paired
    predicted  trace(Cov) times cost of one tree, branching over independent, at the start policy
    short      runs of either arm that did not get there: they count with what they spent, so that a ratio errs to 1
    """
    pilot = {
        (spot, arm, lr): _cell(suite, spot, arm, lr, suite.map_pilot)
        for spot in spots(suite)
        for arm in ARMS
        for lr in suite.map_rates
    }
    tried = run(list(pilot.values()), "map: rates")
    chosen = {
        (spot, arm): min(suite.map_rates, key=lambda lr: _steps(tried[pilot[spot, arm, lr]]))
        for spot in spots(suite)
        for arm in ARMS
    }
    cells = {key: _cell(suite, *key, lr, suite.map_seeds) for key, lr in chosen.items()}
    found = run(list(cells.values()), "map")
    rows = []
    for spot in spots(suite):
        spent = {arm: found[cells[spot, arm]]["rows"] for arm in ARMS}
        theory = {arm: predicted(spot, arm, suite.map_draws) for arm in ARMS}
        rows += [_row(suite, spot, fork, spent, theory, chosen) for fork in suite.map_forks]
    return rows


@dataclass(frozen=True)
class Price:
    """What one tree's gradient is worth and costs at the start: trace(Cov), steps, forks below the root."""

    trace: float
    steps: float
    forks: float


def predicted(spot: Spot, arm: str, draws: int) -> Price:
    """From so many trees, by growth and credit that train; the exact engine knows no noise, and says the same without it."""
    family = decision(spot.decision)
    method, parameters = spot.arm(arm)
    # The point below the root is always reached.
    forks = 0 if arm == "independent" else spot.width - 1
    return Price(*drawn(family, built(method, dict(parameters)), draws), forks)


def drawn(family: Family, method: BuiltMethod, draws: int) -> tuple[float, float]:
    """(trace of the covariance of a tree's gradient, mean steps of a tree) at the start, from so many independent trees."""
    policy, box = FeaturePolicy(family, "tabular"), FamilySandbox(family)
    table, memory = policy.probabilities(), method.memory()
    tasks = [f"draw-{number}" for number in range(draws)]
    trees, ledger = grow(tasks, [box], policy, method.growth, (PREDICTION,), memory=memory)
    gradients = np.zeros((draws, *table.shape))
    for gradient, tree, credit in zip(gradients, trees, method.credit(trees, memory), strict=True):
        for node in range(1, len(tree)):
            state, action = tree.state_key[tree.parent[node]], tree.edge(node).decision.tokens[0]
            scale = credit.weight[node] * credit.advantage[node]
            gradient[state] -= scale * table[state]
            gradient[state, action] += scale
    return float(gradients.var(axis=0, ddof=1).sum()), ledger.env_steps / draws


def _cell(suite: Suite, spot: Spot, arm: str, lr: float, seeds: Sequence[int]) -> Cell:
    return Cell(spot.decision.name, "tabular", *spot.arm(arm), lr, suite.map_updates, tuple(seeds))


def _steps(content: Mapping[str, Any]) -> float:
    """Mean log of the steps to the target; what did not get there has spent more than what did."""
    if content["failed"]:
        return float("inf")
    return float(np.mean([np.log(row["steps"]) + (0.0 if row["reached"] else np.log(10)) for row in content["rows"]]))


def _row(
    suite: Suite,
    spot: Spot,
    fork: float,
    spent: Mapping[str, Sequence[Mapping[str, float]]],
    theory: Mapping[str, Price],
    chosen: Mapping[tuple[Spot, str], float],
) -> dict[str, Any]:
    cost = {arm: np.array([row["steps"] + fork * row["forks"] for row in rows]) for arm, rows in spent.items()}
    found = mean(np.log(cost["branching"]) - np.log(cost["independent"]))
    price = {arm: one.trace * (one.steps + fork * one.forks) for arm, one in theory.items()}
    numbers = {
        **{f"cost_{arm}": float(np.exp(np.log(values).mean())) for arm, values in cost.items()},
        "ratio": float(np.exp(found.value)),
        "low": float(np.exp(found.low)),
        "high": float(np.exp(found.high)),
        "predicted": price["branching"] / price["independent"],
    }
    return {
        "horizon": spot.decision.horizon,
        "depth": spot.decision.depth,
        "luck": spot.decision.lucky,
        "width": spot.width,
        "returns": spot.returns,
        "fork": fork,
        **{name: round(value, DIGITS) for name, value in numbers.items()},
        **{f"lr_{arm}": chosen[spot, arm] for arm in ARMS},
        "short": sum(not row["reached"] for rows in spent.values() for row in rows),
    }
