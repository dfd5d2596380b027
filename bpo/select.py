"""Where to branch: one class per selector, each says whether it is causal.

A *causal* selector decides at a boundary from what is known before any action is drawn there (each branch point is a stopping
time of its path), so mass splitting stays unbiased (theory.md, T3). A *post hoc* selector looks at the finished backbone;
whether a boundary is chosen then depends on what happened after it, and credit for the backbone's own action is biased.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bpo.errors import BadInput, choose, counted, instance
from bpo.tree import ROOT, Tree

# Entropies closer than this count as equal, so that rounding cannot decide between two boundaries.
TIE = 1e-9
# Tokens that a windowed entropy looks at.
WINDOW = 20


@dataclass(frozen=True)
class Boundary:
    """What a selector may know of one decision boundary.

    depth     decisions since the reset; a pause inside an action ends a decision, so such an action counts several times
    position  tokens along the path before the decision
    entropy   nats, of the policy's first free token in this state
    actions   number of admissible actions, or -1 where any text is allowed
    coin      uniform in [0, 1), drawn from a stream of its own: independent of every action
    window    nats, mean entropy of the first WINDOW tokens drawn from here on: known when the path is finished, and nan for
              causal selectors, since it depends on what was drawn
    """

    depth: int
    position: int
    entropy: float
    actions: int
    coin: float
    window: float = float("nan")


@dataclass(frozen=True)
class Spacing:
    """Which boundaries can be branch points at all: at least two actions, entropy of at least `floor` nats, `gap` apart.

    `unit` is "steps" (decisions, as `Boundary.depth` counts) or "tokens" (the paper, Eq. 6: 64 tokens).
    """

    gap: int = 1
    unit: str = "steps"
    floor: float = 0.0

    def __post_init__(self) -> None:
        choose("unit", self.unit, ("steps", "tokens"))
        counted("gap", self.gap)
        _within("floor", self.floor, 0)

    def eligible(self, boundary: Boundary) -> bool:
        """True where there is a real choice. Uses the state alone, so it never makes a selector non-causal."""
        return boundary.actions != 1 and boundary.entropy >= self.floor - TIE

    def apart(self, a: Boundary, b: Boundary) -> bool:
        """True where two boundaries of one path are far enough from each other."""
        if self.unit == "tokens":
            return abs(a.position - b.position) >= self.gap
        return abs(a.depth - b.depth) >= self.gap


class Selector:
    """Common part: spacing, and statistics that are part of a checkpoint (most selectors have none)."""

    causal = True

    def __init__(self, spacing: Spacing | None = None):
        self.spacing = Spacing() if spacing is None else instance("spacing", spacing, Spacing)

    def observe(self, trees: Sequence[Tree]) -> None:
        """Learn from the trees of a finished iteration; only later iterations may be affected."""

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        """Take over statistics written by `state_dict`."""


class CausalSelector(Selector):
    """Decides while the path grows."""

    causal = True

    def fires(self, boundary: Boundary, last: Boundary | None) -> bool:
        """Whether to branch here; `last` is the previous branch point of this path, if any."""
        if not self.spacing.eligible(boundary) or (last is not None and not self.spacing.apart(boundary, last)):
            return False
        return self.wants(boundary)

    def wants(self, boundary: Boundary) -> bool:
        raise NotImplementedError


class RootOnly(CausalSelector):
    """Never branches below the root: independent rollouts."""

    def wants(self, boundary: Boundary) -> bool:
        return False


class Threshold(CausalSelector):
    """Branches where the entropy reaches a fixed number of nats."""

    def __init__(self, threshold: float, spacing: Spacing | None = None):
        super().__init__(spacing)
        self.threshold = _within("threshold", threshold, 0)

    def wants(self, boundary: Boundary) -> bool:
        return boundary.entropy >= self.threshold - TIE


class QuantileThreshold(CausalSelector):
    """Branches where the entropy reaches a quantile of the eligible backbone boundaries of *earlier* iterations.

    The quantile is taken over boundaries with a real choice only: over all of them it collapses to zero, since most
    boundaries are nearly certain. Before anything was observed the threshold is the floor.
    """

    def __init__(self, quantile: float, spacing: Spacing | None = None, memory: int = 1000):
        super().__init__(spacing)
        self.quantile, self.memory = _within("quantile", quantile, 0, 1), counted("memory", memory, 1)
        self.seen: list[float] = []
        self._known: float | None = None

    @property
    def threshold(self) -> float:
        """Nats; never below the floor of the spacing."""
        if self._known is None:  # asked for at every boundary, and the same until more is seen
            self._known = max(self.spacing.floor, float(np.quantile(self.seen, self.quantile)) if self.seen else 0.0)
        return self._known

    def wants(self, boundary: Boundary) -> bool:
        return boundary.entropy >= self.threshold - TIE

    def observe(self, trees: Sequence[Tree]) -> None:
        # The root is a branch point by plan, so it is not among the boundaries that the threshold chooses from.
        for tree in trees:
            boundaries = (_state_at(tree, node) for node in tree.backbone[:-1] if node != ROOT)
            self.seen += [b.entropy for b in boundaries if self.spacing.eligible(b)]
        self.seen = self.seen[-self.memory :]
        self._known = None

    def state_dict(self) -> dict:
        return {"seen": list(self.seen)}

    def load_state_dict(self, state: dict) -> None:
        self.seen = [float(x) for x in state["seen"]]
        self._known = None


class Coin(CausalSelector):
    """Branches with a fixed probability at every eligible boundary."""

    def __init__(self, probability: float, spacing: Spacing | None = None):
        super().__init__(spacing)
        self.probability = _within("probability", probability, 0, 1)

    def wants(self, boundary: Boundary) -> bool:
        return boundary.coin < self.probability


class Every(CausalSelector):
    """Branches at every k-th decision: equally spaced without knowing how long the episode will be."""

    def __init__(self, every: int, spacing: Spacing | None = None):
        super().__init__(spacing)
        self.every = _within("every", every, 1)

    def wants(self, boundary: Boundary) -> bool:
        return boundary.depth % self.every == 0


class PostHocSelector(Selector):
    """Decides on the finished backbone."""

    causal = False

    def choose(self, boundaries: Sequence[Boundary], count: int) -> list[int]:
        """Indices of at most `count` boundaries, in order of depth."""
        chosen: list[int] = []
        candidates = [i for i, b in enumerate(boundaries) if self.spacing.eligible(b)]
        for i in self.ranking(boundaries, candidates, count):
            if len(chosen) < count and all(self.spacing.apart(boundaries[i], boundaries[j]) for j in chosen):
                chosen.append(i)
        return sorted(chosen)

    def ranking(self, boundaries: Sequence[Boundary], candidates: list[int], count: int) -> list[int]:
        """Candidates from the most to the least wanted."""
        raise NotImplementedError


class TopEntropy(PostHocSelector):
    """The paper's selector: the largest entropies along the finished backbone, at least the gap apart (Eq. 6)."""

    def ranking(self, boundaries: Sequence[Boundary], candidates: list[int], count: int) -> list[int]:
        return _by_key(candidates, lambda i: -boundaries[i].entropy)


