"""The table's runs: a learning rate per method by the written rule, then the seeds that are reported. Plain values come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bpo.lab.cells import Cell, Progress, run_all
from bpo.lab.suite import Suite, parameters_of

# Digits of what a run measured, as they are written and read.
DIGITS = 6
# The axis on which rates are chosen, and which verdicts name first.
PRIMARY = "steps"
RULES = ("own", "common")

Runner = Callable[[Sequence[Cell], str], dict[Cell, dict[str, Any]]]


def runner(folder: Path, processes: int, progress: Progress | None) -> Runner:
    """What runs cells in a folder, side by side."""
    return lambda cells, phase: run_all(cells, folder, processes, phase, progress)


def choose_rates(suite: Suite, methods: Sequence[str], run: Runner) -> list[dict[str, Any]]:
    """One row per family, policy and method: what every rate reached on the pilot seeds, and the rates chosen.

    own     the rate with the largest mean area against steps; of equal ones the smallest. None where no rate can be used
    common  the rate with the largest mean of that over the methods of the family, among rates that all of them can use
    edge    whether `own` is the smallest or the largest that was tried
    """
    places = [(family, policy) for family in suite.families for policy in suite.policies]
    cells = {
        (family, policy, method, lr): _cell(suite, family, policy, method, lr, suite.pilot)
        for family, policy in places
        for method in methods
        for lr in suite.rates
    }
    found = run(list(cells.values()), "rates")
    rows = []
    for family, policy in places:
        reached = {method: [_pilot(found[cells[family, policy, method, lr]]) for lr in suite.rates] for method in methods}
        together = np.mean([values for values in reached.values() if not np.isnan(values).all()] or [[np.nan]], axis=0)
        common = _best(suite.rates, together)
        for method, values in reached.items():
            own = _best(suite.rates, values)
            edge = own in (suite.rates[0], suite.rates[-1])
            tried = [None if np.isnan(value) else round(value, DIGITS) for value in values]
            row = {"family": family, "policy": policy, "method": method, "own": own, "common": common}
            rows.append({**row, "edge": edge, "tried": tried})
    return rows


def report(
    suite: Suite,
    rates: Sequence[Mapping[str, Any]],
    seeds: Sequence[int],
    run: Runner,
    phase: str,
    rules: Sequence[str] = RULES,
) -> list[dict[str, Any]]:
    """One row per family, policy, method and rule of the rate (own, common): what every seed measured, by name."""
    wanted = [
        (row, rule, _cell(suite, row["family"], row["policy"], row["method"], row[rule], seeds))
        for row in rates
        for rule in rules
        if row["own"] is not None and row[rule] is not None
    ]
    found = run([cell for _, _, cell in wanted], phase)
    rows = []
    for row, rule, cell in wanted:
        content = found[cell]
        named = {name: row[name] for name in ("family", "policy", "method")}
        rows.append(
            {
                **named,
                "rule": rule,
                "lr": cell.lr,
                "seeds": list(seeds),
                "failed": content["failed"],
                **columns(content["rows"]),
            }
        )
    return rows


def columns(rows: Sequence[Mapping[str, float | None]]) -> dict[str, list[float | None]]:
    """Rows per seed as one list per measured number, rounded."""
    names = rows[0] if rows else ()
    return {name: [None if (value := row[name]) is None else round(value, DIGITS) for row in rows] for name in names}


def _cell(suite: Suite, family: str, policy: str, method: str, lr: float, seeds: Sequence[int]) -> Cell:
    parameters = tuple(sorted(parameters_of(method).items()))
    return Cell(family, policy, method, parameters, lr, suite.updates[policy], tuple(seeds))


def _pilot(content: Mapping[str, Any]) -> float:
    values = [row[f"area_{PRIMARY}"] for row in content["rows"]]
    return float("nan") if content["failed"] or None in values else float(np.mean(values))


def _best(rates: Sequence[float], values: Sequence[float] | np.ndarray) -> float | None:
    values = np.asarray(values, float)
    return None if np.isnan(values).all() else float(rates[int(np.nanargmax(values))])
