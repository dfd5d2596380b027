"""From trees to a gradient: flatten the edges, weigh them by their credit, call the objective, go backwards."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bpo.credit import Credit, CreditRule
from bpo.objective import OBJECTIVES, Loss
from bpo.policy import Policy
from bpo.tree import ROOT, Tree, edges


@dataclass(frozen=True)
class Batch:
    """The edges of an update that can carry gradient.

    steps      (context, decision) per edge
    old        log-probs of the free tokens at sampling time, one array per edge
    advantage, weight   float64 [E]
    trees      number of trees: the constant that the loss is divided by
    """

    steps: list[tuple[Any, Any]]
    old: list[np.ndarray]
    advantage: np.ndarray
    weight: np.ndarray
    trees: int


def credits_by_task(trees: Sequence[Tree], rule: CreditRule, running: float | None) -> list[Credit]:
    """Apply the rule to the trees of each task in turn; one Credit per tree, in the order of `trees`."""
    grouped = itertools.groupby(trees, key=lambda tree: tree.task)
    return [credit for _, group in grouped for credit in rule(list(group), running)]


def make_batch(trees: Sequence[Tree], credits: Sequence[Credit]) -> Batch:
    """Keep the edges with a signal and a free token; the others have no gradient whatever the objective."""
    keep = []
    for t, node in edges(trees):
        step = trees[t].steps[node]
        if credits[t].has_signal[node] and credits[t].weight[node] > 0 and step.decision.free:
            keep.append((step, credits[t].advantage[node], credits[t].weight[node]))
    return Batch(
        steps=[(step.context, step.decision) for step, _, _ in keep],
        old=[np.array([step.decision.log_probs[i] for i in step.decision.free]) for step, _, _ in keep],
        advantage=np.array([advantage for _, advantage, _ in keep]),
        weight=np.array([weight for _, _, weight in keep]),
        trees=len(trees),
    )


def backward(
    policy: Policy, reference: Policy | None, batch: Batch, objective: str | Loss, options: dict[str, Any]
) -> dict[str, float]:
    """Accumulate the gradient of the batch's loss in the policy's parameters; returns sums over tokens (see objective.py)."""
    loss_of = OBJECTIVES[objective] if isinstance(objective, str) else objective
    facts: dict[str, float] = {"loss": 0.0, "tokens": 0.0, "clipped": 0.0, "approx_kl": 0.0, "kl": 0.0}
    for indices in policy.batches(batch.steps) if batch.steps else []:
        steps = [batch.steps[i] for i in indices]
        values, owner = policy.logprob(steps)
        old = torch.as_tensor(np.concatenate([batch.old[i] for i in indices])).to(values)
        anchor = None
        if reference is not None:
            with torch.no_grad():
                anchor = reference.logprob(steps)[0]
        advantage, weight = (torch.as_tensor(array[indices]).to(values) for array in (batch.advantage, batch.weight))
        loss, more = loss_of(values, old, anchor, owner, advantage, weight, **options)
        loss = loss / batch.trees
        loss.backward()
        for name, value in {"loss": loss.item(), **more}.items():
            facts[name] += value
    return facts


def zero_grad(policy: Policy) -> None:
    """Forget accumulated gradients."""
    for parameter in policy.parameters():
        parameter.grad = None


def grad_norm(policy: Policy) -> float:
    """Euclidean norm of the accumulated gradient, before any clipping."""
    squares = [p.grad.detach().double().square().sum() for p in policy.parameters() if p.grad is not None]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def flat_grad(policy: Policy) -> np.ndarray:
    """Float [P], the accumulated gradient of all parameters in their order, 0 where there is none."""
    parts = [(torch.zeros_like(p) if p.grad is None else p.grad).detach() for p in policy.parameters()]
    # numpy has no bfloat16.
    return np.concatenate([part.to(torch.promote_types(part.dtype, torch.float32)).cpu().numpy().ravel() for part in parts])


def root_return(tree: Tree, causal: bool) -> float:
    """An unbiased estimate of the expected return from one tree.

    The mass-weighted mean of the leaves where branch points are causal; the backbone's return where they were chosen post hoc,
    since which points have many leaves then depends on what happened (theory.md, N9).
    """
    return float(tree.value[ROOT] if causal else tree.returns[tree.main_leaf(ROOT)])


def root_estimate(tree: Tree, causal: bool, what: str = "won") -> float:
    """An unbiased estimate of the success probability from one tree.

    Mass-weighted over the leaves where branch points are causal; the backbone alone where they were chosen post hoc.
    """
    if not causal:
        return float(bool(tree.outcome[tree.main_leaf(ROOT)].get(what, False)))
    return float(sum(tree.mass[leaf] * bool(tree.outcome[leaf].get(what, False)) for leaf in tree.leaves))
