"""From trees to a gradient: flatten the edges, weigh them by their credit, call the objective, go backwards."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bpo.credit import Credit
from bpo.objective import Loss, Tokens, by_token
from bpo.policy import Policy
from bpo.tree import NO_PARENT, ROOT, Step, Tree, edges

Array = np.ndarray


@dataclass(frozen=True)
class Batch:
    """The edges of an update that can carry gradient; arrays have one entry per edge, as in `bpo.objective.Tokens`.

    steps      (context, decision) per edge
    old        log-probs of the free tokens at sampling time, one array per edge
    trees      number of trees: the constant that the loss is divided by
    """

    steps: list[tuple[Any, Any]]
    old: list[Array]
    advantage: Array
    weight: Array
    parent: Array
    rollout: Array
    tree: Array
    trees: int


def make_batch(trees: Sequence[Tree], credits: Sequence[Credit]) -> Batch:
    """Keep the edges with a signal and a free token, outside of auxiliary rollouts; the others carry no gradient."""
    keep: list[tuple[int, int, Step]] = []
    rollouts: dict[tuple[int, int], int] = {}
    begun = 0
    nearest: dict[tuple[int, int], int] = {}  # the last kept edge on the path to a node, its own one included
    # As lists: reading an array one number at a time costs several times as much.
    parents, ranks = [tree.parent.tolist() for tree in trees], [tree.sibling_index.tolist() for tree in trees]
    auxiliary = [tree.auxiliary.tolist() for tree in trees]
    trained = [
        (credit.has_signal & (credit.weight > 0) & ~tree.auxiliary).tolist()
        for tree, credit in zip(trees, credits, strict=True)
    ]
    for t, node in edges(trees):
        parent = parents[t][node]
        begins = ranks[t][node] > 0 or parent == ROOT
        rollouts[t, node] = begun if begins else rollouts[t, parent]
        begun += int(begins and not auxiliary[t][node])
        nearest[t, node] = nearest.get((t, parent), NO_PARENT)
        step = trees[t].edge(node)
        if trained[t][node] and step.decision.free:
            nearest[t, node] = len(keep)
            keep.append((t, node, step))
    return Batch(
        steps=[(step.context, step.decision) for _, _, step in keep],
        old=[np.array([step.decision.log_probs[i] for i in step.decision.free]) for _, _, step in keep],
        advantage=np.array([credits[t].advantage[node] for t, node, _ in keep]),
        weight=np.array([credits[t].weight[node] for t, node, _ in keep]),
        parent=np.array([nearest.get((t, parents[t][node]), NO_PARENT) for t, node, _ in keep], np.int64),
        rollout=np.array([rollouts[t, node] for t, node, _ in keep], np.int64),
        tree=np.array([t for t, _, _ in keep], np.int64),
        trees=len(trees),
    )


def of_trees(batch: Batch, chosen: Sequence[int]) -> Batch:
    """The part of a batch that belongs to some of its trees: a mini-batch."""
    edges_of = np.flatnonzero(np.isin(batch.tree, list(chosen)))
    place = {int(edge): i for i, edge in enumerate(edges_of)}
    return Batch(
        steps=[batch.steps[i] for i in edges_of],
        old=[batch.old[i] for i in edges_of],
        advantage=batch.advantage[edges_of],
        weight=batch.weight[edges_of],
        parent=np.array([place.get(int(parent), NO_PARENT) for parent in batch.parent[edges_of]], np.int64),
        rollout=batch.rollout[edges_of],
        tree=batch.tree[edges_of],
        trees=len(chosen),
    )


def backward(
    policy: Policy, reference: Policy | None, batch: Batch, objective: Loss, options: Mapping[str, Any]
) -> dict[str, float]:
    """Accumulate the gradient of the batch's loss in the policy's parameters; returns the loss and its facts.

    options   settings; the objective is given those that it names

    The loss is a function of all tokens, which need not fit into memory together with their graph. So its derivative with
    respect to every token's log-prob is taken first, from values without a graph, and then carried back memory batch by
    memory batch. A loss that treats every token by itself needs no first pass.
    """
    read = inspect.signature(objective).parameters
    given = {name: value for name, value in options.items() if name in read}
    facts: dict[str, float] = {"loss": 0.0, "tokens": 0.0, "clipped": 0.0, "approx_kl": 0.0, "kl": 0.0}
    parts = [_Part(policy, reference, batch, indices) for indices in policy.batches(batch.steps)] if batch.steps else []
    if by_token(objective):
        for part in parts:
            values, _ = policy.logprob(part.steps)
            (slopes,) = _slopes(objective, given, batch, [part], [values.detach()], facts)
            values.backward(slopes)
        return facts
    with torch.no_grad():
        fixed = [policy.logprob(part.steps)[0] for part in parts]
    for part, slopes in zip(parts, _slopes(objective, given, batch, parts, fixed, facts), strict=True):
        policy.logprob(part.steps)[0].backward(slopes)
    return facts


class _Part:
    """The edges of one memory batch, with what does not change during an update."""

    def __init__(self, policy: Policy, reference: Policy | None, batch: Batch, indices: list[int]):
        self.indices = indices
        self.steps = [batch.steps[i] for i in indices]
        self.old = torch.as_tensor(np.concatenate([batch.old[i] for i in indices]))
        self.owner = torch.repeat_interleave(torch.arange(len(indices)), torch.tensor([len(batch.old[i]) for i in indices]))
        self.reference = None
        if reference is not None:
            with torch.no_grad():
                self.reference = reference.logprob(self.steps)[0]


def _slopes(
    objective: Loss,
    given: Mapping[str, Any],
    batch: Batch,
    parts: Sequence[_Part],
    values: Sequence[Any],
    facts: dict[str, float],
) -> list[Any]:
    """Derivative of the loss with respect to the log-probs of every part; adds what the loss says to `facts`."""
    if not parts:
        return []
    leaf = torch.cat(list(values)).requires_grad_()
    order = [i for part in parts for i in part.indices]
    place = {edge: i for i, edge in enumerate(order)}
    offsets = np.cumsum([0, *(len(part.indices) for part in parts)])
    parent = [place.get(int(batch.parent[edge]), NO_PARENT) for edge in order]
    device = leaf.device
    references = [part.reference for part in parts if part.reference is not None]
    tokens = Tokens(
        values=leaf,
        old=torch.cat([part.old for part in parts]).to(leaf),
        reference=torch.cat(references) if references else None,
        owner=torch.cat([part.owner + int(offset) for part, offset in zip(parts, offsets, strict=False)]).to(device),
        advantage=torch.as_tensor(batch.advantage[order]).to(leaf),
        weight=torch.as_tensor(batch.weight[order]).to(leaf),
        parent=torch.as_tensor(parent, device=device),
        rollout=torch.as_tensor(batch.rollout[order], device=device),
        tree=torch.as_tensor(batch.tree[order], device=device),
    )
    loss, more = objective(tokens, **given)
    loss = loss / batch.trees
    loss.backward()
    for name, value in {"loss": loss.item(), **more}.items():
        facts[name] = facts.get(name, 0.0) + value
    assert leaf.grad is not None
    return list(leaf.grad.split([len(value) for value in values]))


def zero_grad(policy: Policy) -> None:
    """Forget accumulated gradients."""
    for parameter in policy.parameters():
        parameter.grad = None


def grad_norm(parameters: Iterable[Any]) -> float:
    """Euclidean norm of the accumulated gradient, before any clipping."""
    squares = [p.grad.detach().double().square().sum() for p in parameters if p.grad is not None]
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
