"""Branching Policy Optimization as the paper writes it: a finished backbone, forks at its most uncertain boundaries."""

from __future__ import annotations

from functools import partial

from bpo import credit
from bpo.mechanism import CONTRAST, FORKS
from bpo.methods.record import Method, Parameters
from bpo.methods.selection import SPACING, selector_of
from bpo.methods.table import SELECTORS
from bpo.objective import ppo_clip
from bpo.param import Param
from bpo.rollout import Growth

POST_HOC = SELECTORS.only(lambda selector: not selector.causal)


def growth(p: Parameters) -> Growth:
    """A backbone first, then forks where the selector ranks its boundaries highest."""
    return Growth(selector_of(POST_HOC, p), points=p["points"], width=p["width"], fill=p["fill"])


bpo = Method(
    summary="one backbone, forks at its M most uncertain boundaries, sibling baseline (the literal reading)",
    parameters={
        "points": Param(4, "branch points per tree at most (M)", low=0),
        "width": Param(4, "children of a branch point, the one that was there included (K)", low=2),
        "selector": Param("top_entropy", "where to branch, chosen on the finished backbone", choices=POST_HOC),
        **SPACING,
        "fill": Param(
            "none",
            "what happens with returns that found no boundary: nothing, or more rollouts from the root",
            choices=("none", "root"),
        ),
        "suffix": Param(
            "broadcast",
            "advantage of steps after a branch point: the point's, none, the nearest point's (the paper is silent)",
            choices=("broadcast", "zero", "nearest"),
        ),
        "prefix": Param(
            "backbone",
            "advantage of steps before a branch point: the backbone's, discounted by lam, or none",
            choices=("backbone", "off"),
        ),
        "lam": Param(0.95, "discount per step of the prefix rule", low=0.0, high=1.0),
    },
    growth=growth,
    credit=lambda p: credit.per_task(partial(credit.bpo, suffix=p["suffix"], prefix=p["prefix"], lam=p["lam"])),
    objective=lambda p: ppo_clip,
    citation="He et al. 2026, arXiv 2607.14171",
    known_from="full text",
    equals={"rloo": "N: every rollout counts whole, where the root is the only branch point"},
    fidelity="Eqs. 3 to 5 literally; new here: what steps after a branch point get (broadcast), ratios by token",
    bias="biased: post hoc selection, steps counted several times, unbranched steps untrained",
    mechanism=lambda p: {"contrast": CONTRAST, "forks": FORKS},
)
