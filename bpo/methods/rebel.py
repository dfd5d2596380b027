"""REBEL: log-ratios of whole rollouts are regressed on their returns, in pairs or in groups."""

from __future__ import annotations

from functools import partial

from bpo import credit
from bpo.errors import BadInput
from bpo.mechanism import CONTRAST, fact
from bpo.methods.independent import RETURNS, growth
from bpo.methods.record import Method, Parameters
from bpo.objective.regression import rebel as regression
from bpo.param import Param


def size(p: Parameters) -> int:
    """Rollouts that are compared with each other."""
    return 2 if p["form"] == "pairs" else p["returns"]


def check(p: Parameters) -> None:
    """BadInput where a rollout would have no partner."""
    if p["form"] == "pairs" and p["returns"] % 2:
        raise BadInput(f"returns is {p['returns']}; for form = pairs it must be even")


rebel = Method(
    summary="N rollouts from the root, log-ratios regressed on returns",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "form": Param("group", "which rollouts are compared: two and two, or all of the task", choices=("pairs", "group")),
        "eta": Param(1.0, "log-ratio per unit of return: the size of a natural gradient step", low=0.0),
    },
    growth=growth,
    credit=lambda p: credit.per_task(partial(credit.within, size=size(p))),
    objective=lambda p: partial(regression, size=size(p), eta=p["eta"]),
    citation="Gao et al. 2024, arXiv 2404.16767",
    known_from="released code",
    equals={"drgrpo": "4 eta N/(N-1): the derivative of the squared error where no log-ratio has moved"},
    fidelity="pairs in full; new here: all pairs of a group, as the variance of log-ratio minus eta times return; a group "
    "without spread is left out; the KL is the run's",
    bias="biased: one step is a multiple of Dr.GRPO's, several regress on the returns that were drawn",
    check=check,
    mechanism=lambda p: {"contrast": CONTRAST, "moved": fact("moved", "tokens whose log-ratio was not 0")},
)
