"""What decides which actions are drawn next: a plan is asked in rounds, until it wants nothing more.

In every round all pending actions of all trees are drawn in one call of the policy and played. Then the plan is asked for
forks, anywhere on the trees. A path that has not ended goes on by itself, unless the plan's `keep` drops it or leaves it open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bpo.builder import Draw, TreeBuilder
from bpo.credit.record import SPREAD
from bpo.policy import Decision
from bpo.select import Boundary, CausalSelector, PostHocSelector, windowed
from bpo.tree import ROOT, Tree

if TYPE_CHECKING:
    from bpo.rollout import Growth


@dataclass(frozen=True)
class Fork:
    """What a plan asks for: `count` further children of a node.

    tree     number of the tree in the forest
    trained  False for auxiliary rollouts: they are played to their end, are in no batch and have no mass
    shares   mass of all trained children that the node has then, in order of rank, fixed before any of the new ones is drawn;
             None: all children share evenly in the end, which depends on how many there are (biased where that does)
    """

    tree: int
    node: int
    count: int
    trained: bool = True
    shares: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Drawn:
    """One action of the last round: drawn in the state of `node`, it led to `child`."""

    tree: int
    node: int
    child: int
    rank: int
    auxiliary: bool
    decision: Decision
    ended: bool


@dataclass(frozen=True)
class Pending:
    """One action that is to be drawn; `fork` is False where a path goes on."""

    tree: int
    draw: Draw
    fork: bool


@dataclass
class Forest:
    """What a plan may look at: the trees as they have grown so far, and what the last round drew, in order."""

    trees: Sequence[TreeBuilder]
    fresh: Sequence[Drawn] = ()

    def boundary(self, tree: int, node: int) -> Boundary:
        """The boundary in a state from which an action was drawn."""
        return self.trees[tree].boundary(node)


class Plan:
    """The common part of plans: by itself it draws one path per tree.

    It must not look at what has been drawn where its method is to stay unbiased: see theory.md, section 5.
    """

    # Whether all trees of a call of `grow` must be there at once, which needs a sandbox for each.
    whole_batch = False

    def forks(self, forest: Forest, memory: Any, rng: np.random.Generator) -> Sequence[Fork]:
        """What to draw next. Asked before the first round, when the trees are their roots, and after every round."""
        return [Fork(tree, ROOT, 1) for tree, builder in enumerate(forest.trees) if len(builder) == 1 and not forest.fresh]

    def keep(self, forest: Forest, pending: Sequence[Pending]) -> tuple[Sequence[Pending], Sequence[Pending]]:
        """(what is drawn in the next round, what is left open until a later one); what is in neither is dropped."""
        return pending, ()

    def reserved(self, forest: Forest, tree: int) -> Iterable[int]:
        """Nodes, besides those of pending actions, that may still be forked: their states are kept. Here: all."""
        return range(len(forest.trees[tree]))

    def replaces(self, tree: Tree) -> bool:
        """Whether a finished tree is set aside, and a tree of another task is grown in its place."""
        return False


@dataclass(frozen=True)
class _Path:
    """Where a path is in a growth with a selector: on the backbone or not, branch points left, the last one."""

    backbone: bool
    points: int
    last: Boundary | None = None


class SelectorPlan(Plan):
    """Follows every path and knows how many branch points it has left."""

    def __init__(self, growth: Growth):
        self.growth = growth
        self._paths: dict[tuple[int, int], _Path] = {}
        self._forked: dict[tuple[int, int], _Path] = {}

    def forks(self, forest: Forest, memory: Any, rng: np.random.Generator) -> Sequence[Fork]:
        wanted = list(super().forks(forest, memory, rng))
        for fork in wanted:
            self._paths[fork.tree, ROOT] = _Path(True, self.growth.points)
        for drawn in forest.fresh:
            wanted += self._after(forest, drawn)
        return wanted

    def reserved(self, forest: Forest, tree: int) -> Iterable[int]:
        return ()

    def _after(self, forest: Forest, drawn: Drawn) -> list[Fork]:
        """Forks that one drawn action leads to; notes where its path is."""
        key = (drawn.tree, drawn.node)
        if drawn.rank > 0:
            self._paths[drawn.tree, drawn.child] = self._forked[key]
            return []
        path = self._paths[key]
        fork = None
        # A boundary has a coin, whose stream costs more than the rest of it: it is made where it can be asked for.
        if path.points > 0 and self.growth.width > 1 and (path.backbone or self.growth.nested):
            boundary = forest.boundary(*key)
            fork = self._fork(drawn, path, boundary)
        if fork is not None:
            points = path.points - 1 if self.growth.nested else 0
            self._forked[key] = replace(path, backbone=False, points=points, last=boundary)
            path = replace(path, points=path.points - 1, last=boundary)
        self._paths[drawn.tree, drawn.child] = path
        return [] if fork is None else [fork]

    def _fork(self, drawn: Drawn, path: _Path, boundary: Boundary) -> Fork | None:
        growth = self.growth
        if not (drawn.node == ROOT and growth.root) and not self._fires(boundary, path.last):
            return None
        shares = tuple(float(share) for share in growth.shares(path.points))
        return Fork(drawn.tree, drawn.node, growth.width - 1, shares=shares if growth.causal else None)

    def _fires(self, boundary: Boundary, last: Boundary | None) -> bool:
        raise NotImplementedError


class CausalPlan(SelectorPlan):
    """Forks as soon as the selector fires, with masses that were planned before."""

    def _fires(self, boundary: Boundary, last: Boundary | None) -> bool:
        selector = self.growth.selector
        assert isinstance(selector, CausalSelector)
        return selector.fires(boundary, last)


class ContrastPlan(CausalPlan):
    """Sets a tree aside whose leaves all have the same return: with independent rollouts it has nothing to say."""

    def replaces(self, tree: Tree) -> bool:
        return bool(np.ptp(tree.returns[tree.leaves]) <= SPREAD)


class ValuePlan(CausalPlan):
    """Adds `count` auxiliary rollouts from the state of every `every`-th trained action of a path: they estimate its value."""

    def __init__(self, growth: Growth, count: int, every: int = 1):
        super().__init__(growth)
        self.count, self.every = count, every

    def _after(self, forest: Forest, drawn: Drawn) -> list[Fork]:
        if drawn.auxiliary:
            return []
        wanted = super()._after(forest, drawn)
        if drawn.rank == 0 and forest.trees[drawn.tree].depth[drawn.node] % self.every == 0:
            wanted.append(Fork(drawn.tree, drawn.node, self.count, trained=False))
        return wanted


class AnchorPlan(CausalPlan):
    """Adds `count` auxiliary rollouts from the root where the memory has no anchor (`memory.anchors`) for the task yet."""

    def __init__(self, growth: Growth, count: int):
        super().__init__(growth)
        self.count = count

    def forks(self, forest: Forest, memory: Any, rng: np.random.Generator) -> Sequence[Fork]:
        wanted = list(super().forks(forest, memory, rng))
        if not forest.fresh and memory is not None:
            unmet = [tree for tree, builder in enumerate(forest.trees) if builder.task not in memory.anchors]
            wanted += [Fork(tree, ROOT, self.count, trained=False) for tree in unmet]
        return wanted

    def _after(self, forest: Forest, drawn: Drawn) -> list[Fork]:
        return [] if drawn.auxiliary else super()._after(forest, drawn)


class PostHocPlan(SelectorPlan):
    """Forks where the selector ranks the boundaries of a finished backbone highest; all children share evenly."""

    def __init__(self, growth: Growth):
        super().__init__(growth)
        self._candidates: dict[int, list[int]] = {}

    def reserved(self, forest: Forest, tree: int) -> Iterable[int]:
        candidates = self._candidates.get(tree, [])
        return [ROOT, *candidates] if candidates else ()

    def _fires(self, boundary: Boundary, last: Boundary | None) -> bool:
        return False

    def _after(self, forest: Forest, drawn: Drawn) -> list[Fork]:
        on_backbone = drawn.rank == 0 and self._paths[drawn.tree, drawn.node].backbone
        wanted = super()._after(forest, drawn)
        if not on_backbone:
            return wanted
        if not wanted:
            self._candidates.setdefault(drawn.tree, []).append(drawn.node)
        return wanted + (self._at_the_end(forest, drawn.tree) if drawn.ended else [])

    def _at_the_end(self, forest: Forest, tree: int) -> list[Fork]:
        growth, candidates, steps = self.growth, self._candidates.pop(tree, []), forest.trees[tree].steps
        if not candidates:
            return []
        points = growth.points - int(growth.root)
        along = [steps[child] for child in self._backbone(forest.trees[tree])]
        entropies = [step.decision.entropies for step in along if step is not None]
        boundaries = [
            replace(forest.boundary(tree, node), window=windowed(entropies[forest.trees[tree].depth[node] :]))
            for node in candidates
        ]
        assert isinstance(growth.selector, PostHocSelector)
        chosen = growth.selector.choose(boundaries, points)
        wanted = [(candidates[i], growth.width - 1) for i in chosen if growth.width > 1]
        missing = (points - len(chosen)) * (growth.width - 1)
        if growth.fill == "root" and missing:
            wanted.append((ROOT, missing))
        for node, _ in wanted:
            self._forked[tree, node] = _Path(False, 0)
        return [Fork(tree, node, count) for node, count in wanted]

    @staticmethod
    def _backbone(builder: TreeBuilder) -> list[int]:
        """Nodes below the root along first children."""
        following = {builder.parent[node]: node for node in range(1, len(builder)) if builder.rank[node] == 0}
        path, node = [], ROOT
        while node in following:
            node = following[node]
            path.append(node)
        return path
