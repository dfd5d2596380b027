"""The rollout tree: flat arrays over nodes, one node per state, the edge into a node is the action that led there.

Node 0 is the reset state. N independent rollouts are a tree whose only branch point is the root, so one structure serves
every method.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from bpo.policy import Decision

ROOT = 0
NO_PARENT = -1
# Fields of trees that were written before a field had its present name.
FORMER = {"child": "sibling_index"}
# What the weights of siblings may be off from one.
ROUNDING = 1e-5


@dataclass(frozen=True)
class Step:
    """What happened on one edge.

    context   what it was decided in; None after loading from JSON
    decision  the action, with what the update needs
    end       what the sandbox showed after an action that ended the episode; elsewhere the next context holds that
    """

    context: Any
    decision: Decision
    end: str | None = None


@dataclass(frozen=True)
class Tree:
    """One rollout tree with n nodes in order of creation (a parent always precedes its children).

    parent         int64 [n]   index of the parent; NO_PARENT at the root
    sibling_index  int64 [n]   rank among the siblings in order of drawing; rank 0 continues the path of its parent
    weight         float64 [n] share of the parent's mass; the shares of the children of a node sum to one; 1 at the root
    reward         float64 [n] reward of the edge into the node; 0 at the root
    entropy        float64 [n] nats, of the policy at the boundary in this state; nan where no action was drawn
    actions        int64 [n]   number of admissible actions in this state; -1 where any text is allowed, 0 at a leaf
    position       int64 [n]   tokens along the path before the decision in this state (its prompt may show fewer)
    steps          n entries   the Step of the edge into the node; None at the root
    outcome        n entries   plain facts about the state (won, truncated, ...), as the sandbox gave them
    auxiliary      bool [n]    whether it belongs to an auxiliary rollout, which estimates a value: it is in no batch, has no
                               mass, and is nobody's child but within its own rollout
    ended          bool [n]    whether the episode is over in this state; a leaf that has not ended was left open
    state_key      n entries   what the sandbox calls the state: equal keys, equal futures; None inside an action, and after
                               loading from JSON
    task           the task id; `index` tells the trees of one task apart
    """

    task: str
    index: int
    parent: np.ndarray
    sibling_index: np.ndarray
    weight: np.ndarray
    reward: np.ndarray
    entropy: np.ndarray
    actions: np.ndarray
    position: np.ndarray
    steps: tuple[Step | None, ...]
    outcome: tuple[dict, ...]
    auxiliary: np.ndarray
    ended: np.ndarray
    state_key: tuple[Hashable, ...]

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of every node in order of rank; auxiliary rollouts that begin there are not among them."""
        return self._below(lambda own, above: own == above)

    @cached_property
    def auxiliary_children(self) -> tuple[tuple[int, ...], ...]:
        """First nodes of the auxiliary rollouts that begin in every node, in order of rank."""
        return self._below(lambda own, above: own and not above)

    def _below(self, wanted: Callable[[bool, bool], bool]) -> tuple[tuple[int, ...], ...]:
        # Lists, here and below: reading an array one number at a time costs several times as much.
        parent, auxiliary, rank = self.parent.tolist(), self.auxiliary.tolist(), self.sibling_index.tolist()
        found: list[list[int]] = [[] for _ in range(len(self))]
        for node in range(1, len(self)):
            if wanted(auxiliary[node], auxiliary[parent[node]]):
                found[parent[node]].append(node)
        return tuple(tuple(sorted(row, key=rank.__getitem__)) for row in found)

    @cached_property
    def depth(self) -> np.ndarray:
        """int64 [n], edges from the root: one per action, and one more for each pause inside an action."""
        depth = [0] * len(self)
        for node, parent in enumerate(self.parent.tolist()[1:], 1):
            depth[node] = depth[parent] + 1
        return np.array(depth, np.int64)

    @cached_property
    def mass(self) -> np.ndarray:
        """float64 [n], product of the weights from the root: the probability that the splitting walk passes here."""
        mass, weight = [1.0] * len(self), self.weight.tolist()
        for node, parent in enumerate(self.parent.tolist()[1:], 1):
            mass[node] = mass[parent] * weight[node]
        return np.array(mass)

    @cached_property
    def leaves(self) -> np.ndarray:
        """int64, nodes without children, outside of auxiliary rollouts."""
        nodes = zip(range(len(self)), self.children, self.auxiliary.tolist(), strict=True)
        return np.array([node for node, children, auxiliary in nodes if not (children or auxiliary)], np.int64)

    @cached_property
    def branch_points(self) -> np.ndarray:
        """int64, nodes with two or more children, outside of auxiliary rollouts."""
        nodes = zip(range(len(self)), self.children, self.auxiliary.tolist(), strict=True)
        return np.array([node for node, children, auxiliary in nodes if len(children) > 1 and not auxiliary], np.int64)

    @cached_property
    def returns(self) -> np.ndarray:
        """float64 [n], sum of the rewards from the root to the node; at a leaf this is the episode's return G."""
        total, reward = [0.0] * len(self), self.reward.tolist()
        for node, parent in enumerate(self.parent.tolist()[1:], 1):
            total[node] = total[parent] + reward[node]
        return np.array(total)

    @cached_property
    def value(self) -> np.ndarray:
        """float64 [n], Q of the edge into the node: mass-weighted mean return of the leaves below it."""
        value, weight, children = self.returns.tolist(), self.weight.tolist(), self.children
        for node in range(len(self) - 1, -1, -1):
            if children[node]:
                value[node] = sum(weight[child] * value[child] for child in children[node])
        return np.array(value)

    def edge(self, node: int) -> Step:
        """The step of the edge into `node`; ValueError for the root, which no edge leads to."""
        step = self.steps[node]
        if step is None:
            raise ValueError(f"no edge leads to node {node}: it is the root")
        return step

    def path(self, node: int) -> list[int]:
        """The nodes from below the root to `node`; none for the root."""
        path = []
        while node != ROOT:
            path.append(int(node))
            node = self.parent[node]
        return path[::-1]

    def main_path(self, node: int) -> list[int]:
        """`node` and what follows it along first children, to the leaf."""
        path = [node]
        while self.children[path[-1]]:
            path.append(self.children[path[-1]][0])
        return path

    def main_leaf(self, node: int) -> int:
        """The leaf that the path through `node` reaches when it always continues with the first child."""
        return self.main_path(node)[-1]

    @cached_property
    def backbone(self) -> tuple[int, ...]:
        """Nodes from the root along first children to a leaf."""
        return tuple(self.main_path(ROOT))

    def validate(self) -> None:
        """Raise ValueError naming the first broken rule of the class docstring."""
        n = len(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("task", "index") and len(value) != n:
                raise ValueError(f"{field.name} has {len(value)} entries for {n} nodes")
        if n == 0 or self.parent[ROOT] != NO_PARENT:
            raise ValueError("node 0 must be the root, with parent -1")
        if any(not 0 <= parent < node for node, parent in enumerate(self.parent.tolist()[1:], 1)):
            raise ValueError("a parent must precede its children")
        if (self.ended & np.array([bool(row) for row in self.children], bool)).any():
            raise ValueError("a state in which the episode is over must have no children")
        rank, weight = self.sibling_index.tolist(), self.weight.tolist()
        for node, children in enumerate(self.children):
            if children and [rank[child] for child in children] != list(range(len(children))):
                raise ValueError(f"children of node {node} must have ranks 0..{len(children) - 1}")
            if children and not abs(sum(weight[child] for child in children) - 1.0) <= ROUNDING:
                raise ValueError(f"weights of the children of node {node} must sum to one")
        if (self.weight < 0).any():
            raise ValueError("weights must not be negative")

    def to_json(self) -> str:
        """The tree as one JSON document; contexts are left out, NaN is written as null."""
        plain = {
            name: getattr(self, name).tolist()
            for name in ("parent", "sibling_index", "weight", "reward", "actions", "position")
        }
        plain |= {name: getattr(self, name).tolist() for name in ("auxiliary", "ended")}
        plain["entropy"] = [None if np.isnan(x) else float(x) for x in self.entropy]
        plain["steps"] = [None if step is None else vars(step.decision) for step in self.steps]
        return json.dumps({"task": self.task, "index": self.index, **plain, "outcome": list(self.outcome)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Tree:
        """Inverse of `to_json` (contexts are None); raises ValueError where the document is not a valid tree."""
        try:
            return cls._from_plain(json.loads(text))
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"not a rollout tree: {type(error).__name__}: {error}") from None

    @classmethod
    def _from_plain(cls, raw: Any) -> Tree:
        if not isinstance(raw, dict):
            raise ValueError(f"not a rollout tree: it is a {type(raw).__name__}, not an object")
        for before, now in FORMER.items():
            if before in raw:
                raw[now] = raw.pop(before)
        if "ended" not in raw:
            raw |= _as_all_ended(raw)
        missing = [field.name for field in fields(cls) if field.name not in raw and field.name != "state_key"]
        if missing:
            raise ValueError(f"not a rollout tree: {missing[0]} is missing")
        steps = tuple(None if step is None else Step(None, _decision(step)) for step in raw["steps"])
        ints = {name: np.array(raw[name], np.int64) for name in ("parent", "sibling_index", "actions", "position")}
        floats = {name: np.array(raw[name], np.float64) for name in ("weight", "reward")}
        entropy = np.array([np.nan if x is None else x for x in raw["entropy"]])
        flags = {name: np.array(raw[name], bool) for name in ("auxiliary", "ended")}
        tree = cls(
            task=raw["task"],
            index=raw["index"],
            **ints,
            **floats,
            **flags,
            entropy=entropy,
            steps=steps,
            outcome=tuple(raw["outcome"]),
            state_key=(None,) * len(steps),
        )
        tree.validate()
        return tree


def _as_all_ended(raw: dict) -> dict[str, Any]:
    """What a document that was written before trees could be left open does not say."""
    inner = set(raw.get("parent", ()))
    count = len(raw.get("parent", ()))
    return {"auxiliary": [False] * count, "ended": [node not in inner for node in range(count)]}


def _decision(raw: dict) -> Decision:
    choices = tuple(None if ids is None else tuple(ids) for ids in raw["choices"])
    listed = {name: tuple(raw[name]) for name in ("tokens", "log_probs", "entropies") if name in raw}
    return Decision(**{**raw, **listed, "choices": choices})


def edges(trees: Sequence[Tree]) -> list[tuple[int, int]]:
    """(tree, node) of every edge of a batch, in the order in which credit and objective flatten them."""
    return [(t, node) for t, tree in enumerate(trees) for node in range(1, len(tree))]
