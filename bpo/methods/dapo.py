"""DAPO: GRPO with a wider clip upwards, a mean over all tokens, and tasks without contrast replaced by others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from bpo import credit
from bpo.mechanism import CONTRAST, REPLACED, Mechanism, fact
from bpo.methods.independent import RETURNS, STD, TOKENS, normalised
from bpo.methods.independent import growth as rollouts
from bpo.methods.record import Method, Parameters
from bpo.objective import Loss, ppo_clip
from bpo.param import Param
from bpo.plan import ContrastPlan
from bpo.rollout import OwnPlan, Planned

CLIPPED = fact("clipped_high", "tokens that the upper bound stopped")
DUAL = fact("clipped_dual", "tokens that the dual bound stopped")


def growth(p: Parameters) -> Planned:
    """Rollouts from the root; a task whose rollouts end alike is replaced by a spare one."""
    plain = rollouts(p)
    if not p["resample"]:
        return plain
    return OwnPlan(partial(ContrastPlan, plain), plain.planned_returns, causal=True, branches=False, selector=plain.selector)


def objective(p: Parameters) -> Loss:
    """PPO's clip with the upper range, and the dual bound where there is one."""
    more = {} if p["dual"] is None else {"dual": p["dual"]}
    return partial(ppo_clip, high=p["clip_high"], **more)


def mechanism(p: Parameters) -> Mapping[str, Mechanism]:
    """The upper bound, the flat tasks, the dual bound where there is one."""
    found = {"contrast": CONTRAST, "clip_high": CLIPPED}
    found |= {"replaced": REPLACED} if p["resample"] else {}
    return found if p["dual"] is None else {**found, "dual": DUAL}


dapo = Method(
    summary="GRPO with clip-higher, a mean over the update's tokens, and flat tasks replaced",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "std": STD,
        "tokens": replace(TOKENS, default="batch"),
        "clip_high": Param(0.28, "clip range upwards; downwards it is the run's", low=0.0),
        "dual": Param(None, "bound of the loss of a token with A < 0, times |A|; unset: none", low=1.0, kind=float),
        "resample": Param(True, "whether a task whose returns are all equal is replaced by another one"),
    },
    growth=growth,
    credit=lambda p: credit.WEIGHINGS[p["tokens"]](credit.per_task(normalised(p))),
    objective=objective,
    citation="Yu et al. 2025, arXiv 2503.14476; dual clip: Ye et al. 2020, arXiv 1912.09729",
    known_from="released code",
    equals={"grpo": "N T / tokens, of T tasks: the mean over all tokens is one factor within an update"},
    fidelity="clip-higher, token mean and replaced flat tasks in full; no soft penalty for length, since limits belong to the "
    "sandbox; new here: the token mean is over the update, not over a mini-batch, and the spare tasks of an update are limited",
    bias="biased: as GRPO, divided by the realised number of tokens, and flat tasks are left out, also of the logged success",
    mechanism=mechanism,
)
