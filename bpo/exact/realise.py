"""All rollout trees that a growth can produce on a decision tree, each with its probability, by the growth code of training.

Where forks do not branch again, a tree's shape is decided by its backbone. So `grow` is called once per backbone, and the
actions of the forks are filled in as arrays: one `Shape` stands for all trees of its backbone. Nested growths and several trees
per task are enumerated one tree at a time, by running `grow` over every sequence of draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bpo.errors import BadInput
from bpo.exact.problem import Problem
from bpo.policy import Decision
from bpo.rollout import Growth, grow
from bpo.sandbox import Observation, Outcome
from bpo.sandboxes.toy import TASKS, ToyTree
from bpo.tree import ROOT, Step, Tree

# Realisations that are enumerated at most, and how many are sampled where there are more.
LIMIT = 2_000_000
SAMPLES = 100_000
# Realisations per array operation.
CHUNK = 20_000
# Cached properties of Tree that parent, child and weight decide.
STRUCTURE = ("children", "auxiliary_children", "depth", "mass", "leaves", "branch_points", "backbone")
# Fields of Tree that trees with the same shape and the same returns need not share.
HIDDEN = ("entropy", "actions", "position", "steps", "outcome")


Progress = Callable[[int, int], None]  # (realisations done, of how many)


class TapePolicy:
    """Draws its actions from a tape; where the tape ends it appends action 0.

    Contexts are names of states. `probability` is that of the draws since the last `rewind`.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self.tape: list[int] = []
        self.rewind()

    def rewind(self) -> None:
        """Read the tape from its start."""
        self.at, self.probability = 0, 1.0

    def next_tape(self) -> bool:
        """Advance to the next sequence of draws; False after the last."""
        while self.tape and self.tape[-1] == self.problem.width - 1:
            self.tape.pop()
        if not self.tape:
            return False
        self.tape[-1] += 1
        return True

    def begin(self, observation):
        return observation.text

    def extend(self, context, decision, observation):
        return observation.text

    def context_size(self, context):
        return len(context)

    def evict_except(self, contexts):
        """Nothing is kept."""

    def act(self, contexts, rngs):
        return [self._draw(context) for context in contexts]

    def _draw(self, state: str) -> Decision:
        if self.at == len(self.tape):
            self.tape.append(0)
        action = self.tape[self.at]
        self.at += 1
        self.probability *= self.problem.probabilities[self.problem.number[state], action]
        return self.problem.decisions[state][action]


class BackbonePolicy(TapePolicy):
    """Plays given actions on the backbone and action 0 on every fork.

    Forks join a step after the backbone has left their branch point, so a state is asked for by the backbone first.
    """

    def __init__(self, problem: Problem, actions: Sequence[int]):
        super().__init__(problem)
        self.ahead = {"".join(map(str, actions[:depth])): action for depth, action in enumerate(actions)}

    def _draw(self, state: str) -> Decision:
        return self.problem.decisions[state][self.ahead.pop(state, 0)]


class ReturnsOnly(Tree):
    """A tree that stands for all trees with these returns and this shape; what HIDDEN names has no value in it."""

    def __getattr__(self, name: str) -> Any:
        if name in HIDDEN:
            raise BadInput(
                f"a credit rule that declared that it reads returns alone read `{name}` of a tree: take `reads` off the rule"
            )
        raise AttributeError(name)


