"""Independent rollouts: every rollout starts at the root, and the others of its task are its baseline."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bpo import credit, select
from bpo.credit import CreditRule
from bpo.methods.record import Method, Parameters
from bpo.objective import ppo_clip
from bpo.param import Param
from bpo.rollout import Growth

RETURNS = "rollouts per task"
STD = Param("population", "std of a group: over N (the papers) or N - 1 (most code)", choices=("population", "sample"))
TOKENS = Param(
    "sum",
    "weight of a token: its rollout's (sum), divided by the rollout's tokens (rollout), one over all of the update's (batch)",
    choices=credit.WEIGHINGS,
)
CAP = Param(1, "constant that a rollout's token sum is divided by, such as the generation limit", low=1, later=True)


def growth(p: Parameters) -> Growth:
    """A root with one child for every rollout."""
    return Growth(select.RootOnly(), points=1, width=p["returns"], root=True)


def normalised(p: Parameters) -> CreditRule:
    """GRPO's advantage with the standard deviation that the parameters name."""
    return credit.grpo if p["std"] == STD.default else partial(credit.grpo, std=p["std"])


rloo = Method(
    summary="N rollouts from the root, leave-one-out baseline",
    parameters={"returns": Param(13, RETURNS, low=2)},
    growth=growth,
    credit=lambda p: credit.per_task(credit.rloo),
    objective=lambda p: ppo_clip,
    citation="Ahmadian et al. 2024, arXiv 2402.14740",
    known_from="released code",
    equals={"bpo_split": "1: trees that branch at the root alone are a split there"},
    fidelity="full; the paper uses REINFORCE, which equals PPO-clip at one update per batch",
    bias="unbiased",
)
grpo = Method(
    summary="N rollouts from the root, advantage (R - mean) / population std",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "std": replace(STD, later=True),
        "tokens": replace(TOKENS, later=True),
    },
    growth=growth,
    credit=lambda p: credit.WEIGHINGS[p["tokens"]](credit.per_task(normalised(p))),
    objective=lambda p: ppo_clip,
    citation="Shao et al. 2024, arXiv 2402.03300",
    known_from="released code",
    fidelity="full for the advantage (BPO's Eq. 2); the loss sums over steps, tokens = rollout divides by the response length",
    bias="biased: the own return is in mean and std",
)
drgrpo = Method(
    summary="GRPO without the division by the std",
    parameters={"returns": Param(8, RETURNS, low=2), "cap": CAP},
    growth=growth,
    credit=lambda p: credit.by_cap(credit.per_task(credit.drgrpo), p["cap"]),
    objective=lambda p: ppo_clip,
    citation="Liu et al. 2025, arXiv 2503.20783",
    known_from="released code",
    equals={"rloo": "(N-1)/N: the own return is in the mean"},
    fidelity="full; the token sum is over a constant, 1 unless cap is set to the generation limit",
    bias="biased by the constant factor (N-1)/N",
)
