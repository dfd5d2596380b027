"""Builds one rollout tree, node by node: appends what was drawn, hands out ranks and masses, and ends with a checked Tree.

It decides nothing: which draws are made is a plan's business (`bpo.plan`), and playing them that of `bpo.rollout`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpo.errors import at_least
from bpo.policy import Decision
from bpo.sandbox import Observation, Snapshot
from bpo.select import Boundary
from bpo.tree import NO_PARENT, ROOT, Step, Tree

# Ranks of children are small. From here on they name the streams of auxiliary children and of a boundary's coin, so that no
# trained action shares a stream with them.
COIN = 2**20
AUXILIARY = 2**21


@dataclass(frozen=True)
class Place:
    """A state that can be gone on from: what the policy remembers, and the sandbox's snapshot."""

    context: Any
    snapshot: Snapshot


@dataclass(frozen=True)
class Draw:
    """One action that is still to be drawn: child number `rank` of `node`, trained or auxiliary."""

    node: int
    rank: int
    auxiliary: bool
    place: Place


class TreeBuilder:
    """The tree of one task while it grows; the lists have one entry per node, with the meaning they have in `Tree`.

    played  steps of the sandbox from the root, which the pauses inside an action are not
    """

    def __init__(self, task: str, index: int, key: Sequence[int]):
        self.task, self.index = task, index
        self._key = _words([*key, zlib.crc32(task.encode()), index])
        self.parent: list[int] = []
        self.rank: list[int] = []
        self.depth: list[int] = []
        self.played: list[int] = []
        self.reward: list[float] = []
        self.total: list[float] = []
        self.entropy: list[float] = []
        self.actions: list[int] = []
        self.position: list[int] = []
        self.auxiliary: list[bool] = []
        self.ended: list[bool] = []
        self.steps: list[Step | None] = []
        self.outcome: list[dict] = []
        self.state_key: list[Hashable] = []
        self.places: dict[int, Place] = {}
        self._number: list[int] = []
        self._auxiliaries = 0
        self._asked: dict[tuple[int, bool], int] = {}
        self._shares: dict[int, tuple[float, ...]] = {}

    def __len__(self) -> int:
        return len(self.parent)

    def stream(self, node: int, rank: int, auxiliary: bool = False) -> np.random.Generator:
        """The random stream of one child, spawned by (seed ..., task, tree, node, rank).

        Auxiliary nodes are counted by themselves, so that what is trained does not depend on them.
        """
        ours = (self._number[node], AUXILIARY + rank if auxiliary else rank)
        # What default_rng([*key, ...]) makes, number for number, in a third of the time: small trees spend most of theirs here.
        words = np.array([*self._key, *ours], np.uint32)
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))

    def boundary(self, node: int) -> Boundary:
        """What a selector may know of the decision in the state of a node from which an action was drawn."""
        coin = float(self.stream(node, COIN).random())
        return Boundary(self.depth[node], self.position[node], self.entropy[node], self.actions[node], coin)

    def ask(self, node: int, count: int, *, auxiliary: bool = False, shares: Sequence[float] | None = None) -> list[Draw]:
        """`count` further children of a node, to be drawn; each has the next free rank.

        shares  mass of all trained children that the node has then, in order of rank; without it they share evenly
        Errors: ValueError for a node that cannot be gone on from, or for shares that do not fit.
        """
        at_least("count", count, 1)
        if node not in self.places:
            raise ValueError(f"{self.task}: node {node} has ended, or its state is no longer kept; nothing can be drawn there")
        first = self._asked.get((node, auxiliary), 0)
        self._asked[node, auxiliary] = first + count
        if shares is not None:
            if auxiliary or len(shares) != first + count:
                raise ValueError(f"{self.task}: node {node} has {first + count} trained children and {len(shares)} shares")
            self._shares[node] = tuple(shares)
        inherited = auxiliary or self.auxiliary[node]
        return [Draw(node, rank, inherited, self.places[node]) for rank in range(first, first + count)]

    def append(self, draw: Draw | None, step: Step | None, reward: float, outcome: dict) -> int:
        """Add the node that a draw led to (None: the root); returns its number."""
        node = len(self.parent)
        if (draw is None) != (node == ROOT):
            raise ValueError("the root comes first, and once")
        self.parent.append(NO_PARENT if draw is None else draw.node)
        self.rank.append(0 if draw is None else draw.rank)
        self.depth.append(0 if draw is None else self.depth[draw.node] + 1)
        before = 0 if draw is None else self.played[draw.node]
        self.played.append(before + (step is not None and step.decision.ended))
        self.reward.append(reward)
        self.total.append(reward if draw is None else self.total[draw.node] + reward)
        self.entropy.append(math.nan)
        self.actions.append(0)
        self.position.append(0)
        auxiliary = draw is not None and draw.auxiliary
        self._number.append(AUXILIARY + self._auxiliaries if auxiliary else node - self._auxiliaries)
        self._auxiliaries += auxiliary
        self.auxiliary.append(auxiliary)
        self.ended.append(False)
        self.steps.append(step)
        self.outcome.append(outcome)
        self.state_key.append(None)
        return node

    def note_entropy(self, node: int, decision: Decision) -> None:
        """Keep the entropy at a boundary; it is known once the first action is drawn there."""
        if math.isnan(self.entropy[node]):
            self.entropy[node] = decision.entropy

    def note_state(self, node: int, observation: Observation, place: Place, position: int) -> None:
        """Keep what is known of a state that can be gone on from."""
        self.actions[node] = -1 if observation.actions is None else len(observation.actions)
        self.position[node] = position
        self.places[node] = place

    def note_pause(self, node: int, place: Place, position: int) -> None:
        """Keep a state inside an action, where any text may follow."""
        self.actions[node], self.position[node] = -1, position
        self.places[node] = place

    def forget_places(self, keep: set[int]) -> None:
        """Let go of the states that nothing will be drawn in any more."""
        self.places = {node: place for node, place in self.places.items() if node in keep}

    def finish(self) -> Tree:
        """The finished tree, checked."""
        tree = Tree(
            task=self.task,
            index=self.index,
            parent=np.array(self.parent, np.int64),
            sibling_index=np.array(self.rank, np.int64),
            weight=self._weights(),
            reward=np.array(self.reward),
            entropy=np.array(self.entropy),
            actions=np.array(self.actions, np.int64),
            position=np.array(self.position, np.int64),
            steps=tuple(self.steps),
            outcome=tuple(self.outcome),
            auxiliary=np.array(self.auxiliary),
            ended=np.array(self.ended),
            state_key=tuple(self.state_key),
        )
        tree.validate()
        return tree

    def _weights(self) -> np.ndarray:
        """Share of every node in its parent's mass: as planned, else even; none for what begins an auxiliary rollout."""
        grown: dict[int, int] = {}
        for node in range(1, len(self)):
            if self._counts(node):
                grown[self.parent[node]] = grown.get(self.parent[node], 0) + 1
        weight = np.ones(len(self))
        for node in range(1, len(self)):
            parent = self.parent[node]
            if not self._counts(node):
                weight[node] = 0.0
            elif parent in self._shares:
                weight[node] = self._shares[parent][self.rank[node]]
            else:
                weight[node] = 1 / grown[parent]
        return weight

    def _counts(self, node: int) -> bool:
        return self.auxiliary[node] == self.auxiliary[self.parent[node]]


def _words(numbers: Sequence[int]) -> list[int]:
    """The 32-bit words that numpy makes of whole numbers for a seed, lowest first."""
    words = []
    for number in map(int, numbers):
        words.append(number & 0xFFFFFFFF)
        while number := number >> 32:
            words.append(number & 0xFFFFFFFF)
    return words
