"""OPTS-TTPO: a tree that is searched where its best path fell short, trained with weights that share the mass evenly."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bpo.mechanism import CONTRAST, FORKS
from bpo.methods.ppo import CRITIC, LEARNS, generalised, memory
from bpo.methods.record import Method, Parameters
from bpo.objective import ppo_clip
from bpo.param import Param
from bpo.rollout import OwnPlan
from bpo.search_plan import SearchPlan


def growth(p: Parameters) -> OwnPlan:
    """Paths from the root, and one more per search."""
    plan = partial(SearchPlan, p["starts"], p["searches"], p["gamma"], p["lam"])
    return OwnPlan(plan, planned_returns=p["starts"] + p["searches"])


opts_ttpo = Method(
    summary="a tree searched where its best path fell short of the critic, tree advantages, mass shared evenly",
    parameters={
        "starts": Param(5, "paths from the root before the search", low=1),
        "searches": Param(3, "searches per tree, one more path each", low=0),
        **CRITIC,
        "lam": replace(CRITIC["lam"], default=0.999),
    },
    growth=growth,
    credit=generalised,
    objective=lambda p: ppo_clip,
    citation="OPTS-TTPO 2026, arXiv 2609.40035; code: github.com/lu-jun-yu/OPTS",
    known_from="released code and its description",
    fidelity="search score, tree advantages with the mean of the children, branch weights, weighted whitening and value loss; "
    "new here: every tree searches equally often (the code skips trees below the update's mean score), boundaries of actions "
    "in place of tokens, a value head on the policy's model in place of a critic of its own",
    bias="biased: branch points are chosen by what was drawn (its weights alone, fixed before the draws, would not be)",
    memory=memory,
    mechanism=lambda p: {"contrast": CONTRAST, "forks": FORKS, "critic": LEARNS},
)