class TopWindow(PostHocSelector):
    """As TopEntropy, by the mean entropy over the first WINDOW tokens after a boundary.

    The window is CBPO's (its entropies are of the ten likeliest tokens, over log |V|; those here are whole, in nats).
    """

    def ranking(self, boundaries: Sequence[Boundary], candidates: list[int], count: int) -> list[int]:
        return _by_key(candidates, lambda i: -boundaries[i].window)


class LowestEntropy(PostHocSelector):
    """The paper's negative control (Table 3): the smallest entropies."""

    def ranking(self, boundaries: Sequence[Boundary], candidates: list[int], count: int) -> list[int]:
        return _by_key(candidates, lambda i: boundaries[i].entropy)


class RandomChoice(PostHocSelector):
    """Uniformly random boundaries of the finished backbone (Table 3): theory.md, N7. The causal counterpart is Coin."""

    def ranking(self, boundaries: Sequence[Boundary], candidates: list[int], count: int) -> list[int]:
        return sorted(candidates, key=lambda i: boundaries[i].coin)


class EquallySpaced(PostHocSelector):
    """Boundaries that divide the finished backbone evenly (Table 3): theory.md, N7. The causal counterpart is Every."""

    def ranking(self, boundaries: Sequence[Boundary], candidates: list[int], count: int) -> list[int]:
        # The middles of `count` equal stretches.
        first = [candidates[int((i + 0.5) * len(candidates) / count)] for i in range(min(count, len(candidates)))]
        return list(dict.fromkeys([*first, *candidates]))


def boundary_at(tree: Tree, node: int) -> Boundary:
    """The boundary in the state of `node`, without its coin (nan): for statistics over grown trees."""
    window = windowed(tree.edge(following).decision.entropies for following in tree.main_path(node)[1:])
    return replace(_state_at(tree, node), window=window)


def _state_at(tree: Tree, node: int) -> Boundary:
    """What a causal selector may know of the state of `node`, but for the coin."""
    depth, position, actions = int(tree.depth[node]), int(tree.position[node]), int(tree.actions[node])
    return Boundary(depth, position, float(tree.entropy[node]), actions, float("nan"))


def windowed(entropies: Iterable[Sequence[float]]) -> float:
    """Nats: mean entropy over the first WINDOW tokens along a path, given by decision; 0 where none was kept."""
    first = list(itertools.islice(itertools.chain.from_iterable(entropies), WINDOW))
    return float(np.mean(first)) if first else 0.0


def _within(name: str, value: Any, low: float, high: float = float("inf")) -> Any:
    """`value`; BadInput where it is no number from `low` to `high`, which NaN is not either."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low <= value <= high:
        raise BadInput(f"{name} is {value!r}; it must be a number from {low:g} to {high:g}")
    return value


def _by_key(candidates: list[int], key: Callable[[int], float]) -> list[int]:
    """Sort by `key` with ties (within TIE) to the earliest."""
    rest, order = sorted(candidates), []
    while rest:
        best = min(key(i) for i in rest)
        pick = next(i for i in rest if key(i) <= best + TIE)
        order.append(pick)
        rest.remove(pick)
    return order
