"""VinePPO: no critic; the value of a state is the mean return of rollouts that start there and are not trained on."""

from __future__ import annotations

from functools import partial

from bpo import credit
from bpo.mechanism import CONTRAST, VALUES
from bpo.methods.independent import RETURNS
from bpo.methods.independent import growth as rollouts
from bpo.methods.record import Method, Parameters
from bpo.objective import ppo_clip
from bpo.param import Param
from bpo.plan import ValuePlan
from bpo.rollout import OwnPlan


def growth(p: Parameters) -> OwnPlan:
    """Rollouts from the root, and auxiliary ones from the states on them."""
    plain = rollouts(p)
    plan = partial(ValuePlan, plain, p["values"], p["every"])
    return OwnPlan(plan, plain.planned_returns, causal=True, branches=False, selector=plain.selector)


vineppo = Method(
    summary="N rollouts from the root, values of their states from K further rollouts each, which are not trained on",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "values": Param(9, "auxiliary rollouts per state (K)", low=1),
        "every": Param(1, "steps from one state with a value to the next; steps between share one advantage", low=1),
    },
    growth=growth,
    credit=lambda p: credit.per_task(credit.vineppo),
    objective=lambda p: ppo_clip,
    citation="Kazemnejad et al. 2024, arXiv 2410.01679",
    known_from="released code",
    fidelity="full at every = 1, a step being one action; new here: every > 1, and no whitening of advantages",
    bias="unbiased",
    mechanism=lambda p: {"contrast": CONTRAST, "values": VALUES},
)
