"""FlowRL and DISA: the policy is fitted to reference times exp(alpha R), with a learned or a frozen log-partition."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bpo import credit
from bpo.mechanism import CONTRAST, Mechanism, Seen, fact
from bpo.methods.independent import RETURNS, STD, normalised
from bpo.methods.independent import growth as rollouts
from bpo.methods.record import Method, Parameters
from bpo.objective.balance import balance
from bpo.param import Param
from bpo.plan import AnchorPlan
from bpo.rollout import OwnPlan, Planned
from bpo.tree import ROOT

if TYPE_CHECKING:
    from bpo.partition import FrozenPartition, LearnedPartition

INEXACT = "its loss is the square of a whole rollout's residual, not an advantage per edge"


def learned(growth: Planned) -> LearnedPartition:
    """A memory with a head for log Z; torch is imported when it is made."""
    from bpo.partition import LearnedPartition

    return LearnedPartition(growth.selector)


def frozen(growth: Planned, alpha: float) -> FrozenPartition:
    """A memory with a log Z per task; torch is imported when it is made."""
    from bpo.partition import FrozenPartition

    return FrozenPartition(growth.selector, alpha)


def anchoring(p: Parameters) -> OwnPlan:
    """Rollouts from the root, with auxiliary ones beside them when a task is first met."""
    plain = rollouts(p)
    plan = partial(AnchorPlan, plain, p["draws"])
    return OwnPlan(plan, plain.planned_returns, causal=True, branches=False, selector=plain.selector)


def anchored(seen: Seen) -> float:
    """Trees with auxiliary rollouts from the root."""
    return sum(bool(tree.auxiliary_children[ROOT]) for tree in seen.trees)


flowrl = Method(
    summary="N rollouts from the root, policy fitted to reference times exp(alpha R) with a learned log-partition",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "std": STD,
        "alpha": Param(15.0, "inverse temperature of the target, per normalised return", low=0.0),
        "mean": Param(True, "whether log-probabilities of a rollout are averaged over its tokens, or summed"),
    },
    growth=rollouts,
    credit=lambda p: credit.per_task(normalised(p)),
    objective=lambda p: partial(balance, alpha=p["alpha"], mean=p["mean"]),
    citation="Zhu et al. 2025, arXiv 2509.15207",
    known_from="released code",
    fidelity="loss in full, with the code's unclipped weight; new here: one linear layer for log Z on the policy's features "
    "in place of three, and tasks whose returns are all equal are left out",
    bias="biased: it seeks the policy proportional to reference times exp(alpha R), not the largest return",
    memory=lambda p: learned,
    mechanism=lambda p: {"contrast": CONTRAST, "log_z": fact("log_z", "sum of |log Z| that was learned")},
    inexact=INEXACT,
)
disa = Method(
    summary="as flowrl with the return itself and a log-partition that is estimated once per task and frozen",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "draws": Param(16, "auxiliary rollouts that log Z of a task is estimated from", low=1),
        "alpha": Param(15.0, "inverse temperature of the target, per unit of return", low=0.0),
        "mean": Param(False, "whether log-probabilities of a rollout are averaged over its tokens, or summed"),
    },
    growth=anchoring,
    credit=lambda p: credit.per_task(credit.raw),
    objective=lambda p: partial(balance, alpha=p["alpha"], mean=p["mean"]),
    citation="DISA 2026, arXiv 2605.17295",
    known_from="abstract",
    fidelity="frozen importance-sampled log-partition, squared error as flowrl's; new here: a task's draws come from the "
    "policy that first meets it, no regression over tasks, sums over tokens",
    bias="biased: it seeks the policy proportional to reference times exp(alpha R), not the largest return",
    memory=lambda p: partial(frozen, alpha=p["alpha"]),
    mechanism=lambda p: {
        "contrast": CONTRAST,
        "anchored": Mechanism("tasks whose log Z was estimated and frozen", anchored),
        "log_z": fact("log_z", "sum of |log Z|"),
    },
    inexact=INEXACT,
)
