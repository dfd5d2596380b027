"""Ratios of whole prefixes: what came before a token on its path is part of its importance weight."""

from __future__ import annotations

import math
from typing import Any

from bpo.objective.clipped import with_kl
from bpo.objective.record import Tensor, Tokens

# Largest log-ratio that is exponentiated.
LARGEST = 10.0


def ctpo(
    tokens: Tokens, *, beta: float = 0.0, low: float = 0.025, high: float = 0.05, power: float = 0.5
) -> tuple[Any, dict[str, Any]]:
    """PPO's loss on the ratio of all tokens up to this one, within bounds that grow with the token's place (arXiv 2605.07331).

    The log-ratio of the t-th token of a path, counted from 1 over its free tokens, is the sum of those up to it; the gradient
    is that ratio times the score of the token alone. Bounds of the log-ratio: -low * t^power and high * t^power; it is a random
    walk, and its spread grows like sqrt(t). Where A < 0 the loss is bounded at the upper ratio too (dual clip). Biased by the
    bounds; without them it is the gradient of the return under the new policy, for prefixes. Facts: `clipped`, `clipped_dual`.
    """
    values, owner = tokens.values, tokens.owner
    past, place = before(tokens)
    walked = (past + (values - tokens.old).detach()).clamp(max=LARGEST)
    log_ratio = walked + values - values.detach()
    width = place**power
    bounded = log_ratio.maximum(-low * width).minimum(high * width).exp()
    ratio, most, gain = log_ratio.exp(), (high * width).exp(), tokens.advantage[owner]
    surrogate = (ratio * gain).minimum(bounded * gain)
    at_bound = (gain < 0) & (surrogate < most * gain)
    facts = {
        "tokens": len(values),
        "clipped": ((bounded * gain) < (ratio * gain)).sum().item(),
        "clipped_dual": at_bound.sum().item(),
    }
    return with_kl(tokens, -(tokens.weight[owner] * surrogate.where(~at_bound, most * gain)).sum(), facts, beta)


def before(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """For every token [T] the sum of the log-ratios before it on its path, and its place there from 1, without gradients."""
    owner, parent = tokens.owner.tolist(), tokens.parent.tolist()
    moved = (tokens.values - tokens.old).detach().double().tolist()
    own: list[list[float]] = [[] for _ in parent]
    for edge, step in zip(owner, moved, strict=True):
        own[edge].append(step)
    ends: dict[int, tuple[float, int]] = {-1: (0.0, 0)}
    for edge in range(len(parent)):
        chain = []
        while edge not in ends:
            chain.append(edge)
            edge = parent[edge]
        for one in reversed(chain):
            total, count = ends[parent[one]]
            ends[one] = (math.fsum([total, *own[one]]), count + len(own[one]))
    at = [ends[edge] for edge in parent]
    past, place = [], []
    for edge, step in zip(owner, moved, strict=True):
        total, count = at[edge]
        past.append(total)
        place.append(count + 1.0)
        at[edge] = (total + step, count + 1)
    return tokens.values.new_tensor(past), tokens.values.new_tensor(place)
