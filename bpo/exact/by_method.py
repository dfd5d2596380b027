"""The exact moments of every method of the table, each made small enough to be enumerated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bpo.exact.moments import Moments, moments
from bpo.exact.problem import Problem
from bpo.methods import METHODS, build

# Two decisions with graded returns; in the second problem the first action can end the episode.
PLAIN = Problem.from_spec({"p": [0.3, 0.8, 0.45], "r": [0.0, 1.0, 0.3, 0.5]})
ENDING = Problem.from_spec({"p": [0.6, 0.5, 0.35], "r": [0.0, 0.0, 0.1, 1.0], "ends": {"0": 0.3}})
# Values of parameters, by their names, where a row has them; then those of single rows.
SMALL: dict[str, Any] = {
    "returns": 3,
    "points": 1,
    "width": 3,
    "gap": 1,
    "unit": "steps",
    "values": 1,
    "starts": 2,
    "searches": 1,
}
SMALL_OF: dict[str, dict[str, Any]] = {
    "bpo_split": {"points": 2, "width": 2, "selector": "threshold", "selector_value": 0.6},
    "vineppo": {"returns": 2},
    "opts_ttpo": {"starts": 2, "searches": 1},
}


@dataclass(frozen=True)
class Row:
    """One method on both problems, at ratio 1, without KL, and with a critic that has learned nothing.

    parameters  those that were changed
    plain, ending   moments without and with early ends; None where trees of a table cannot express the method, for `reason`
    """

    parameters: dict[str, Any]
    plain: Moments | None
    ending: Moments | None
    reason: str = ""


def exact_row(name: str) -> Row:
    """The moments of a method's credit on the trees that its growth makes of both problems."""
    row = METHODS[name]
    small = {key: value for key, value in SMALL.items() if key in row.parameters} | SMALL_OF.get(name, {})
    if row.inexact:
        return Row(small, None, None, row.inexact)
    method = build(name, small)
    found = [moments(problem, method.growth, method.credit) for problem in (PLAIN, ENDING)]
    return Row(small, found[0], found[1])


def relative_bias(found: Moments) -> float:
    """|E g - grad J| / |grad J|."""
    return found.bias / float(np.linalg.norm(found.gradient))


def noise(found: Moments) -> float:
    """trace(Cov g) / |E g|^2, which no factor changes."""
    return found.trace_cov / float(np.linalg.norm(found.mean)) ** 2
