"""Areas under learning curves, at equal amounts of what runs spend: the first measure of every table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduce.collect import Collected, RowRuns
from reproduce.plan import EQUAL, mean_returns, near, prices

RETURNS = "equal returns"
# (updates done or what they spent [points], success there [points])
Curve = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ComparisonSet:
    """Rows that are compared with each other at equal amounts of something.

    name     in words, like "equal returns" or "equal steps"
    axis     what the curves are against: "update", or a quantity of the ledger
    rows     label -> seed -> learning curve
    budget   where all curves are cut, on that axis: the smallest that a run has spent in all
    """

    name: str
    axis: str
    rows: Mapping[str, Mapping[int, Curve]]
    budget: float


def comparison_sets(collected: Collected) -> list[ComparisonSet]:
    """What is compared with what: at equal returns, against updates, all rows that used as many returns as the reference; a
    branching row that used another number, with the baselines that were given as many; and, for everything else that the preset
    asks for, all rows that used as much of it as the reference, by tasks of their own or by more or fewer of them.
    """
    sets, reference = [], next((row for row in collected.rows if row.row.label == collected.reference), None)
    plain = [row for row in collected.rows if not row.row.of]
    if reference is None:
        return sets
    equal_returns = [row for row in plain if near(_returns(row), _returns(reference))]
    sets.append(_set(RETURNS, "update", equal_returns))
    for row in plain:
        matched = [other for other in plain if row.row.label in other.row.matched_to]
        if row not in equal_returns and matched:
            sets.append(_set(f"the returns of {row.row.label}", "update", [row, *matched]))
    for what in collected.equal:
        equal = {row.row.of: row for row in collected.rows if row.row.equal == what}
        price = _price(reference, what)
        chosen = [equal.get(row.row.label, row) for row in plain if row.row.label in equal or near(_price(row, what), price)]
        if equal:
            sets.append(_set(EQUAL[what], what, chosen))
    return sets


def areas(one: ComparisonSet, seeds: Sequence[int] | None = None) -> dict[str, np.ndarray]:
    """float64 [seeds] by row: mean success while the budget is spent, by the trapezoidal rule between the curve's points.

    seeds   in this order; a row without one of them is left out. None: all that a row has
    """
    return {
        label: np.array([area(*curves[seed], one.budget) for seed in (sorted(curves) if seeds is None else seeds)])
        for label, curves in one.rows.items()
        if seeds is None or set(seeds) <= set(curves)
    }


def area(spent: np.ndarray, success: np.ndarray, budget: float) -> float:
    """Area under a curve [points] from 0 to `budget`, divided by `budget`; points lie on straight lines between each other."""
    inside = spent < budget
    x = np.append(spent[inside], budget)
    y = np.append(success[inside], np.interp(budget, spent, success))
    return float(np.trapezoid(y, x) / budget)


def curve(run: Mapping[str, Any], what: str) -> Curve:
    """The points of a run's learning curve against updates ("update"), or against what training spent by the ledger."""
    spent, points = 0.0, []
    for metric in run["metrics"]:
        spent = metric["update"] if what == "update" else spent + metric.get("ledger", {}).get(what, 0)
        if "curve" in metric:
            points.append((spent, metric["curve"]))
    found = np.array(points, float).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def curves_by_task(run: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Updates [points] of a run's learning curve, and the success of every task there [tasks, points]."""
    points = [(metric["update"], metric["curve_by_task"]) for metric in run["metrics"] if "curve_by_task" in metric]
    return np.array([update for update, _ in points], float), np.array([each for _, each in points], float).T


def _set(name: str, axis: str, rows: Sequence[RowRuns]) -> ComparisonSet:
    curves = {row.row.label: {seed: curve(run, axis) for seed, run in row.runs.items()} for row in rows}
    curves = {label: kept for label, own in curves.items() if (kept := {seed: c for seed, c in own.items() if len(c[0]) > 1})}
    ends = [spent[-1] for own in curves.values() for spent, _ in own.values()]
    return ComparisonSet(name, axis, curves, float(min(ends, default=0.0)))


def _returns(row: RowRuns) -> float:
    return mean_returns(list(row.runs.values()))


def _price(row: RowRuns, what: str) -> float:
    return prices(list(row.runs.values()))[what]
