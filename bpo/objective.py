"""How the policy moves: one pure function per loss, from all tokens of a batch to a number, all a *sum* over tokens and edges.

Each takes `Tokens` and, by name, the settings that it reads (`clip`, `beta`), and returns (loss, facts). The loss is the sum
over edges of weight times the edge's loss; the caller divides by the number of trees, a constant. Dividing by the realised
number of tokens or leaves would bias the gradient (theory.md, B7). Facts are sums over tokens: `tokens`, `clipped` and others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

# Array or tensor; this module needs no torch of its own.
Tensor = Any
Loss = Callable[..., tuple[Any, dict[str, Any]]]


@dataclass(frozen=True)
class Tokens:
    """The free tokens of some edges, in order of the edges and of the tokens within them.

    values             float [T]  log-probs under the policy being trained (carries the gradient)
    old                float [T]  log-probs under the policy that acted
    reference          float [T]  log-probs under the frozen reference, or None
    owner              int64 [T]  the edge each token belongs to
    advantage, weight  float [E]  from the credit rule; edges without a signal (see credit.py) are left out
    parent             int64 [E]  the edge before it on its path; -1 where none is here
    rollout            int64 [E]  the rollout that drew it first: a path from the fork that began it to its leaf
    tree               int64 [E]  the tree it belongs to
    """

    values: Tensor
    old: Tensor
    reference: Tensor | None
    owner: Tensor
    advantage: Tensor
    weight: Tensor
    parent: Tensor
    rollout: Tensor
    tree: Tensor


def reinforce(tokens: Tokens) -> tuple[Any, dict[str, Any]]:
    """Score-function loss -weight * advantage * log-prob (Williams 1992). Unbiased when the credit rule is."""
    owner = tokens.owner
    loss = -(tokens.weight[owner] * tokens.advantage[owner] * tokens.values).sum()
    return loss, {"tokens": len(tokens.values), "clipped": 0}


def ppo_clip(tokens: Tokens, *, clip: float = 0.2, beta: float = 0.0) -> tuple[Any, dict[str, Any]]:
    """PPO's clipped surrogate with token-level ratios (arXiv 1707.06347) plus beta times k3, an estimate of the KL.

    BPO's Eq. 5 uses a whole-action ratio; a product over many tokens is very peaky, so ratios are by token (new here). The
    gradient is that of `reinforce` while every ratio is 1 and beta is 0; with an active clip or a KL term it is biased.
    Further facts: `approx_kl` to the policy that acted, `kl` to the reference.
    """
    values, old, owner, weight = tokens.values, tokens.old, tokens.owner, tokens.weight
    ratio = (values - old).exp()
    bounded = ratio.clamp(1 - clip, 1 + clip)
    gain = tokens.advantage[owner]
    surrogate = (ratio * gain).minimum(bounded * gain)
    facts = {
        "clipped": ((bounded * gain) < (ratio * gain)).sum().item(),
        "tokens": len(values),
        "approx_kl": k3(old, values.detach()).sum().item(),
    }
    loss = -(weight[owner] * surrogate).sum()
    if beta > 0:
        kl = k3(values, tokens.reference)
        loss = loss + beta * (weight[owner] * kl).sum()
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


# Losses in which every token's part needs that token alone: they can be taken memory batch by memory batch, in one pass.
_BY_TOKEN = frozenset({reinforce, ppo_clip})


def by_token(loss: Loss) -> bool:
    """Whether a loss is a sum in which every token's part needs that token alone."""
    while isinstance(loss, partial):
        loss = loss.func
    return loss in _BY_TOKEN


OBJECTIVES: dict[str, Loss] = {"reinforce": reinforce, "ppo_clip": ppo_clip}
