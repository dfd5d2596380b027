"""What the runs say: all pairs of methods in all families, corrected for their number, and two sets of seeds compared."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bpo.compare import Verdict, coverage, false_alarms, paired, verdicts

Rows = Sequence[Mapping[str, Any]]
# (family, policy, method, other): the first minus the second.
Key = tuple[str, str, str, str]

# Re-draws of the seeds in the test of a method against itself, and draws that coverage is counted over.
REDRAWS, DRAWS = 200, 2000


def usable(row: Mapping[str, Any], axis: str) -> bool:
    """Whether every seed of a row has spent the budget of an axis."""
    return not row["failed"] and None not in row[f"area_{axis}"]


def of_table(rows: Rows, axis: str, rule: str) -> dict[Key, Verdict]:
    """The verdicts of one table: all pairs in all families and policies are one family of comparisons for Holm."""
    places: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for row in rows:
        if row["rule"] == rule and usable(row, axis):
            place = places.setdefault((row["family"], row["policy"]), {})
            place[row["method"]] = np.array(row[f"area_{axis}"])
    return verdicts(
        {
            (*place, a, b): paired(values[a], values[b])
            for place, values in places.items()
            for a, b in itertools.combinations(values, 2)
        }
    )


def agreement(one: Mapping[Key, Verdict], other: Mapping[Key, Verdict]) -> dict[str, Any]:
    """How the verdicts of two sets of seeds compare.

    same      both say the same of a pair that differs;  none  neither says anything
    one_only  only one of them says anything;             opposite  they contradict each other: these pairs are named
    """
    kinds = Counter({"same": 0, "none": 0, "one_only": 0, "opposite": 0})
    opposed = []
    for key in one.keys() & other.keys():
        a, b = one[key].sign, other[key].sign
        kind = ("same" if a else "none") if a == b else ("opposite" if a and b else "one_only")
        kinds[kind] += 1
        if kind == "opposite":
            opposed.append(list(key))
    return {**kinds, "pairs": sum(kinds.values()), "opposed": sorted(opposed)}


def trust(truth: Rows, seeds: int, family: int, axis: str) -> list[dict[str, Any]]:
    """How far the intervals can be trusted, from cells of many seeds: of every method and every pair, at one axis.

    coverage  share of draws of so many seeds whose interval holds the mean of all
    alarms    of a method: share of re-draws in which it differs from itself under another name; alarms_family: the same where
              it is one of `family` comparisons read together
    """
    places: dict[str, dict[str, np.ndarray]] = {}
    for row in truth:
        if usable(row, axis):
            places.setdefault(row["family"], {})[row["method"]] = np.array(row[f"area_{axis}"])
    found = []
    for place, values in places.items():
        for name, one in values.items():
            row = _covered(f"{place}: {name}", one, seeds)
            if len(one) >= 2 * seeds:
                row["alarms"] = false_alarms(one, seeds, REDRAWS, np.random.default_rng(1))
                row["alarms_family"] = false_alarms(one, seeds, REDRAWS, np.random.default_rng(2), family)
            found.append(row)
        for a, b in itertools.combinations(values, 2):
            found.append(_covered(f"{place}: {a} − {b}", values[a] - values[b], seeds))
    return found


def _covered(name: str, values: np.ndarray, seeds: int) -> dict[str, Any]:
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    share = coverage(values, seeds, DRAWS, np.random.default_rng(0))
    return {"of": name, "mean": float(values.mean()), "error": error, "coverage": share}
