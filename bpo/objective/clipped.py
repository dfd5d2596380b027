"""The score-function loss and PPO's clipped surrogate, with the options that later methods gave it."""

from __future__ import annotations

from typing import Any

from bpo.objective.record import Tensor, Tokens, each_token


@each_token
def reinforce(tokens: Tokens) -> tuple[Any, dict[str, Any]]:
    """Score-function loss -weight * advantage * log-prob (Williams 1992). Unbiased when the credit rule is."""
    owner = tokens.owner
    loss = -(tokens.weight[owner] * tokens.advantage[owner] * tokens.values).sum()
    return loss, {"tokens": len(tokens.values), "clipped": 0}


@each_token
def ppo_clip(
    tokens: Tokens, *, clip: float = 0.2, beta: float = 0.0, high: float | None = None, dual: float | None = None
) -> tuple[Any, dict[str, Any]]:
    """PPO's clipped surrogate with token-level ratios (arXiv 1707.06347) plus beta times k3, an estimate of the KL.

    BPO's Eq. 5 uses a whole-action ratio; a product over many tokens is very peaky, so ratios are by token (new here). The
    gradient is that of `reinforce` while every ratio is 1 and beta is 0; with an active clip or a KL term it is biased.
    `high` is the range upwards where it is another one than `clip` (clip-higher, arXiv 2503.14476). `dual` > 1 bounds the loss
    of a token with A < 0 by -dual * A (dual clip, arXiv 1912.09729). Further facts: `approx_kl` to the policy that acted, `kl`
    to the reference, `clipped_high` and `clipped_dual`, tokens at these two bounds.
    """
    values, old, owner, weight = tokens.values, tokens.old, tokens.owner, tokens.weight
    ratio = (values - old).exp()
    bounded = ratio.clamp(1 - clip, 1 + (clip if high is None else high))
    gain = tokens.advantage[owner]
    surrogate = (ratio * gain).minimum(bounded * gain)
    facts = {
        "clipped": ((bounded * gain) < (ratio * gain)).sum().item(),
        "tokens": len(values),
    }
    if high is not None:
        facts["clipped_high"] = ((bounded < ratio) & (gain > 0)).sum().item()
    if dual is not None:
        at_bound = (gain < 0) & (surrogate < dual * gain)
        facts["clipped_dual"] = at_bound.sum().item()
        surrogate = surrogate.where(~at_bound, dual * gain)
    return with_kl(tokens, -(weight[owner] * surrogate).sum(), facts, beta)


def with_kl(tokens: Tokens, loss: Any, facts: dict[str, Any], beta: float) -> tuple[Any, dict[str, Any]]:
    """The loss plus beta times the weighted `k3` to the reference, and the facts with `approx_kl` and `kl`."""
    facts = {**facts, "approx_kl": k3(tokens.old, tokens.values.detach()).sum().item()}
    if beta > 0:
        kl = k3(tokens.values, tokens.reference)
        loss = loss + beta * (tokens.weight[tokens.owner] * kl).sum()
        facts["kl"] = kl.detach().sum().item()
    return loss, facts


def k3(values: Tensor, reference: Tensor) -> Tensor:
    """Non-negative estimate of KL(policy || reference) per token: exp(d) - d - 1 with d = reference - values.

    float64 [T], whatever the log-probs are: neither a difference of 1e-4 (5e-9) nor one of 89 (6e38) is lost in float32. Beyond
    d = 709 it is inf, which training refuses. As a value it is unbiased for tokens of the policy (Schulman 2020, k3). Its
    gradient is not that of this KL: it is (1 - exp(d)) times that of the log-prob, in expectation the gradient of
    KL(reference || policy).
    """
    d = reference.double() - values.double()
    return d.expm1() - d
