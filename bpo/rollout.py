"""Grows rollout trees in rounds: every pending action of all trees is drawn in one call of the policy, then played.

Each tree has one sandbox, which is restored to whichever path moves next. What is drawn next is a plan's decision (`bpo.plan`);
`Growth` says in plain values which of the two plans with a selector is meant. Start reading at `grow`, at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from bpo import boundary
from bpo.builder import Draw, Place, TreeBuilder
from bpo.errors import BadInput, at_least, at_most, choose, having, instance, scalar
from bpo.param import MOST
from bpo.plan import CausalPlan, Drawn, Forest, Fork, Pending, Plan, PostHocPlan
from bpo.policy import Decision, Policy
from bpo.sandbox import Sandbox
from bpo.select import RootOnly, Selector
from bpo.tree import Step, Tree

# Last integer of the key of a plan's own stream.
PLAN = 2**22


class Planned(Protocol):
    """What `grow` needs to know of a method's growth; `Growth` is one, `OwnPlan` holds any other plan.

    trees            independent trees per task
    causal           whether branch points and masses depend on nothing that was drawn there or later
    planned_returns  leaves of a tree whose plan is carried out in full
    branches         whether trees can branch below the root
    selector         statistics that a run keeps, or None
    plan             a fresh plan for some trees
    """

    @property
    def trees(self) -> int: ...
    @property
    def causal(self) -> bool: ...
    @property
    def planned_returns(self) -> int: ...
    @property
    def branches(self) -> bool: ...
    @property
    def selector(self) -> Selector | None: ...
    def plan(self) -> Plan: ...


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

    def __post_init__(self) -> None:
        instance("selector", self.selector, Selector, ", like Threshold(0.5)")
        for name, low in {"points": 0, "width": 1, "trees": 1}.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise BadInput(f"{name} is {value!r}; it must be a whole number")
            at_least(name, int(value), low)
            at_most(name, int(value), MOST)
        for name in ("root", "nested"):
            scalar(bool, getattr(self, name), name)
        choose("weights", self.weights, ("even", "planned"))
        choose("fill", self.fill, ("none", "root"))

    @property
    def causal(self) -> bool:
        """Whether every branch point is chosen before anything is drawn there."""
        return self.selector.causal

    @property
    def branches(self) -> bool:
        """Whether trees can branch below the root."""
        return not isinstance(self.selector, RootOnly)

    def plan(self) -> Plan:
        """A fresh plan that carries this out."""
        return CausalPlan(self) if self.causal else PostHocPlan(self)

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


@dataclass(frozen=True)
class OwnPlan:
    """The growth of a method that brings a plan of its own: what `Growth` cannot say.

    make   makes a fresh plan for some trees; the other fields are those of `Planned`
    """

    make: Callable[[], Plan]
    planned_returns: int
    causal: bool = False
    branches: bool = True
    trees: int = 1
    selector: Selector | None = None

    def plan(self) -> Plan:
        """A fresh plan."""
        return self.make()


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


class _Grower:
    """One tree with its sandbox: plays what was drawn and notes what came of it."""

    def __init__(self, builder: TreeBuilder, sandbox: Sandbox, policy: Policy):
        self.builder, self.sandbox, self.policy = builder, sandbox, policy
        self.ledger = Ledger()
        observation = boundary.observation_of(sandbox, "reset", sandbox.reset(builder.task))
        self.most_steps = boundary.steps_allowed(sandbox)
        context = policy.begin(observation)
        root = builder.append(None, None, 0.0, {})
        builder.note_state(root, observation, Place(context, sandbox.snapshot()), policy.context_size(context))
        builder.state_key[root] = boundary.key_of_state(sandbox)

    def play(self, tree: int, draw: Draw, decision: Decision) -> Drawn:
        """Play one drawn action."""
        self.ledger.prefilled += decision.prefilled
        self.ledger.generated += decision.generated
        self.ledger.computed += decision.computed
        self.builder.note_entropy(draw.node, decision)
        child = self._step(draw, decision) if decision.ended else self._pause(draw, decision)
        return Drawn(tree, draw.node, child, draw.rank, draw.auxiliary, decision, self.builder.ended[child])

    def _step(self, draw: Draw, decision: Decision) -> int:
        builder, sandbox, context = self.builder, self.sandbox, draw.place.context
        sandbox.restore(draw.place.snapshot)
        outcome = boundary.outcome_of(sandbox, decision.action, sandbox.step(decision.action))
        self.ledger.env_steps += 1
        step = Step(context, decision, outcome.observation.text if outcome.done else None)
        node = builder.append(draw, step, float(outcome.reward), dict(outcome.info))
        builder.state_key[node] = boundary.key_of_state(sandbox)
        builder.ended[node] = bool(outcome.done)
        if outcome.done:
            self.ledger.returns += 1
            return node
        boundary.require_end(sandbox, builder.task, builder.played[node], self.most_steps)
        following = self.policy.extend(context, decision, outcome.observation)
        place = Place(following, sandbox.snapshot())
        builder.note_state(node, outcome.observation, place, self.policy.context_size(following))
        return node

    def _pause(self, draw: Draw, decision: Decision) -> int:
        """A state inside an action: more has been written, and nothing was done."""
        node = self.builder.append(draw, Step(draw.place.context, decision), 0.0, {})
        context = self.policy.resume(draw.place.context, decision)
        self.builder.note_pause(node, Place(context, draw.place.snapshot), self.policy.context_size(context))
        return node


def grow(
    tasks: Sequence[str],
    sandboxes: Sequence[Sandbox],
    policy: Policy,
    growth: Planned,
    key: Sequence[int],
    progress: Callable[[int], None] | None = None,
    *,
    memory: Any = None,
    spare: Iterator[str] | None = None,
) -> tuple[list[Tree], Ledger]:
    """Grow `growth.trees` trees for every task; trees of one task lie next to each other in the result.

    At most len(sandboxes) trees grow at once, each in a sandbox of its own. `key` are the integers (seed, iteration, ...)
    from which every random stream is spawned, so the trees do not depend on what else is in the batch (up to the rounding of
    a batched forward pass). `progress` is told the number of finished trees after each wave.

    A task that is given twice has further trees: its second ones have the indices after the first.

    memory  what the method remembers of earlier iterations; the plan is shown it
    spare   further tasks: where the plan sets a tree aside, all trees of its task are replaced by those of the next spare task;
            they stay in the ledger. When no spare task is left, the last trees stay
    Errors: BadInput where an argument or what a sandbox gives is of another kind than it must be, where an episode does not end
    (see `boundary.MOST_STEPS`), and where a plan that wants the whole batch at once has fewer sandboxes than trees.
    """
    tasks, sandboxes = boundary.task_ids(tasks), boundary.sandboxes_to_grow_in(sandboxes)
    having("policy", policy, boundary.POLICY, "a policy, like TabularPolicy()")
    having("growth", growth, boundary.PLANNED, "a Growth, like Growth(Threshold(0.5), points=2, width=2)")
    key = boundary.key_of_streams(key)
    start = time.perf_counter()
    wave = _Wave(sandboxes, policy, growth, key, memory)
    asked: dict[str, int] = {}
    found: list[list[Tree]] = []
    todo = list(tasks)
    while todo:
        jobs = []
        for task in todo:
            first = asked.get(task, 0)
            asked[task] = first + growth.trees
            jobs += [(task, index) for index in range(first, first + growth.trees)]
        trees: list[Tree] = []
        for begin in range(0, len(jobs), wave.size(len(jobs))):
            trees += wave.grow(jobs[begin : begin + len(sandboxes)])
            if progress:
                progress(len(trees))
        groups = [trees[i : i + growth.trees] for i in range(0, len(trees), growth.trees)]
        todo = []
        for group in groups:
            another = next(spare, None) if spare is not None and any(map(wave.plan.replaces, group)) else None
            if another is None:
                found.append(group)
            else:
                todo.append(another)
    wave.ledger.rollout_s = time.perf_counter() - start
    return [tree for group in found for tree in group], wave.ledger


class _Wave:
    """As many trees at once as there are sandboxes; `ledger` adds up what all waves spent."""

    def __init__(self, sandboxes: Sequence[Sandbox], policy: Policy, growth: Planned, key: Sequence[int], memory: Any):
        self.sandboxes, self.policy, self.growth, self.key, self.memory = sandboxes, policy, growth, list(key), memory
        self.ledger, self.number, self.plan = Ledger(), 0, growth.plan()

    def size(self, trees: int) -> int:
        """Trees of a wave; BadInput where a plan needs more at once."""
        if self.plan.whole_batch and trees > len(self.sandboxes):
            raise BadInput(
                f"this method plans all trees of an update at once, which needs {trees} sandboxes: "
                f"there are {len(self.sandboxes)} (settings: concurrency)"
            )
        return len(self.sandboxes)

    def grow(self, jobs: Sequence[tuple[str, int]]) -> list[Tree]:
        """The trees of some (task, index), side by side."""
        builders = [TreeBuilder(task, index, self.key) for task, index in jobs]
        growers = [_Grower(one, box, self.policy) for one, box in zip(builders, self.sandboxes, strict=False)]
        self.plan = self.growth.plan()
        rng = np.random.default_rng([*self.key, PLAN, self.number])
        self.number += 1
        try:
            self._rounds(growers, Forest(builders), rng)
        finally:
            # What is known decides what is read again, and with it the rounding: every wave begins knowing nothing.
            self.policy.evict_except([])
        self.ledger = sum((one.ledger for one in growers), self.ledger)
        return [builder.finish() for builder in builders]

    def _rounds(self, growers: Sequence[_Grower], forest: Forest, rng: np.random.Generator) -> None:
        pending, left_open = self.plan.keep(forest, self._ordered(forest, self.plan.forks(forest, self.memory, rng))[0])
        while pending:
            contexts = [one.draw.place.context for one in pending]
            streams = [forest.trees[one.tree].stream(one.draw.node, one.draw.rank, one.draw.auxiliary) for one in pending]
            decisions = self.policy.act(contexts, streams)
            forest.fresh = [
                growers[one.tree].play(one.tree, one.draw, decision) for one, decision in zip(pending, decisions, strict=True)
            ]
            following, over = self._ordered(forest, self.plan.forks(forest, self.memory, rng))
            following += left_open
            pending, left_open = self.plan.keep(forest, following)
            dropped = len(pending) + len(left_open) < len(following)
            self._forget(forest, [*pending, *left_open], over or dropped)

    def _ordered(self, forest: Forest, forks: Sequence[Fork]) -> tuple[list[Pending], bool]:
        """The draws that follow a round, and whether nothing follows some action of it.

        They are in the order of what was drawn, before each continuation the forks that belong to it: a fork belongs to what
        was drawn in its node in this round, else to the last that was drawn in its tree.
        """
        last = {drawn.tree: number for number, drawn in enumerate(forest.fresh)}
        here = {(drawn.tree, drawn.node): number for number, drawn in enumerate(forest.fresh)}
        behind: dict[int, list[Pending]] = {}
        for fork in forks:
            place = here.get((fork.tree, fork.node), last.get(fork.tree, len(forest.fresh)))
            draws = forest.trees[fork.tree].ask(fork.node, fork.count, auxiliary=not fork.trained, shares=fork.shares)
            behind.setdefault(place, []).extend(Pending(fork.tree, draw, True) for draw in draws)
        ordered: list[Pending] = []
        for number, drawn in enumerate(forest.fresh):
            ordered += behind.get(number, [])
            if not drawn.ended:
                (draw,) = forest.trees[drawn.tree].ask(drawn.child, 1)
                ordered.append(Pending(drawn.tree, draw, False))
        over = any(drawn.ended and number not in behind for number, drawn in enumerate(forest.fresh))
        return ordered + behind.get(len(forest.fresh), []), over

    def _forget(self, forest: Forest, pending: Sequence[Pending], path_is_over: bool) -> None:
        """Let go of every state from which nothing will be drawn any more."""
        contexts = [one.draw.place.context for one in pending]
        for number, builder in enumerate(forest.trees):
            reserved = set(self.plan.reserved(forest, number))
            builder.forget_places(reserved | {one.draw.node for one in pending if one.tree == number})
            contexts += [builder.places[node].context for node in sorted(reserved) if node in builder.places]
        if path_is_over:
            self.policy.evict_except(contexts)
