"""What a method remembers from one update to the next: all of it is in a checkpoint, so that a resumed run goes on the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bpo.select import Selector
from bpo.tree import ROOT, Tree


class Memory(Protocol):
    """One per run. Only later iterations may be affected by what it observes.

    running         mean root value of the trees seen so far; None before the first
    observe         learn from the trees of a finished iteration
    parameters      tensors that the learner trains beside the policy's (a value head, a success predictor); often none
    auxiliary_loss  a differentiable loss on some trees that trains them, or None
    """

    @property
    def running(self) -> float | None: ...
    def observe(self, trees: Sequence[Tree]) -> None: ...
    def parameters(self) -> list[Any]: ...
    def auxiliary_loss(self, trees: Sequence[Tree]) -> Any: ...
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

    def parameters(self) -> list[Any]:
        return []

    def auxiliary_loss(self, trees: Sequence[Tree]) -> None:
        """Nothing here is trained."""

    def state_dict(self) -> dict[str, Any]:
        selector = {} if self.selector is None else self.selector.state_dict()
        return {"seen": self.seen, "mean": self.mean, "selector": selector}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen, self.mean = state["seen"], state["mean"]
        if self.selector is not None:
            self.selector.load_state_dict(state["selector"])
