"""Grows rollout trees in batches: many trees at once, every pending decision of all of them in one policy call.

Each tree has one sandbox, which is restored to whichever path moves next. A causal selector's forks join the next batch as
soon as it fires; a post hoc selector's forks start when its tree's backbone has ended. Start reading at `grow`, at the end:
it makes one `_Growing` per tree, and `advance` decides what one drawn action leads to.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bpo.errors import at_least, choose
from bpo.policy import Decision, Policy
from bpo.sandbox import Observation, Sandbox, Snapshot
from bpo.select import Boundary, CausalSelector, RootOnly, Selector, windowed
from bpo.tree import NO_PARENT, ROOT, Step, Tree

# Child ranks are small; this rank names the stream of a boundary's coin, so no action shares it.
COIN = 2**20


@dataclass(frozen=True)
class Growth:
    """Where and how wide a tree grows.

    selector  decides on branch points below the root
    points    M, branch points per tree (per path when `nested`); the root counts where it is one
    width     K, children of a branch point
    root      the root itself is a branch point
    weights   mass of the children: "even", 1/K each; "planned", in proportion to the leaves still planned below each child
    nested    forks may branch again; otherwise only the backbone does
    fill      post hoc only: "root" turns missing branch points into K-1 independent rollouts each (biased), "none" does not
    trees     independent trees per task
    """

    selector: Selector
    points: int
    width: int
    root: bool = False
    weights: str = "even"
    nested: bool = False
    fill: str = "none"
    trees: int = 1

    def __post_init__(self):
        for name, low in {"points": 0, "width": 1, "trees": 1}.items():
            at_least(name, getattr(self, name), low)
        choose("weights", self.weights, ("even", "planned"))
        choose("fill", self.fill, ("none", "root"))

    @property
    def planned_returns(self) -> int:
        """Leaves of a tree whose plan is carried out in full (1 + M(K-1) unless nested)."""
        return self.leaves(self.points)

    def leaves(self, points: int) -> int:
        """Planned leaves below a path with `points` branch points left."""
        return self.width**points if self.nested else 1 + points * (self.width - 1)

    def shares(self, points: int) -> np.ndarray:
        """float64 [K], mass of the children of a branch point when the path had `points` left before it."""
        if self.weights == "even" or self.nested:
            return np.full(self.width, 1 / self.width)
        plan = np.array([self.leaves(points - 1)] + [1] * (self.width - 1), float)
        return plan / plan.sum()


TRAJECTORY = Growth(RootOnly(), points=0, width=1)


@dataclass
class Ledger:
    """What was spent: finished returns, environment steps, model tokens, wall seconds by phase.

    prefilled, generated, computed   tokens of contexts that were read, drawn tokens, and all that the model computed (see
                                     `bpo.policy.Decision`)
    """

    returns: int = 0
    env_steps: int = 0
    prefilled: int = 0
    generated: int = 0
    computed: int = 0
    rollout_s: float = 0.0
    update_s: float = 0.0

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


@dataclass(frozen=True)
class _Draw:
    """One action that is still to be drawn: child number `sibling_index` of `node`, which gets `share` of the node's mass."""

    node: int
    sibling_index: int
    context: Any
    snapshot: Snapshot
    backbone: bool
    points: int
    last: Boundary | None
    share: float = 1.0


