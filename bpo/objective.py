"""How the policy moves: one pure function per loss, all with the same signature, all a *sum* over tokens and edges.

    values    float [T]  log-probs of the free tokens under the policy being trained (carries the gradient)
    old       float [T]  log-probs under the policy that acted
    reference float [T]  log-probs under the frozen reference, or None
    owner     int64 [T]  the edge each token belongs to
    advantage, weight  [E]  from the credit rule, as tensors; edges without a signal (see credit.py) are left out

Each returns (loss, facts). The loss is sum over edges of weight times the edge's loss; the caller divides by the number of
trees, a constant. Dividing by the realised number of tokens or leaves would bias the gradient (theory.md, B7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Loss = Callable[..., tuple[Any, dict[str, Any]]]


def reinforce(values, old, reference, owner, advantage, weight) -> tuple[Any, dict[str, Any]]:
    """Score-function loss -weight * advantage * log-prob (Williams 1992). Unbiased when the credit rule is."""
    loss = -(weight[owner] * advantage[owner] * values).sum()
    return loss, {}


def ppo_clip(
    values, old, reference, owner, advantage, weight, *, clip: float = 0.2, beta: float = 0.0
) -> tuple[Any, dict[str, Any]]:
    """PPO's clipped surrogate with token-level ratios (arXiv 1707.06347) plus beta times k3, an estimate of the KL.

    BPO's Eq. 5 uses a whole-action ratio; a product over many tokens is very peaky, so ratios are by token (new here). The
    gradient is that of `reinforce` while every ratio is 1 and beta is 0; with an active clip or a KL term it is biased.
    Facts: sums over tokens of `clipped`, `kl` and `tokens`.
    """
    ratio = (values - old).exp()
    bounded = ratio.clamp(1 - clip, 1 + clip)
    gain = advantage[owner]
    surrogate = (ratio * gain).minimum(bounded * gain)
    facts = {
        "clipped": ((bounded * gain) < (ratio * gain)).sum().item(),
        "tokens": len(values),
        "approx_kl": k3(old, values.detach()).sum().item(),
    }
    loss = -(weight[owner] * surrogate).sum()
    if beta > 0:
        kl = k3(values, reference)
        loss = loss + beta * (weight[owner] * kl).sum()
        facts["kl"] = kl.detach().sum().item()
    return loss, facts


def k3(values, reference):
    """Non-negative estimate of KL(policy || reference) per token: exp(d) - d - 1 with d = reference - values.

    float64 [T], whatever the log-probs are: neither a difference of 1e-4 (5e-9) nor one of 89 (6e38) is lost in float32. Beyond
    d = 709 it is inf, which training refuses. As a value it is unbiased for tokens of the policy (Schulman 2020, k3). Its
    gradient is not that of this KL: it is (1 - exp(d)) times that of the log-prob, in expectation the gradient of
    KL(reference || policy).
    """
    d = reference.double() - values.double()
    return d.expm1() - d


OBJECTIVES: dict[str, Loss] = {"reinforce": reinforce, "ppo_clip": ppo_clip}
