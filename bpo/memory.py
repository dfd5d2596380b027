"""What a method remembers from one update to the next: all of it is in a checkpoint, so that a resumed run goes on the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from bpo.policy import Policy
from bpo.select import Selector
from bpo.tree import ROOT, Tree


class Memory(Protocol):
    """One per run. Only later iterations may be affected by what it observes.

    running         mean root value of the trees seen so far; None before the first
    observe         learn from the trees of a finished iteration
    attach          told the policy and the reference (or None) once, before anything is trained: what is made for the
                    policy's shapes is made here
    log_z           float tensor [trees], log-partition of the task of each; only objectives that name it are given it
    values          per tree float64 [n], value of every state; only a critic has any
    parameters      tensors that the learner trains beside the policy's (a value head, a success predictor); often none
    auxiliary_losses  differentiable losses on some trees whose sum trains them, one after another so that each fits into memory
    """

    @property
    def running(self) -> float | None: ...
    def observe(self, trees: Sequence[Tree]) -> None: ...
    def attach(self, policy: Policy, reference: Policy | None) -> None: ...
    def log_z(self, trees: Sequence[Tree]) -> Any: ...
    def values(self, trees: Sequence[Tree]) -> list[np.ndarray]: ...
    def parameters(self) -> list[Any]: ...
    def auxiliary_losses(self, trees: Sequence[Tree]) -> Iterable[Any]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Statistics:
    """The memory of most methods: the mean root value of earlier trees, and the statistics of the selector where it has any."""

    def __init__(self, selector: Selector | None = None):
        self.selector = selector
        self.seen, self.mean = 0, 0.0

    @property
    def running(self) -> float | None:
        return self.mean if self.seen else None

    def observe(self, trees: Sequence[Tree]) -> None:
        if self.selector is not None:
            self.selector.observe(trees)
        for tree in trees:
            self.seen += 1
            self.mean += (float(tree.value[ROOT]) - self.mean) / self.seen

    def attach(self, policy: Policy, reference: Policy | None) -> None:
        """Nothing here has the policy's shapes."""

    def log_z(self, trees: Sequence[Tree]) -> None:
        """There is none."""

    def values(self, trees: Sequence[Tree]) -> list[np.ndarray]:
        return [np.zeros(len(tree)) for tree in trees]

    def parameters(self) -> list[Any]:
        return []

    def auxiliary_losses(self, trees: Sequence[Tree]) -> Iterable[Any]:
        return ()

    def state_dict(self) -> dict[str, Any]:
        selector = {} if self.selector is None else self.selector.state_dict()
        return {"seen": self.seen, "mean": self.mean, "selector": selector}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen, self.mean = state["seen"], state["mean"]
        if self.selector is not None:
            self.selector.load_state_dict(state["selector"])
