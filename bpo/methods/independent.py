"""Independent rollouts: every rollout starts at the root, and the others of its task are its baseline."""

from __future__ import annotations

from bpo import credit, select
from bpo.methods.record import Method, Parameters
from bpo.objective import ppo_clip
from bpo.param import Param
from bpo.rollout import Growth

RETURNS = "rollouts per task"


def growth(p: Parameters) -> Growth:
    """A root with one child for every rollout."""
    return Growth(select.RootOnly(), points=1, width=p["returns"], root=True)


rloo = Method(
    summary="N rollouts from the root, leave-one-out baseline",
    parameters={"returns": Param(13, RETURNS, low=2)},
    growth=growth,
    credit=lambda p: credit.per_task(credit.rloo),
    objective=lambda p: ppo_clip,
    citation="Ahmadian et al. 2024, arXiv 2402.14740",
    fidelity="full; the paper uses REINFORCE, which equals PPO-clip at one update per batch",
    bias="unbiased",
)
grpo = Method(
    summary="N rollouts from the root, advantage (R - mean) / population std",
    parameters={"returns": Param(8, RETURNS, low=2)},
    growth=growth,
    credit=lambda p: credit.per_task(credit.grpo),
    objective=lambda p: ppo_clip,
    citation="Shao et al. 2024, arXiv 2402.03300",
    fidelity="full for the advantage (BPO's Eq. 2); the loss sums over steps, no division by the response length",
    bias="biased: the own return is in mean and std",
)
drgrpo = Method(
    summary="GRPO without the division by the std",
    parameters={"returns": Param(8, RETURNS, low=2)},
    growth=growth,
    credit=lambda p: credit.per_task(credit.drgrpo),
    objective=lambda p: ppo_clip,
    citation="Liu et al. 2025, arXiv 2503.20783",
    fidelity="full",
    bias="biased by the constant factor (N-1)/N",
)
