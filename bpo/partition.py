"""Log-partitions of tasks: learned beside the policy (FlowRL), or estimated once and frozen (DISA)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from bpo.critic import WithHead
from bpo.memory import Statistics
from bpo.policy import Policy
from bpo.select import Selector
from bpo.tree import ROOT, Tree


class LearnedPartition(WithHead):
    """log Z(x) is linear in the policy's features of the task's first context; the objective's own gradient trains it."""

    def log_z(self, trees: Sequence[Tree]) -> Any:
        """Float tensor [trees], differentiable in the head and in the model below it."""
        return self.head.all([tree.edge(tree.children[ROOT][0]).context for tree in trees])


class FrozenPartition(Statistics):
    """log Z(x) from the auxiliary rollouts of the update in which a task is first met; it never changes afterwards.

    log mean of pi_ref(y) exp(alpha R(y)) / q(y) over rollouts y of the policy q that acted (arXiv 2605.17295): unbiased for Z,
    and its logarithm too low by the variance of the weights over twice their number.

    anchors   task -> log Z
    """

    def __init__(self, selector: Selector | None, alpha: float):
        super().__init__(selector)
        self.alpha = alpha
        self.anchors: dict[str, float] = {}
        self.reference: Policy | None = None

    def attach(self, policy: Policy, reference: Policy | None) -> None:
        self.reference = reference

    def log_z(self, trees: Sequence[Tree]) -> Any:
        """Float64 tensor [trees], without a gradient; 0 for a task that was met without auxiliary rollouts."""
        for tree in trees:
            if tree.task not in self.anchors and tree.auxiliary_children[ROOT]:
                self.anchors[tree.task] = self._estimate(tree)
        return torch.tensor([self.anchors.get(tree.task, 0.0) for tree in trees], dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "anchors": dict(self.anchors)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.anchors = dict(state["anchors"])

    @torch.no_grad()
    def _estimate(self, tree: Tree) -> float:
        paths = [tree.main_path(start) for start in tree.auxiliary_children[ROOT]]
        logs = np.array([self.alpha * tree.returns[path[-1]] for path in paths])
        steps = [(i, tree.edge(node)) for i, path in enumerate(paths) for node in path if tree.edge(node).decision.free]
        pairs = [(step.context, step.decision) for _, step in steps]
        for indices in self.reference.batches(pairs) if self.reference is not None and pairs else []:
            values, owner = self.reference.logprob([pairs[k] for k in indices])
            for value, k in zip(values.tolist(), owner.tolist(), strict=True):
                logs[steps[indices[k]][0]] += value
            for k in indices:
                i, step = steps[k]
                logs[i] -= sum(step.decision.log_probs[j] for j in step.decision.free)
        highest = float(logs.max())
        return highest + math.log(float(np.exp(logs - highest).mean()))
