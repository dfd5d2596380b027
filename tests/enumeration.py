"""Every realisation of a rollout tree on a small decision tree, with its probability, by the library's own growth and credit.

The policy's draws are read from a tape; running through all tapes enumerates all trees.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bpo.credit import Credit
from bpo.policy import Decision
from bpo.rollout import Growth, grow
from bpo.sandboxes.toy import ToyTree
from bpo.tree import Tree


class TapePolicy:
    """Draws actions from a tape; where the tape ends it appends action 0."""

    def __init__(self, probabilities: dict[str, np.ndarray]):
        self.probabilities = probabilities
        self.tape: list[tuple[int, int]] = []  # (action, number of actions)
        self.at = 0
        self.probability = 1.0

    def begin(self, observation):
        return observation

    def extend(self, context, decision, observation):
        return observation

    def context_size(self, context):
        return context.step

    def act(self, contexts, rngs):
        return [self._decide(context) for context in contexts]

    def _decide(self, context):
        probs = self.probabilities[context.text]
        if self.at == len(self.tape):
            self.tape.append((0, len(probs)))
        action = self.tape[self.at][0]
        self.at += 1
        self.probability *= probs[action]
        entropy = float(-(probs * np.log(probs)).sum())
        return Decision(str(action), (action,), (float(np.log(probs[action])),), (tuple(range(len(probs))),), entropy)

    def next_tape(self) -> bool:
        while self.tape and self.tape[-1][0] == self.tape[-1][1] - 1:
            self.tape.pop()
        if not self.tape:
            return False
        self.tape[-1] = (self.tape[-1][0] + 1, self.tape[-1][1])
        return True


@dataclass
class Problem:
    """A decision tree with probabilities per state (breadth first) and returns per leaf (lexicographic)."""

    probabilities: dict[str, np.ndarray]
    returns: list[float]

    @classmethod
    def binary(cls, p: list[float], r: list[float]) -> Problem:
        depth = len(r).bit_length() - 1
        states = ["".join(s) for d in range(depth) for s in itertools.product("01", repeat=d)]
        return cls({s: np.array([1 - x, x]) for s, x in zip(states, p, strict=True)}, r)

    def gradient(self) -> np.ndarray:
        """Exact gradient of J, one entry per (state, action) logit."""
        width = len(self.probabilities[""])
        depth = round(np.log(len(self.returns)) / np.log(width))
        total = np.zeros(len(self.probabilities) * width)
        for index, actions in enumerate(itertools.product(range(width), repeat=depth)):
            weight = np.prod([self.probabilities["".join(map(str, actions[:d]))][actions[d]] for d in range(depth)])
            score = sum(self.score("".join(map(str, actions[:d])), actions[d]) for d in range(depth))
            total += weight * self.returns[index] * score
        return total

    def score(self, state: str, action: int) -> np.ndarray:
        width = len(self.probabilities[""])
        out = np.zeros((len(self.probabilities), width))
        row = list(self.probabilities).index(state)
        out[row] = -self.probabilities[state]
        out[row, action] += 1
        return out.ravel()

    def estimate(self, tree: Tree, credit: Credit) -> np.ndarray:
        """The gradient estimate of one tree: sum over edges of weight * advantage * score."""
        total = np.zeros(len(self.probabilities) * len(self.probabilities[""]))
        for node in range(1, len(tree)):
            step = tree.steps[node]
            factor = credit.weight[node] * credit.advantage[node]
            if factor:
                total += factor * self.score(step.context.text, int(step.decision.action))
        return total


def realisations(
    problem: Problem, growth: Callable[[], Growth], trees: int = 1, coins: int = 1
) -> Iterator[tuple[float, list[Tree]]]:
    """(probability, trees of one task) of every realisation. `coins` averages over that many fixed coin streams."""
    width = len(problem.probabilities[""])
    for seed in range(coins):
        policy = TapePolicy(problem.probabilities)
        while True:
            policy.at, policy.probability = 0, 1.0
            plan = growth()
            plan = Growth(**{**vars(plan), "trees": trees})
            boxes = [ToyTree(problem.returns, width) for _ in range(trees)]
            grown, _ = grow(["tree-00"], boxes, policy, plan, (seed,))
            yield policy.probability / coins, grown
            if not policy.next_tape():
                break


def moments(problem: Problem, growth, credit, trees: int = 1, coins: int = 1) -> tuple[np.ndarray, float, float, float]:
    """(mean, trace of covariance, expected environment steps, total probability) of an estimate, averaged over trees."""
    mean, square, steps, total = 0.0, 0.0, 0.0, 0.0
    for probability, grown in realisations(problem, growth, trees, coins):
        credits = credit(grown)
        estimate = sum(problem.estimate(t, c) for t, c in zip(grown, credits, strict=True)) / len(grown)
        mean = mean + probability * estimate
        square += probability * float(estimate @ estimate)
        steps += probability * sum(len(t) - 1 for t in grown)
        total += probability
    return mean, square - float(mean @ mean), steps, total