class _Growing:
    """The tree of one task while it grows."""

    def __init__(self, task: str, index: int, sandbox: Sandbox, policy: Policy, growth: Growth, key: Sequence[int]):
        self.task, self.index, self.sandbox, self.policy, self.growth = task, index, sandbox, policy, growth
        self.key = [*key, zlib.crc32(task.encode()), index]
        self.ledger = Ledger()
        self.parent: list[int] = []
        self.sibling_index: list[int] = []
        self.weight: list[float] = []
        self.reward: list[float] = []
        self.entropy: list[float] = []
        self.actions: list[int] = []
        self.position: list[int] = []
        self.depth: list[int] = []
        self.steps: list[Step | None] = []
        self.outcome: list[dict] = []
        observation = sandbox.reset(task)
        context = policy.begin(observation)
        self._append(None, None, 1.0, 0.0, {})
        self._note_state(ROOT, observation, context)
        self.first = _Draw(ROOT, 0, context, sandbox.snapshot(), True, growth.points, None)
        self.candidates: list[tuple[Boundary, _Draw]] = []

    def stream(self, node: int, sibling_index: int) -> np.random.Generator:
        """The random stream of one child, spawned by (seed ..., task, tree, node, sibling index)."""
        return np.random.default_rng([*self.key, node, sibling_index])

    def advance(self, draw: _Draw, decision: Decision) -> list[_Draw]:
        """Play one decided action; return the draws that it makes possible, forks first."""
        self.ledger.prefilled += decision.prefilled
        self.ledger.generated += decision.generated
        self.ledger.computed += decision.computed
        forks: list[_Draw] = []
        if draw.sibling_index == 0:
            self.entropy[draw.node] = decision.entropy
            boundary = self._boundary(draw.node)
            if self._branches(draw, boundary):
                shares = self.growth.shares(draw.points)
                forks = self._forks(draw, boundary, shares)
                draw = replace(draw, share=float(shares[0]), points=draw.points - 1, last=boundary)
            elif draw.backbone and not self.growth.selector.causal:
                self.candidates.append((boundary, draw))
        return forks + self._play(draw, decision)

    def fork_posthoc(self) -> list[_Draw]:
        """Forks at the boundaries that a post hoc selector chooses on the finished backbone."""
        growth = self.growth
        if growth.selector.causal or not self.candidates:
            return []
        points = growth.points - int(growth.root)
        chosen = growth.selector.choose([self._seen_whole(boundary, draw) for boundary, draw in self.candidates], points)
        even = np.full(growth.width, 1 / growth.width)
        draws = [fork for i in chosen for fork in self._forks(self.candidates[i][1], self.candidates[i][0], even)]
        if growth.fill == "root":
            used = 1 + sum(fork.node == ROOT for fork in draws)
            missing = (points - len(chosen)) * (growth.width - 1)
            draws += [replace(self.first, sibling_index=used + i, backbone=False) for i in range(missing)]
        self.candidates = []
        return draws

    @property
    def reserved(self) -> list[_Draw]:
        """Draws that a post hoc selector may still fork."""
        return [self.first] * bool(self.candidates) + [draw for _, draw in self.candidates]

    def finish(self) -> Tree:
        """The finished tree. Groups chosen post hoc have no plan: their children share the mass evenly."""
        weight = np.array(self.weight)
        if not self.growth.selector.causal:
            children = np.bincount(self.parent[1:], minlength=len(weight))
            weight[1:] = 1 / children[self.parent[1:]]
        return Tree(
            task=self.task,
            index=self.index,
            parent=np.array(self.parent, np.int64),
            sibling_index=np.array(self.sibling_index, np.int64),
            weight=weight,
            reward=np.array(self.reward),
            entropy=np.array(self.entropy),
            actions=np.array(self.actions, np.int64),
            position=np.array(self.position, np.int64),
            steps=tuple(self.steps),
            outcome=tuple(self.outcome),
        )

    def _seen_whole(self, boundary: Boundary, draw: _Draw) -> Boundary:
        """A boundary of the finished backbone with the mean entropy of the tokens that were drawn from there on."""
        path, node = [], draw.node
        for following in range(node + 1, len(self.parent)):
            if self.parent[following] == node and self.sibling_index[following] == 0:
                path.append(self.steps[following].decision.entropies)  # type: ignore[union-attr]
                node = following
        return replace(boundary, window=windowed(path))

    def _branches(self, draw: _Draw, boundary: Boundary) -> bool:
        growth = self.growth
        if draw.points < 1 or growth.width < 2 or not (draw.backbone or growth.nested):
            return False
        if draw.node == ROOT and growth.root:
            return True
        return isinstance(growth.selector, CausalSelector) and growth.selector.fires(boundary, draw.last)

    def _forks(self, draw: _Draw, boundary: Boundary, shares: np.ndarray) -> list[_Draw]:
        points = draw.points - 1 if self.growth.nested else 0
        fork = replace(draw, backbone=False, points=points, last=boundary)
        return [replace(fork, sibling_index=index, share=float(shares[index])) for index in range(1, len(shares))]

    def _play(self, draw: _Draw, decision: Decision) -> list[_Draw]:
        if not decision.ended:
            return [self._pause(draw, decision)]
        self.sandbox.restore(draw.snapshot)
        outcome = self.sandbox.step(decision.action)
        self.ledger.env_steps += 1
        step = Step(draw.context, decision, outcome.observation.text if outcome.done else None)
        node = self._append(draw, step, draw.share, float(outcome.reward), dict(outcome.info))
        if outcome.done:
            self.ledger.returns += 1
            return []
        context = self.policy.extend(draw.context, decision, outcome.observation)
        self._note_state(node, outcome.observation, context)
        return [replace(draw, node=node, sibling_index=0, context=context, snapshot=self.sandbox.snapshot(), share=1.0)]

    def _pause(self, draw: _Draw, decision: Decision) -> _Draw:
        """A state inside an action: more has been written, and nothing was done."""
        node = self._append(draw, Step(draw.context, decision), draw.share, 0.0, {})
        context = self.policy.resume(draw.context, decision)
        self.actions[node], self.position[node] = -1, self.policy.context_size(context)
        return replace(draw, node=node, sibling_index=0, context=context, share=1.0)

    def _append(self, draw: _Draw | None, step: Step | None, share: float, reward: float, outcome: dict) -> int:
        self.parent.append(NO_PARENT if draw is None else draw.node)
        self.sibling_index.append(0 if draw is None else draw.sibling_index)
        self.depth.append(0 if draw is None else self.depth[draw.node] + 1)
        self.weight.append(share)
        self.reward.append(reward)
        self.steps.append(step)
        self.outcome.append(outcome)
        self.entropy.append(np.nan)
        self.actions.append(0)
        self.position.append(0)
        return len(self.parent) - 1

    def _note_state(self, node: int, observation: Observation, context: Any) -> None:
        self.actions[node] = -1 if observation.actions is None else len(observation.actions)
        self.position[node] = self.policy.context_size(context)

    def _boundary(self, node: int) -> Boundary:
        coin = float(self.stream(node, COIN).random())
        return Boundary(self.depth[node], self.position[node], self.entropy[node], self.actions[node], coin)


