"""Mass splitting: branch points chosen while the path grows, and children that share their parent's mass."""

from __future__ import annotations

from functools import partial

from bpo import credit
from bpo.errors import BadInput
from bpo.mechanism import CONTRAST, FORKS
from bpo.methods.record import Method, Parameters
from bpo.methods.selection import SPACING, check_selector_value, selector_of
from bpo.methods.table import SELECTORS
from bpo.objective import ppo_clip
from bpo.param import Param
from bpo.rollout import Growth

CAUSAL = SELECTORS.only(lambda selector: selector.causal)


def growth(p: Parameters) -> Growth:
    """Paths that fork where the selector fires."""
    return Growth(
        selector_of(CAUSAL, p),
        points=p["points"],
        width=p["width"],
        root=p["root"],
        weights=p["weights"],
        nested=p["nested"],
        trees=p["trees"],
    )


def check(p: Parameters) -> None:
    """BadInput for a value that the selector cannot use, and for a baseline by other trees where there are none."""
    check_selector_value(CAUSAL, p)
    if p["root_baseline"] != "trees" or p["trees"] > 1:
        return
    if not p["root"]:
        raise BadInput(f"root_baseline: 'trees' needs trees >= 2 or root = true (trees is {p['trees']})")
    if p["points"] < 1:
        raise BadInput("points is 0; with root = true it must be at least 1, since the root is one of them")


bpo_split = Method(
    summary="causal branch points and mass splitting: the unbiased repair",
    parameters={
        "points": Param(4, "branch points per tree at most (M); with a root branch point, the root is one of them", low=0),
        "width": Param(4, "children of a branch point, the one that was there included (K)", low=2),
        "selector": Param("quantile", "where to branch, decided while the path grows", choices=CAUSAL),
        "selector_value": Param(0.5, "the selector's number: see the selectors below", low=0.0),
        **SPACING,
        "root": Param(True, "whether the root is a branch point"),
        "weights": Param(
            "even",
            "share of a child in its parent's mass: 1/K, or the share of the returns that was planned below it",
            choices=("even", "planned"),
        ),
        "nested": Param(False, "whether children of branch points may branch in turn"),
        "trees": Param(1, "trees per task", low=1),
        "root_baseline": Param(
            "trees",
            "baseline of steps above the first branch point: the task's other trees, mean of earlier trees, none",
            choices=("trees", "running", "zero"),
        ),
        "shrink": Param(
            0.0,
            "part of the level above in the sibling baseline; saves variance where `width` is small",
            low=0.0,
            high=1.0,
        ),
    },
    growth=growth,
    credit=lambda p: credit.per_task(partial(credit.bpo_split, root_baseline=p["root_baseline"], shrink=p["shrink"])),
    objective=lambda p: ppo_clip,
    citation="importance splitting (Kahn and Harris 1951; Glasserman et al. 1999); for trees OPTS-TTPO, arXiv 2609.40035",
    known_from="digest (OPTS-TTPO: released code and its description)",
    fidelity="new here: causal selectors, sibling baselines without a critic, planned weights, shrinkage (docs/theory.md)",
    bias="unbiased",
    check=check,
    mechanism=lambda p: {"contrast": CONTRAST, "forks": FORKS},
)
