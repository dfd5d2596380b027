"""A value head on the policy's own model: what a critic is, how it is trained, and what of it a checkpoint keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from bpo.credit.gae import advantages
from bpo.memory import Statistics
from bpo.policy import Policy
from bpo.select import Selector
from bpo.tree import Tree

Array = np.ndarray


class Head:
    """A number per context, linear in the policy's features of it; it begins at 0, and does nothing before it is attached."""

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.weights: Any = None

    def attach(self, policy: Policy) -> None:
        """Make the weights, for the features of this policy."""
        like = next(iter(policy.parameters()))
        dtype = like.dtype if like.dtype == torch.float64 else torch.float32
        self.policy = policy
        self.weights = torch.zeros(policy.feature_size + 1, dtype=dtype, device=like.device, requires_grad=True)

    def by_group(self, contexts: Sequence[Any]) -> Iterator[tuple[list[int], Any]]:
        """(indices, numbers [n]) of contexts in groups that fit into memory together, differentiable; none without a policy."""
        for indices, features in self.policy.features(contexts) if self.policy is not None else ():
            yield indices, features.to(self.weights.dtype) @ self.weights[:-1] + self.weights[-1]

    def all(self, contexts: Sequence[Any]) -> Any:
        """The numbers [contexts] in one tensor, differentiable."""
        found = self.weights.new_zeros(len(contexts))
        for indices, numbers in self.by_group(contexts):
            found = found.index_copy(0, torch.tensor(indices, device=found.device), numbers)
        return found

    def parameters(self) -> list[Any]:
        """The weights, where there are any."""
        return [] if self.weights is None else [self.weights]

    def state(self) -> Any:
        """What a checkpoint keeps."""
        return None if self.weights is None else self.weights.detach().clone()

    def load(self, state: Any) -> None:
        """Go on from what `state` returned."""
        if state is not None:
            self.weights.data.copy_(state)


class WithHead(Statistics):
    """A memory that trains a head on the policy's own model beside it."""

    def __init__(self, selector: Selector | None):
        super().__init__(selector)
        self.head = Head()

    def attach(self, policy: Policy, reference: Policy | None) -> None:
        """Make the head, for the features of this policy."""
        self.head.attach(policy)

    def parameters(self) -> list[Any]:
        return self.head.parameters()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "head": self.head.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.head.load(state["head"])


class Critic(WithHead):
    """The memory of a method with a critic: V(s) is linear in the policy's features of the context at s.

    The head begins at 0. Its loss reaches the model below it too: head and policy are one network, trained in one step at one
    learning rate. Targets and old values are those of the policy that acted; they are kept until the update is observed.

    gamma, lam   of the targets, advantage plus old value (see `bpo.credit.gae`)
    clip         how far from its old value V may go and still lower its loss
    weight       factor of the loss beside the policy's
    """

    def __init__(self, selector: Selector | None, *, gamma: float, lam: float, clip: float, weight: float):
        super().__init__(selector)
        self.gamma, self.lam, self.clip, self.weight = gamma, lam, clip, weight
        self._acted: dict[int, Array] = {}

    @torch.no_grad()
    def values(self, trees: Sequence[Tree]) -> list[Array]:
        """Per tree float64 [n], V of every state in which a trained action was drawn, 0 elsewhere and without a policy."""
        found = [np.zeros(len(tree)) for tree in trees]
        places, contexts = _states(trees)
        for indices, values in self.head.by_group(contexts):
            for i, value in zip(indices, values.tolist(), strict=True):
                found[places[i][0]][places[i][1]] = value
        self._acted = {id(tree): values for tree, values in zip(trees, found, strict=True)}
        return found

    def auxiliary_losses(self, trees: Sequence[Tree]) -> Iterator[Any]:
        """weight * mean over the edges, by mass, of max((V - R)^2, (V clipped - R)^2) / 2, in parts that fit into memory."""
        places, contexts = _states(trees)
        edges: list[list[tuple[float, float]]] = []  # per state (mass, target) of the edges that leave it
        for t, node in places:
            old = self._acted[id(trees[t])]
            gain = advantages(trees[t], old, self.gamma, self.lam)
            edges.append([(float(trees[t].mass[child]), float(gain[child] + old[node])) for child in trees[t].children[node]])
        total = sum(mass for leaving in edges for mass, _ in leaving)
        for indices, values in self.head.by_group(contexts):
            state = [k for k, i in enumerate(indices) for _ in edges[i]]
            mass, target = (values.new_tensor(column) for column in zip(*(e for i in indices for e in edges[i]), strict=True))
            old = values.new_tensor([self._acted[id(trees[places[i][0]])][places[i][1]] for i in indices])
            near = values.maximum(old - self.clip).minimum(old + self.clip)
            worst = ((values[state] - target) ** 2).maximum((near[state] - target) ** 2)
            yield self.weight * (mass * worst).sum() / (2 * total)

    def observe(self, trees: Sequence[Tree]) -> None:
        super().observe(trees)
        self._acted = {}


def _states(trees: Sequence[Tree]) -> tuple[list[tuple[int, int]], list[Any]]:
    """(tree, node) of every state in which a trained action was drawn, and its context."""
    places = [
        (t, node)
        for t, tree in enumerate(trees)
        for node in range(len(tree))
        if tree.children[node] and not tree.auxiliary[node]
    ]
    return places, [trees[t].edge(trees[t].children[node][0]).context for t, node in places]