def grow(
    tasks: Sequence[str],
    sandboxes: Sequence[Sandbox],
    policy: Policy,
    growth: Growth,
    key: Sequence[int],
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Tree], Ledger]:
    """Grow `growth.trees` trees for every task; trees of one task lie next to each other in the result.

    At most len(sandboxes) trees grow at once, each in a sandbox of its own. `key` are the integers (seed, iteration, ...)
    from which every random stream is spawned, so the trees do not depend on what else is in the batch (up to the rounding of
    a batched forward pass). `progress` is told the number of finished trees after each wave.
    """
    start = time.perf_counter()
    jobs = [(task, index) for task in tasks for index in range(growth.trees)]
    trees: list[Tree] = []
    ledger = Ledger()
    for begin in range(0, len(jobs), len(sandboxes)):
        wave = jobs[begin : begin + len(sandboxes)]
        growing = [
            _Growing(task, index, sandbox, policy, growth, key) for (task, index), sandbox in zip(wave, sandboxes, strict=False)
        ]
        try:
            _grow_wave(growing, policy)
        finally:
            # What is known decides what is read again, and with it the rounding: every wave begins knowing nothing.
            policy.evict_except([])
        trees += [one.finish() for one in growing]
        ledger = sum((one.ledger for one in growing), ledger)
        if progress:
            progress(len(trees))
    ledger.rollout_s = time.perf_counter() - start
    return trees, ledger


def _grow_wave(growing: list[_Growing], policy: Policy) -> None:
    pending = [(one, one.first) for one in growing]
    while pending:
        contexts = [draw.context for _, draw in pending]
        decisions = policy.act(contexts, [one.stream(draw.node, draw.sibling_index) for one, draw in pending])
        following = []
        ended = False
        for (one, draw), decision in zip(pending, decisions, strict=True):
            new = one.advance(draw, decision)
            if draw.backbone and not any(d.backbone for d in new):
                new = new + one.fork_posthoc()
            ended = ended or not new
            following += [(one, d) for d in new]
        pending = following
        if ended:
            open_ends = [draw for _, draw in pending] + [draw for one in growing for draw in one.reserved]
            policy.evict_except([draw.context for draw in open_ends])
