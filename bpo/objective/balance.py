"""Trajectory balance: the policy is fitted to the reference times exp(alpha R), with a log-partition per task."""

from __future__ import annotations

from typing import Any

from bpo.objective.clipped import k3
from bpo.objective.record import Tokens, against_reference


@against_reference
def balance(tokens: Tokens, *, log_z: Any = None, alpha: float = 15.0, mean: bool = False) -> tuple[Any, dict[str, Any]]:
    """Weighted mean over rollouts of w (log Z + log pi(y) - alpha R - log pi_ref(y))^2 (FlowRL, arXiv 2509.15207).

    log pi(y) is the sum over the free tokens of a rollout, or their mean, as in FlowRL's code; with the sum the square is 0 for
    every rollout exactly where pi = pi_ref exp(alpha R) / Z. R is the advantage of the credit rule. w is the ratio of the whole
    rollout, without a gradient. `log_z` [trees]: log-partition of every tree of the update, with a gradient where it is
    learned; 0 where it is left out. Without a reference the policy that acted stands for it. Biased for grad J: another optimum
    is sought. Facts: `log_z`, sum over rollouts of |log Z|, and `moved`, tokens whose log-ratio is not 0.
    """
    import torch

    reference = tokens.old if tokens.reference is None else tokens.reference
    rollouts, which = torch.unique(tokens.rollout, return_inverse=True)
    zeros = torch.zeros(len(rollouts), dtype=tokens.values.dtype, device=tokens.values.device)
    place = which[tokens.owner]
    count = zeros.index_add(0, place, torch.ones_like(tokens.values.detach())) if mean else torch.ones_like(zeros)
    gained = zeros.index_add(0, place, tokens.values - reference) / count
    ratio = zeros.index_add(0, place, (tokens.values - tokens.old).detach()).exp()
    returns, weight = zeros.index_copy(0, which, tokens.advantage), zeros.index_copy(0, which, tokens.weight)
    tree = torch.zeros_like(rollouts).index_copy(0, which, tokens.tree)
    normaliser = zeros if log_z is None else log_z.to(zeros)[tree]
    loss = (weight * ratio * (normaliser + gained - alpha * returns) ** 2).sum()
    facts = {
        "tokens": len(tokens.values),
        "clipped": 0,
        "approx_kl": k3(tokens.old, tokens.values.detach()).sum().item(),
        "log_z": normaliser.detach().abs().sum().item(),
        "moved": (tokens.values.detach() != tokens.old).sum().item(),
    }
    return loss, facts
