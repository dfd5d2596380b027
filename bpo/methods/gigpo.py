"""GiGPO: rollouts compared with each other, and steps compared with those that started in the same state."""

from __future__ import annotations

import itertools
from functools import partial

from bpo import credit
from bpo.credit.anchors import anchored
from bpo.mechanism import CONTRAST, Mechanism, Seen
from bpo.methods.independent import RETURNS, growth
from bpo.methods.record import Method
from bpo.objective import ppo_clip
from bpo.param import Param
from bpo.tree import ROOT


def shared(anchor: str, seen: Seen) -> float:
    """Groups of two or more steps that did not start in the root."""
    found = 0
    for _, group in itertools.groupby(seen.trees, key=lambda tree: tree.task):
        trees = list(group)
        for steps in anchored(trees, anchor):
            found += len(steps) > 1 and all(trees[t].parent[node] != ROOT for t, node in steps)
    return found


RULE = ("std", "over", "anchor", "omega", "gamma")

gigpo = Method(
    summary="N rollouts from the root, GRPO's advantage plus that among steps from the same state",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "std": Param("sample", "what a group is divided by", choices=("sample", "population", "none")),
        "over": Param(
            "steps", "what a rollout's statistics count: each step of it, or each rollout", choices=("steps", "rollouts")
        ),
        "anchor": Param(
            "text",
            "steps are compared that began with the same observation, one of ratio 0.95 or more, or the same state",
            choices=("text", "similar", "state"),
        ),
        "omega": Param(1.0, "weight of the advantage among steps", low=0.0),
        "gamma": Param(0.95, "discount per step of the returns that steps are compared by", low=0.0, high=1.0),
    },
    growth=growth,
    credit=lambda p: credit.per_task(partial(credit.gigpo, **{name: p[name] for name in RULE})),
    objective=lambda p: ppo_clip,
    citation="Feng et al. 2025, arXiv 2505.10978",
    known_from="released code",
    fidelity="full, with the released code's statistics (std over N - 1, rollouts counted once per step), no epsilon in the "
    "denominator; new here: anchor = state, tokens summed over a rollout",
    bias="biased: own returns in mean and std, and states that were met again tell of earlier actions",
    mechanism=lambda p: {
        "contrast": CONTRAST,
        "anchors": Mechanism("groups of steps from one state", partial(shared, p["anchor"])),
    },
)
