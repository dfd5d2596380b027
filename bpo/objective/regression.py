"""Regression of log-ratios on returns: the policy moves until what it gained explains what was gained."""

from __future__ import annotations

from typing import Any

from bpo.objective.clipped import with_kl
from bpo.objective.record import Tokens


def rebel(tokens: Tokens, *, size: int, beta: float = 0.0, eta: float = 1.0) -> tuple[Any, dict[str, Any]]:
    """Mean over the pairs of a group of (d_i - d_j - eta * (R_i - R_j))^2, d the log-ratio of a rollout (arXiv 2404.16767).

    Groups are `size` rollouts of one task in order of drawing: 2 for pairs, all of the task's for the group form. The mean over
    all pairs of n is 2n/(n-1) times the variance of d - eta * R within the group, which is how it is taken; the advantage must
    be the return minus the group's mean. An exact minimum is the policy pi_old * exp(eta * R), a natural gradient step of
    size eta. While d = 0 the gradient is 4 eta n / (n-1) times that of `reinforce`. Biased. A group without spread is left out
    (new here). Fact: `moved`, tokens whose log-ratio is not 0.
    """
    import torch

    moved = tokens.values - tokens.old
    rollouts, which = torch.unique(tokens.rollout, return_inverse=True)
    rollout_of = which[tokens.owner]
    zeros = torch.zeros(len(rollouts), dtype=moved.dtype, device=moved.device)
    gained = zeros.index_add(0, rollout_of, moved)
    returns = zeros.index_copy(0, which, tokens.advantage)
    weight = zeros.index_copy(0, which, tokens.weight)
    groups, group = torch.unique(rollouts // size, return_inverse=True)

    def mean(values: Any) -> Any:
        return torch.zeros(len(groups), dtype=moved.dtype, device=moved.device).index_add(0, group, values) / size

    # Returns are centred, so that a rollout without free tokens, which is not here, changes nothing but a constant.
    spread = mean(gained**2) - mean(gained) ** 2 - 2 * eta * mean(returns * gained) + eta**2 * mean(returns**2)
    share = torch.zeros_like(spread).index_copy(0, group, weight) * size
    loss = (share * 2 * size / (size - 1) * spread).sum()
    facts = {"tokens": len(moved), "clipped": 0, "moved": (moved.detach() != 0).sum().item()}
    return with_kl(tokens, loss, facts, beta)
