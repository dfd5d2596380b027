"""Mean, bias and covariance of a gradient estimate, and its expected cost: exactly, or by Monte Carlo with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpo.boundary import PLANNED, key_of_streams
from bpo.credit import Credit, CreditRule, declared, found_by
from bpo.errors import BadInput, at_most, counted, having, instance, named, scalar, shown
from bpo.exact.problem import Problem
from bpo.exact.realise import LIMIT, SAMPLES, USUAL, Block, Budget, Progress, Shape, blocks, by_shape, one_by_one, state_numbers
from bpo.rollout import Growth
from bpo.tree import Tree

# Norm below which a vector is rounding.
ZERO = 1e-14
# Half-width of a 99 % interval of a normal distribution, in standard errors.
Z99 = 2.5758293035489004

# Most children of a branch point: realisations of many more fit into no memory.
MOST_CHILDREN = 1_000

Sampling = Callable[[Tree], float]


@dataclass(frozen=True, eq=False)
class Moments:
    """What one tree's gradient estimate (trees of one task: their mean) is worth.

    mean          float64 [S, F], expectation of the estimate
    gradient      float64 [S, F], grad J
    trace_cov     trace of its covariance
    env_steps     expected environment steps;  returns: expected number of leaves
    exact         whether every realisation was enumerated;  realisations: how many were evaluated
    error         float64 [S, F], standard error of `mean` (0 where exact); trace_error likewise
    """

    mean: np.ndarray
    gradient: np.ndarray
    trace_cov: float
    env_steps: float
    returns: float
    exact: bool
    realisations: int
    error: np.ndarray
    trace_error: float = 0.0
    steps_error: float = 0.0

    @property
    def bias(self) -> float:
        """Euclidean norm of mean - gradient."""
        return float(np.linalg.norm(self.mean - self.gradient))

    @property
    def cosine(self) -> float | None:
        """Cosine between mean and gradient; None where one of them is zero but for rounding."""
        norms = [float(np.linalg.norm(vector)) for vector in (self.mean, self.gradient)]
        return float((self.mean * self.gradient).sum()) / math.prod(norms) if min(norms) > ZERO else None


def moments(
    problem: Problem,
    growth: Growth,
    rule: CreditRule,
    *,
    sampling: Sampling | None = None,
    limit: int = LIMIT,
    samples: int = SAMPLES,
    seed: int = 0,
    progress: Progress | None = None,
    key: Sequence[int] = (0,),
) -> Moments:
    """Moments of sum over edges of weight * advantage * score, by the select, growth and credit code that trains.

    sampling  factor by which another way of drawing makes a tree more or less likely than independent draws do (default 1)
    limit     most realisations that are enumerated; above it `samples` are drawn with `seed` (0: always)
    key       integers from which the coins of boundaries are spawned; the moments are those given these coins
    Errors: BadInput where the growth cannot be enumerated and has no Monte-Carlo fallback (nested growth, several trees, a
    problem with early ends, `sampling`), and where a rule reads more than it declared.
    """
    check_arguments(problem, growth, rule)
    for name, value, low in (("limit", limit, 0), ("samples", samples, 2), ("seed", seed, 0)):
        counted(name, value, low)
    if sampling is not None and not callable(sampling):
        raise BadInput(f"sampling is {shown(sampling)}; it must be a function of a tree that gives a number")
    key = key_of_streams(key)
    if sampling is not None:
        return _summary(problem, _slow(problem, growth, rule, sampling, limit, key), exact=True)
    exact, found = parts(problem, growth, rule, Budget(limit, samples, seed), progress, key)
    return _summary(problem, found, exact=exact)


def check_arguments(problem: Any, growth: Any, rule: Any) -> None:
    """BadInput where one of the three is of another kind than it must be."""
    instance("problem", problem, Problem, ", like Problem.from_spec(...)")
    having("growth", growth, PLANNED, "a Growth, like Growth(Threshold(0.5), points=2, width=2)")
    at_most("width", getattr(growth, "width", 1), MOST_CHILDREN)
    if not callable(rule) or isinstance(rule, type):
        raise BadInput(f"rule is {named(rule)}; it must be a credit rule, like bpo_split")


@dataclass(frozen=True)
class Part:
    """Some realisations: probability [R], estimate [R, S, F], environment steps and returns of each of them."""

    chance: np.ndarray
    estimate: np.ndarray
    env_steps: int
    returns: int


def parts(
    problem: Problem,
    growth: Growth,
    rule: CreditRule,
    budget: Budget = USUAL,
    progress: Progress | None = None,
    key: Sequence[int] = (0,),
) -> tuple[bool, Iterator[Part]]:
    """(whether these are all realisations, the realisations in parts); sampled ones have equal shares."""
    if not by_shape(problem, growth):
        return True, _slow(problem, growth, rule, None, budget.limit, key)
    exact, found = blocks(problem, growth, budget, progress, key)
    return exact, (_part(block, rule) for block in found)


def estimates(shape: Shape, states: np.ndarray, rule: CreditRule) -> np.ndarray:
    """float64 [R, S, F], the gradient estimate of every tree given its states [R, n]."""
    problem = shape.problem
    factors = coefficients(shape, states, rule)
    total = np.zeros((len(states), *problem.score.shape[::2]))
    rows = np.arange(len(states))
    for node in range(1, states.shape[1]):
        state, action = shape.edge(states, node)
        total[rows, state] += factors[:, node, None] * problem.score[state, action]
    return total


def factors(credit: Credit) -> np.ndarray:
    """float64 [n], weight * advantage."""
    return credit.weight * credit.advantage


def coefficients(
    shape: Shape, states: np.ndarray, rule: CreditRule, of: Callable[[Credit], np.ndarray] = factors
) -> np.ndarray:
    """float64 [R, n], weight * advantage of every edge, or what `of` takes from a credit.

    A rule that declared what it reads (`bpo.credit.reads`) is called once per pattern of returns, and where it does not read
    the order of the forks of a branch point, once for all orders. Any other rule is given every tree, complete.
    """
    what = declared(rule)
    if what is None:
        return np.array([of(found_by(rule, [shape.tree(row)])[0]) for row in states])
    returns = shape.returns(states)
    groups = [] if "order" in what else shape.fork_groups
    orders = []
    for columns, _ in groups:
        orders.append(np.argsort(returns[:, columns], axis=1, kind="stable"))
        returns[:, columns] = np.take_along_axis(returns[:, columns], orders[-1], axis=1)
    patterns, which = np.unique(returns, axis=0, return_inverse=True)
    sorted_ = np.array([of(found_by(rule, [shape.with_returns(pattern)])[0]) for pattern in patterns])[which.reshape(-1)]
    found = sorted_.copy()
    rows = np.arange(len(states))[:, None]
    for (_, paths), order in zip(groups, orders, strict=True):
        for place in range(len(paths)):
            found[rows, paths[order[:, place]]] = sorted_[:, paths[place]]
    return found


def _part(block: Block, rule: CreditRule) -> Part:
    tree = block.shape.template
    return Part(block.chance, estimates(block.shape, block.states, rule), len(tree) - 1, len(tree.leaves))


def _slow(
    problem: Problem, growth: Growth, rule: CreditRule, sampling: Sampling | None, limit: int, key: Sequence[int]
) -> Iterator[Part]:
    for number, (chance, trees) in enumerate(one_by_one(problem, growth, key)):
        if number == limit:
            raise BadInput(
                f"more than {limit:,} trees: nested growths, several trees, early ends and other ways of drawing are "
                "enumerated singly; take a smaller problem or fewer branch points"
            )
        if sampling is not None:
            chance *= math.prod(scalar(float, _plain(sampling(tree)), "what `sampling` gives") for tree in trees)
        total = np.zeros((1, *problem.score.shape[::2]))
        for tree, credit in zip(trees, found_by(rule, trees), strict=True):
            states = state_numbers(problem, tree)
            for node, factor in enumerate(factors(credit)):
                if node and factor:
                    parent = states[tree.parent[node]]
                    total[0, parent] += factor * problem.score[parent, problem.action(states[node])] / len(trees)
        steps, leaves = sum(len(tree) - 1 for tree in trees), sum(len(tree.leaves) for tree in trees)
        yield Part(np.array([chance]), total, steps, leaves)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _summary(problem: Problem, parts: Iterator[Part], *, exact: bool) -> Moments:
    mean, square = np.zeros(problem.gradient.shape), np.zeros(problem.gradient.shape)
    steps = steps_square = returns = total = 0.0
    count = 0
    norms: list[np.ndarray] = []
    kept: list[np.ndarray] = []
    for part in parts:
        mean += np.einsum("r,rsf->sf", part.chance, part.estimate)
        square += np.einsum("r,rsf->sf", part.chance, part.estimate**2)
        weight = float(part.chance.sum())
        total += weight
        steps += weight * part.env_steps
        steps_square += weight * part.env_steps**2
        returns += weight * part.returns
        count += len(part.chance)
        if not exact:
            norms.append((part.estimate**2).sum(axis=(1, 2)))
            kept.append(part.estimate.reshape(len(part.estimate), -1).astype(np.float32))
    if abs(total - 1) > 1e-9:
        raise BadInput(f"the probabilities of all trees sum to {total:.6g}, not to 1: `sampling` is not a way of drawing")
    variance = square - mean**2
    error, trace_error, steps_error = np.zeros_like(mean), 0.0, 0.0
    if not exact:
        distance = np.concatenate(norms) - 2 * np.concatenate(kept) @ mean.ravel() + (mean**2).sum()
        error = np.sqrt(np.maximum(variance, 0) / count)
        trace_error = float(distance.std() / math.sqrt(count))
        steps_error = math.sqrt(max(steps_square - steps**2, 0.0) / count)
    return Moments(
        mean=mean,
        gradient=problem.gradient,
        trace_cov=float(variance.sum()),
        env_steps=steps,
        returns=returns,
        exact=exact,
        realisations=count,
        error=error,
        trace_error=trace_error,
        steps_error=steps_error,
    )
