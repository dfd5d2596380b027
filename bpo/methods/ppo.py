"""PPO with a critic: a value head on the policy's own model, generalised advantages, clipped policy and value losses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bpo import credit
from bpo.mechanism import CONTRAST, fact
from bpo.methods.independent import RETURNS, TOKENS, growth
from bpo.methods.record import Method, Parameters
from bpo.objective import ppo_clip
from bpo.param import Param
from bpo.rollout import Planned

if TYPE_CHECKING:
    from bpo.credit import CreditRule
    from bpo.critic import Critic

CRITIC = {
    "gamma": Param(1.0, "discount per action", low=0.0, high=1.0),
    "lam": Param(0.95, "how far an advantage trusts returns over the critic: 0, one action; 1, to the end", low=0.0, high=1.0),
    "value_weight": Param(0.5, "factor of the critic's loss beside the policy's", low=0.0),
    "value_clip": Param(0.2, "how far from its old value the critic's may go and still lower its loss", low=0.0),
    "whiten": Param(True, "whether advantages are shifted and scaled to mean 0 and std 1 over the update's tokens, by weight"),
}
LEARNS = fact("auxiliary", "loss of the critic")


def critic(growth: Planned, gamma: float, lam: float, clip: float, weight: float) -> Critic:
    """A memory with a value head; torch is imported when it is made."""
    from bpo.critic import Critic

    return Critic(growth.selector, gamma=gamma, lam=lam, clip=clip, weight=weight)


def memory(p: Parameters) -> partial:
    """What makes the critic that the parameters say."""
    return partial(critic, gamma=p["gamma"], lam=p["lam"], clip=p["value_clip"], weight=p["value_weight"])


def generalised(p: Parameters) -> CreditRule:
    """Advantages over the critic's values, whitened where the parameters say so."""
    rule = partial(credit.gae, gamma=p["gamma"], lam=p["lam"])
    return credit.whitened(rule) if p["whiten"] else rule


ppo = Method(
    summary="N rollouts from the root, generalised advantages over a value head on the same model",
    parameters={"returns": Param(8, RETURNS, low=2), **CRITIC, "tokens": TOKENS},
    growth=growth,
    credit=lambda p: credit.WEIGHINGS[p["tokens"]](generalised(p)),
    objective=lambda p: ppo_clip,
    citation="Schulman et al. 2017, arXiv 1707.06347; advantages: arXiv 1506.02438",
    known_from="released code",
    fidelity="policy clip, value clip, whitening and generalised advantages in full; new here: a step is one action, so values "
    "stand at its beginning; head and model learn at one rate; tokens = sum by default; the KL is in the loss",
    bias="biased: the critic has errors, and own returns are in mean and std; without a critic's help (V = 0) by whitening "
    "alone at lam = gamma = 1",
    memory=memory,
    mechanism=lambda p: {"contrast": CONTRAST, "clip": fact("clipped", "tokens that the clip stopped"), "critic": LEARNS},
)
