"""Trust regions that are not a bound of a token's ratio: of whole prefixes (CTPO), of probabilities (DPPO)."""

from __future__ import annotations

from functools import partial

from bpo import credit
from bpo.mechanism import CONTRAST, fact
from bpo.methods.independent import CAP, RETURNS, STD, TOKENS, growth, normalised
from bpo.methods.record import Method, Parameters
from bpo.objective import Loss
from bpo.objective import ctpo as cumulative
from bpo.objective import dppo as divergence
from bpo.objective.divergence import DIVERGENCES
from bpo.param import Param


def bounded(p: Parameters) -> Loss:
    """DPPO's loss with the chosen divergence; its bound is the released one unless it is set."""
    return partial(divergence, divergence=p["divergence"], bound=p["bound"])


ctpo = Method(
    summary="GRPO's advantage, ratios of whole prefixes within bounds that grow with sqrt(t)",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "std": STD,
        "tokens": TOKENS,
        "low": Param(0.025, "bound of the log-ratio downwards at the first token", low=0.0),
        "high": Param(0.05, "bound of the log-ratio upwards at the first token", low=0.0),
        "power": Param(0.5, "power of the token's place that the bounds grow with", low=-1.0, high=1.0),
    },
    growth=growth,
    credit=lambda p: credit.WEIGHINGS[p["tokens"]](credit.per_task(normalised(p))),
    objective=lambda p: partial(cumulative, low=p["low"], high=p["high"], power=p["power"]),
    citation="CTPO 2026, arXiv 2605.07331",
    known_from="released code and a digest",
    equals={"grpo": "1: the same advantage, and no ratio has moved"},
    fidelity="loss in full, dual clip included; the KL is the run's; new here: tokens = sum by default, places are counted "
    "over tokens that left a choice",
    bias="biased: as GRPO, and by the bounds once the policy has moved",
    mechanism=lambda p: {"contrast": CONTRAST, "clip": fact("clipped", "tokens that a bound of the prefix stopped")},
)
dppo = Method(
    summary="Dr.GRPO's advantage, tokens left out once their probability has moved too far",
    parameters={
        "returns": Param(8, RETURNS, low=2),
        "divergence": Param(
            "tv", "what is bounded: total variation or KL, of this token against the rest", choices=DIVERGENCES
        ),
        "bound": Param(None, "largest divergence; unset: 0.15 for tv, 0.05 for kl", low=0.0, kind=float),
        "cap": CAP,
    },
    growth=growth,
    credit=lambda p: credit.by_cap(credit.per_task(credit.drgrpo), p["cap"]),
    objective=bounded,
    citation="DPPO 2026, arXiv 2602.04879",
    known_from="released code",
    equals={"drgrpo": "1: the same advantage, and no probability has moved"},
    fidelity="loss of the binary forms in full, without the form over the top K tokens; the KL is the run's",
    bias="biased by the constant factor (N-1)/N, and by tokens left out once the policy has moved",
    mechanism=lambda p: {"contrast": CONTRAST, "left_out": fact("clipped", "tokens that had moved too far")},
)
