"""How the policy moves: one pure function per loss (see `record`), and the table of those that a configuration can name."""

from bpo.objective.clipped import k3, ppo_clip, reinforce
from bpo.objective.cumulative import ctpo
from bpo.objective.divergence import dppo
from bpo.objective.record import Loss, Tensor, Tokens, against_reference, by_token, each_token, needs_reference

OBJECTIVES: dict[str, Loss] = {"reinforce": reinforce, "ppo_clip": ppo_clip, "ctpo": ctpo, "dppo": dppo}

__all__ = [
    "OBJECTIVES",
    "Loss",
    "Tensor",
    "Tokens",
    "against_reference",
    "by_token",
    "ctpo",
    "dppo",
    "each_token",
    "k3",
    "needs_reference",
    "ppo_clip",
    "reinforce",
]
