"""A control: independent rollouts in batches as small as those of mass splitting, which so make as many updates.

A method that draws fewer returns per update makes more of them from the same budget. This tells that from what branching does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpo.lab.cells import Cell
from bpo.lab.suite import Suite
from bpo.lab.table import Runner, columns

# Returns of a tree: about what mass splitting draws here once its threshold has risen.
RETURNS = 5
METHOD, LABEL = "rloo", f"rloo, {RETURNS} returns"
AGAINST = ("bpo_split", "bpo")


def rows(suite: Suite, rates: Sequence[Mapping[str, Any]], run: Runner) -> list[dict[str, Any]]:
    """One row per family and policy, as `table.report` makes them, at the rate that the method has with all its returns."""
    parameters = (("returns", RETURNS),)
    cells = {
        (row["family"], row["policy"]): Cell(
            row["family"], row["policy"], METHOD, parameters, row["own"], suite.updates[row["policy"]], suite.seeds
        )
        for row in rates
        if row["method"] == METHOD and row["own"] is not None
    }
    found = run(list(cells.values()), "control")
    return [
        {
            "family": family,
            "policy": policy,
            "method": LABEL,
            "rule": "own",
            "lr": cell.lr,
            "seeds": list(cell.seeds),
            "failed": found[cell]["failed"],
            **columns(found[cell]["rows"]),
        }
        for (family, policy), cell in cells.items()
    ]