@dataclass(frozen=True)
class Shape:
    """All trees with one backbone.

    template  one of them, with action 0 on every fork
    nodes     nodes whose edges are drawn freely: all that are not on the backbone, in order of creation
    chance    probability of the backbone's actions
    """

    problem: Problem
    template: Tree
    nodes: tuple[int, ...]
    chance: float

    @property
    def size(self) -> int:
        """Number of trees."""
        return self.problem.width ** len(self.nodes)

    def all(self) -> Iterator[np.ndarray]:
        """int [R, nodes], the free actions of all trees, in chunks."""
        width, count = self.problem.width, len(self.nodes)
        powers = width ** np.arange(count - 1, -1, -1)
        for start in range(0, self.size, CHUNK):
            numbers = np.arange(start, min(start + CHUNK, self.size))
            yield numbers[:, None] // powers % width

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """int [count, nodes], free actions drawn from the policy."""
        actions = np.zeros((count, len(self.nodes)), int)
        states = self._start(count)
        limits = self.problem.probabilities.cumsum(axis=1)[:, :-1]
        for column, node in enumerate(self.nodes):
            parent = states[:, self.template.parent[node]]
            actions[:, column] = (rng.random(count)[:, None] > limits[parent]).sum(axis=1)
            states[:, node] = self.problem.child(parent, actions[:, column])
        return actions

    def states(self, actions: np.ndarray) -> np.ndarray:
        """int [R, n], number of the state of every node; leaves follow the states."""
        states = self._start(len(actions))
        for column, node in enumerate(self.nodes):
            states[:, node] = self.problem.child(states[:, self.template.parent[node]], actions[:, column])
        return states

    def probability(self, states: np.ndarray) -> np.ndarray:
        """float64 [R], probability of each tree: that of the backbone times that of every free draw."""
        chance = np.full(len(states), self.chance)
        for node in self.nodes:
            chance *= self.problem.probabilities[self.edge(states, node)]
        return chance

    def edge(self, states: np.ndarray, node: int) -> tuple[np.ndarray, np.ndarray]:
        """(state [R], action [R]) of the edge into a node."""
        return states[:, self.template.parent[node]], self.problem.action(states[:, node])

    def returns(self, states: np.ndarray) -> np.ndarray:
        """float64 [R, leaves], the return of every leaf."""
        return self.problem.returns[states[:, self.template.leaves] - len(self.problem.states)]

    def tree(self, states: np.ndarray) -> Tree:
        """The tree with these states [n], complete: what `grow` makes when these actions are drawn."""
        reward, steps = np.zeros(len(states)), [None]
        for node in range(1, len(states)):
            name = self.problem.states[states[self.template.parent[node]]]
            steps.append(Step(name, self.problem.decisions[name][self.problem.action(states[node])]))
        entropy = np.full(len(states), np.nan)
        inner = states < len(self.problem.states)
        entropy[inner] = self.problem.entropy[states[inner]]
        reward[~inner] = self.problem.returns[states[~inner] - len(self.problem.states)]
        won = tuple(
            {"won": bool(r > 0), "truncated": False, "task_type": "toy"} if node else {} for node, r in enumerate(reward)
        )
        return self._filled(reward=reward, entropy=entropy, steps=tuple(steps), outcome=won)

    def with_returns(self, returns: np.ndarray) -> Tree:
        """The template with other returns at its leaves [leaves], for rules that read returns and shape alone.

        It stands for many trees, so what they do not share cannot be read from it.
        """
        reward = np.zeros(len(self.template))
        reward[self.template.leaves] = returns
        tree = self._filled(reward=reward)
        for name in HIDDEN:
            del vars(tree)[name]
        object.__setattr__(tree, "__class__", ReturnsOnly)
        return tree

    @cached_property
    def fork_groups(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Per branch point: columns of `returns` [forks] and nodes of the paths [forks, length] of the forks that leave it."""
        tree, groups = self.template, []
        column = {int(leaf): i for i, leaf in enumerate(tree.leaves)}
        for point in tree.branch_points:
            paths = [tree.main_path(child) for child in tree.children[point] if child not in tree.backbone]
            groups.append((np.array([column[path[-1]] for path in paths]), np.array(paths)))
        return groups

    @cached_property
    def _structure(self) -> dict[str, Any]:
        return {name: getattr(self.template, name) for name in STRUCTURE}

    def _filled(self, **content: Any) -> Tree:
        # Millions of trees have this shape: what follows from the shape alone is taken over, not computed again.
        tree = replace(self.template, **content)
        vars(tree).update(self._structure)
        return tree

    def _start(self, count: int) -> np.ndarray:
        # The states of the forks are overwritten.
        return np.tile(state_numbers(self.problem, self.template), (count, 1))


@dataclass(frozen=True)
class Block:
    """Some trees of one shape: the states [R, n] and the probability [R] of each; sampled trees have equal shares."""

    shape: Shape
    states: np.ndarray
    chance: np.ndarray


@dataclass(frozen=True)
class Budget:
    """How much is enumerated.

    limit    most realisations; a growth with more is sampled (theory.md, section 8)
    samples  how many are drawn then, with `seed`
    """

    limit: int = LIMIT
    samples: int = SAMPLES
    seed: int = 0


USUAL = Budget()


def blocks(
    problem: Problem,
    growth: Growth,
    budget: Budget = USUAL,
    progress: Progress | None = None,
    key: Sequence[int] = (0,),
) -> tuple[bool, Iterator[Block]]:
    """(whether these are all trees, the trees in blocks): a sample where there are more than the budget's limit."""
    found = shapes(problem, growth, key)
    total = sum(shape.size for shape in found)
    exact = total <= budget.limit
    made = _all_blocks(found) if exact else _sampled_blocks(found, budget)
    return exact, _counted(made, total if exact else budget.samples, progress)


def _all_blocks(found: Sequence[Shape]) -> Iterator[Block]:
    for shape in found:
        for actions in shape.all():
            states = shape.states(actions)
            yield Block(shape, states, shape.probability(states))


def _sampled_blocks(found: Sequence[Shape], budget: Budget) -> Iterator[Block]:
    rng = np.random.default_rng(budget.seed)
    chances = np.array([shape.chance for shape in found])
    for shape, count in zip(found, rng.multinomial(budget.samples, chances / sum(chances)), strict=True):
        for start in range(0, count, CHUNK):
            actions = shape.sample(min(CHUNK, count - start), rng)
            yield Block(shape, shape.states(actions), np.full(len(actions), 1 / budget.samples))


def _counted(made: Iterator[Block], total: int, progress: Progress | None) -> Iterator[Block]:
    done = 0
    for block in made:
        yield block
        done += len(block.chance)
        if progress:
            progress(done, total)


def shapes(problem: Problem, growth: Growth, key: Sequence[int] = (0,)) -> list[Shape]:
    """One Shape per backbone, by calling `grow`. Coins are those of `key`: what follows holds given these coins.

    Errors: BadInput for a problem with early ends, where forks differ in length and a backbone does not decide the shape.
    """
    if problem.ends:
        raise BadInput("a problem with early ends (`ends`) has no shapes: its trees can only be enumerated singly")
    found = []
    for actions in itertools.product(range(problem.width), repeat=problem.depth):
        policy = BackbonePolicy(problem, actions)
        tree = grow(TASKS[:1], [_sandbox(problem)], policy, growth, key)[0][0]
        leaf = state_numbers(problem, tree)[tree.main_leaf(ROOT)]
        free = tuple(node for node in range(1, len(tree)) if node not in tree.backbone)
        found.append(Shape(problem, tree, free, float(problem.reach[leaf])))
    return found


def one_by_one(problem: Problem, growth: Growth, key: Sequence[int] = (0,)) -> Iterator[tuple[float, list[Tree]]]:
    """(probability, trees of one task) of every realisation, each grown by `grow`; for nested growths and several trees."""
    policy = TapePolicy(problem)
    while True:
        policy.rewind()
        trees, _ = grow(TASKS[:1], [_sandbox(problem) for _ in range(growth.trees)], policy, growth, key)
        yield policy.probability, trees
        if not policy.next_tape():
            return


def by_shape(problem: Problem, growth: Growth) -> bool:
    """Whether the backbone decides the shape, so that `shapes` describes all trees of this growth."""
    return isinstance(growth, Growth) and growth.trees == 1 and not growth.nested and not problem.ends


def state_numbers(problem: Problem, tree: Tree) -> np.ndarray:
    """int [n], number of the state of every node of a grown tree."""
    states = np.zeros(len(tree), int)
    for node in range(ROOT + 1, len(tree)):
        states[node] = problem.child(states[tree.parent[node]], int(tree.steps[node].decision.action))
    return states


class EndingTree(ToyTree):
    """A ToyTree whose episodes also end in the inner states `ends`, with the return that is given there."""

    def __init__(self, returns: Sequence[float], width: int, ends: Mapping[str, float]):
        super().__init__(returns, width)
        self.ends = ends

    def step(self, action: str) -> Outcome:
        if self._over():
            raise RuntimeError("the episode is over: reset or restore before the next step")
        outcome = super().step(action)
        if not self._over():
            return outcome
        reward = float(self.ends[outcome.observation.text])
        return replace(outcome, reward=reward, done=True, info={**outcome.info, "won": reward > 0})

    def fork(self, n: int) -> list[ToyTree]:
        forks: list[ToyTree] = []
        for _ in range(n):
            fork = EndingTree(self.returns, self.width, self.ends)
            fork.reset(TASKS[0])
            fork._path = self._alive()
            forks.append(fork)
        return forks

    def _over(self) -> bool:
        return "".join(map(str, self._alive())) in self.ends

    def _observe(self) -> Observation:
        observation = super()._observe()
        return replace(observation, actions=()) if observation.text in self.ends else observation


def _sandbox(problem: Problem) -> ToyTree:
    return EndingTree(problem.returns.tolist(), problem.width, problem.ends)
