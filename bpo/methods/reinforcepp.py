"""REINFORCE++: advantages that are normalised over the whole update, with or without a task's mean as the baseline."""

from __future__ import annotations

from bpo import credit
from bpo.methods.independent import RETURNS, TOKENS, growth
from bpo.methods.record import Method
from bpo.objective import ppo_clip
from bpo.param import Param

RULES = {"task": credit.drgrpo, "none": credit.raw}

reinforcepp = Method(
    summary="N rollouts from the root, return minus the task's mean, normalised over the update",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "baseline": Param("task", "what is subtracted before normalising: the task's mean return, or nothing", choices=RULES),
        "tokens": TOKENS,
    },
    growth=growth,
    credit=lambda p: credit.WEIGHINGS[p["tokens"]](credit.whitened(credit.per_task(RULES[p["baseline"]]))),
    objective=lambda p: ppo_clip,
    citation="Hu et al. 2025, arXiv 2501.03262",
    known_from="digest",
    fidelity="advantage in full (with baseline: task = REINFORCE++-baseline); the KL is in the loss (k3), not in the reward; "
    "new here: tokens = sum by default, so that the scale is that of the other rows",
    bias="biased: the update's own returns are in mean and std",
)
