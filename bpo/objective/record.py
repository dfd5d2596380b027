"""What an objective is: a pure function from all tokens of a batch to a number, a *sum* over tokens and edges.

Each takes `Tokens` and, by name, the settings that it reads (`clip`, `beta`), and returns (loss, facts). The loss is the sum
over edges of weight times the edge's loss; the caller divides by the number of trees, a constant. Dividing by the realised
number of tokens or leaves would bias the gradient (theory.md, B7). Facts are sums over tokens: `tokens`, `clipped` and others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakSet

# Array or tensor; this module needs no torch of its own.
Tensor = Any
Loss = Callable[..., tuple[Any, dict[str, Any]]]
# Losses that declared it; a wrapper inherits nothing but by `partial`.
_BY_TOKEN: WeakSet[Loss] = WeakSet()
_AGAINST_REFERENCE: WeakSet[Loss] = WeakSet()


@dataclass(frozen=True)
class Tokens:
    """The free tokens of some edges, in order of the edges and of the tokens within them.

    values             float [T]  log-probs under the policy being trained (carries the gradient)
    old                float [T]  log-probs under the policy that acted
    reference          float [T]  log-probs under the frozen reference, or None
    owner              int64 [T]  the edge each token belongs to
    advantage, weight  float [E]  from the credit rule; edges without a signal (see `bpo.credit`) are left out
    parent             int64 [E]  the nearest edge before it on its path that is here; -1 where none is
    rollout            int64 [E]  the rollout that drew it first, a path from the fork that began it to its leaf: counted over
                                  the trained ones of all trees of the update, in order of drawing
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


def each_token(loss: Loss) -> Loss:
    """Decorator: every token's part of this loss needs that token alone, so it is taken memory batch by memory batch."""
    _BY_TOKEN.add(loss)
    return loss


def by_token(loss: Loss) -> bool:
    """Whether a loss, or a partial of it, declared that every token's part needs that token alone."""
    while isinstance(loss, partial):
        loss = loss.func
    return loss in _BY_TOKEN


def against_reference(loss: Loss) -> Loss:
    """Decorator: this loss compares with the initial policy, whatever the weight of the KL term."""
    _AGAINST_REFERENCE.add(loss)
    return loss


def needs_reference(loss: Loss) -> bool:
    """Whether a loss, or a partial of it, declared that it compares with the initial policy."""
    while isinstance(loss, partial):
        loss = loss.func
    return loss in _AGAINST_REFERENCE
