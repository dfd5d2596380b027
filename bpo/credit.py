"""Who gets credit: one pure function per rule, from the leaf returns of one task's trees to an advantage and a weight per edge.

Every rule has the signature `rule(trees, running, **options) -> list[Credit]`: `trees` are all trees of one task, `running` is
the mean root value of earlier iterations (None before there is one). `per_task` makes it a rule for a whole batch, which is
what a method has. The scale belongs to the rule: the objective computes sum(weight * loss) / number of trees and normalises
nothing by what was realised.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from bpo.errors import BadInput, shown
from bpo.tree import ROOT, Tree

if TYPE_CHECKING:
    from bpo.memory import Memory

# Returns of a group that differ by less than this count as equal: the group sends no gradient, KL included.
SPREAD = 1e-12
# Largest distance from one of weights that sum to one.
TOTAL = 1e-9


@dataclass(frozen=True)
class Credit:
    """Per node of one tree (entry 0 belongs to no edge and is 0).

    advantage  float64 [n]  advantage of the edge into the node
    weight     float64 [n]  factor of that edge in the loss
    has_signal bool [n]     False where the group behind the advantage had no spread: such an edge sends no gradient at all, not
                            even that of the KL term
    """

    advantage: np.ndarray
    weight: np.ndarray
    has_signal: np.ndarray


CreditRule = Callable[..., list[Credit]]

# What a rule may declare that it reads. Declared rules, each by itself: a wrapper inherits nothing.
READABLE = ("returns", "order")
_DECLARED: WeakKeyDictionary[Callable, frozenset[str]] = WeakKeyDictionary()


def reads(*what: str) -> Callable[[CreditRule], CreditRule]:
    """Decorator: this rule reads nothing of a tree but its shape, its masses and `what`.

    "returns" are those of the leaves, "order" the ranks of the forks of a branch point: without it the forks are treated alike.
    The exact engine then calls the rule once for many trees. A rule that reads more (states, actions, entropies) declares
    nothing and is given every tree, complete. Errors: BadInput for a word that is not in READABLE.
    """
    if not set(what) <= set(READABLE):
        raise BadInput(f"a credit rule can declare {', '.join(READABLE)}, not {', '.join(map(repr, what))}")

    def declare(rule: CreditRule) -> CreditRule:
        _DECLARED[rule] = frozenset(what)
        return rule

    return declare


def per_task(rule: CreditRule) -> CreditRule:
    """A rule for the trees of one task as a rule for a whole batch: `rule` is applied to the trees of each task in turn.

    A rule of a batch is called as rule(trees, memory) and returns one Credit per tree, in their order; `memory` (or None) is
    what the method remembers of earlier iterations, and the rule of a task is given its mean root value.
    """
    return partial(_per_task, rule)


def _per_task(rule: CreditRule, trees: Sequence[Tree], memory: Memory | None = None) -> list[Credit]:
    running = None if memory is None else memory.running
    grouped = itertools.groupby(trees, key=lambda tree: tree.task)
    return [credit for _, group in grouped for credit in rule(list(group), running)]


def declared(rule: CreditRule) -> frozenset[str] | None:
    """What a rule, or a partial of it, declared with `reads`; None where it declared nothing and may read everything."""
    while isinstance(rule, partial):
        rule = rule.args[0] if rule.func is _per_task else rule.func
    return _DECLARED.get(rule)


def leave_one_out(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Advantage of each member of a group over the weighted mean of the *other* members.

    values, weights: float [K] with weights summing to one; returns float [K]. A member that has all the weight has no others:
    nan. Equal weights give the leave-one-out baseline of RLOO (arXiv 2402.14740). Unbiased where weights do not depend on
    the members' actions, since the baseline of a member never sees its own return. Errors: BadInput for values and weights
    of different shapes, and for weights that sum to something else.
    """
    values, weights = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    if values.shape != weights.shape or values.ndim != 1:
        raise BadInput(f"values have the shape {values.shape}, weights {weights.shape}; both must be lists of equal length")
    if len(weights) and not abs(weights.sum() - 1.0) < TOTAL:
        raise BadInput(f"weights sum to {weights.sum():.6g}; they must sum to one")
    with np.errstate(invalid="ignore", divide="ignore"):
        others = (np.dot(weights, values) - weights * values) / (1.0 - weights)
    return np.where(weights < 1.0, values - others, np.nan)


@reads("returns")
def rloo(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """REINFORCE with the leave-one-out mean of the other rollouts as baseline (arXiv 2402.14740).

    Needs trees that branch at the root only, into K >= 2 rollouts; every step of a rollout has its advantage and weight 1/K.
    Unbiased.
    """
    return [_rollouts(tree, lambda g: leave_one_out(g, np.full(len(g), 1 / len(g)))) for tree in _each(trees)]


@reads("returns")
def grpo(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """Group-normalised advantage (R - mean) / std with the population std (arXiv 2402.03300; BPO's Eq. 2).

    Same shape and weights as `rloo` (sum over steps, mean over rollouts: no division by the response length). Biased: the
    own return is in mean and std.
    """
    return [_rollouts(tree, lambda g: (g - g.mean()) / g.std()) for tree in _each(trees)]


@reads("returns")
def drgrpo(trees: Sequence[Tree], running: float | None = None) -> list[Credit]:
    """GRPO without the division by the standard deviation (arXiv 2503.20783): R - mean.

    Biased by the known factor (K-1)/K, which does not change the direction.
    """
    return [_rollouts(tree, lambda g: g - g.mean()) for tree in _each(trees)]


@reads("returns")
def bpo(
    trees: Sequence[Tree],
    running: float | None = None,
    *,
    suffix: str = "broadcast",
    prefix: str = "backbone",
    lam: float = 0.95,
) -> list[Credit]:
    """The paper's estimator, read literally (arXiv 2607.14171, Eqs. 3 to 5); every edge has weight 1.

    At a branch point child k gets A = G_k - mean of the other children's G, where G_k is the return of the path that child k
    continues. `suffix` is what the steps after it on that path get, which the paper leaves open (new here): "zero";
    "broadcast", A is added on all of them; "nearest", A holds until the next branch point of the path. `prefix="backbone"` adds
    lam^(t-u) times the backbone's A to the backbone steps u < t (Eq. 4); "off" leaves them out. Biased in general.
    """
    return [_literal(tree, suffix, prefix, lam) for tree in _each(trees)]


@reads("returns")
def bpo_split(
    trees: Sequence[Tree], running: float | None = None, *, root_baseline: str = "trees", shrink: float = 0.0
) -> list[Credit]:
    """Mass splitting (docs/theory.md, section 5): advantage Q_e - b_e, weight m_e.

    Q_e is the mass-weighted mean return of the leaves below the edge, b_e the weighted mean of Q over the other children of
    the nearest branch point at or above it. Above the first branch point `root_baseline` is "trees" (mean root value of the
    task's other trees), "running" (mean of earlier iterations) or "zero". `shrink` in [0, 1] mixes the baseline of the level
    above into the sibling mean: b = (1 - shrink) * siblings + shrink * b above, which holds nothing from below the branch
    point; the root's own group has no level above and stays as it is. Unbiased for grad J when branch points are causal,
    children are i.i.d. draws with replacement and neither weights nor shrink depend on the children's actions (theory.md, T3).
    Source: importance splitting; for rollout trees the Branch Aggregation Lemma of OPTS-TTPO (arXiv 2609.40035). New here:
    branch points that are causal by construction, sibling baselines without a critic, planned weights, shrinkage.
    """
    if root_baseline not in ("trees", "running", "zero"):
        raise BadInput(f"root_baseline is {root_baseline!r}; it must be 'trees', 'running' or 'zero'")
    if not isinstance(shrink, float | int | np.number) or not 0 <= shrink <= 1:
        raise BadInput(f"shrink is {shown(shrink)}; it must be a number from 0 to 1")
    roots = np.array([tree.value[ROOT] for tree in _each(trees)])
    credits = []
    for i, tree in enumerate(trees):
        if len(tree.children[ROOT]) > 1:
            base = 0.0  # never used: every edge has a branch point at or above it
        elif root_baseline == "trees":
            if len(trees) < 2:
                raise BadInput("root_baseline='trees' needs at least two trees per task or the root as a branch point")
            base = float(np.delete(roots, i).mean())
        elif root_baseline == "running":
            base = 0.0 if running is None else running
        else:
            base = 0.0
        credits.append(_split(tree, base, shrink))
    return credits


def found_by(rule: CreditRule, trees: Sequence[Tree], *given: object) -> list[Credit]:
    """What rule(trees, *given) finds; BadInput where that is not a Credit for each tree, with an entry per node."""
    found = rule(trees, *given)
    if not isinstance(found, Sequence) or len(found) != len(trees):
        raise BadInput(f"the credit rule gives {shown(found)}; it must give a list of {len(trees)} credits, one for each tree")
    for place, (tree, credit) in enumerate(zip(trees, found, strict=True)):
        if not isinstance(credit, Credit):
            raise BadInput(f"the credit rule gives {shown(credit)} for tree {place}; it must give a Credit")
        for name in ("advantage", "weight", "has_signal"):
            if np.shape(getattr(credit, name)) != (len(tree),):
                shape = np.shape(getattr(credit, name))
                raise BadInput(f"the credit rule gives {name} of shape {shape} for tree {place}, which has {len(tree)} nodes")
    return list(found)


def _each(trees: Sequence[Tree]) -> Sequence[Tree]:
    """The trees themselves; BadInput where a rule is given something else, like one tree alone."""
    if isinstance(trees, Tree) or not isinstance(trees, Sequence) or not all(isinstance(tree, Tree) for tree in trees):
        given = "a tree" if isinstance(trees, Tree) else shown(trees)
        raise BadInput(f"a credit rule is given {given}; it needs the list of all trees of one task, like [tree]")
    return trees


def _rollouts(tree: Tree, advantages: Callable[[np.ndarray], np.ndarray]) -> Credit:
    _require_finished(tree)
    children = tree.children[ROOT]
    if len(children) < 2 or any(node != ROOT for node in tree.branch_points):
        raise BadInput(f"{tree.task}: this rule needs two or more rollouts from the root and no other branch point")
    returns = np.array([tree.returns[tree.main_leaf(child)] for child in children])
    spread = np.ptp(returns) > SPREAD
    values = advantages(returns) if spread else np.zeros(len(children))
    advantage, has_signal = np.zeros(len(tree)), np.zeros(len(tree), bool)
    for child, value in zip(children, values, strict=True):
        for node in tree.main_path(child):
            advantage[node], has_signal[node] = value, spread
    return Credit(advantage, _trained(tree, tree.mass), has_signal)


def _literal(tree: Tree, suffix: str, prefix: str, lam: float) -> Credit:
    _require_finished(tree)
    n = len(tree)
    advantage, spread, flat = np.zeros(n), np.zeros(n, bool), np.zeros(n, bool)

    def credit(node: int, value: float, has_spread: bool) -> None:
        advantage[node] += value
        (spread if has_spread else flat)[node] = True

    backbone = set(tree.backbone)
    for point in tree.branch_points:
        children = tree.children[point]
        returns = np.array([tree.returns[tree.main_leaf(child)] for child in children])
        has_spread = bool(np.ptp(returns) > SPREAD)
        local = leave_one_out(returns, np.full(len(children), 1 / len(children)))
        for child, value in zip(children, local, strict=True):
            credit(child, value, has_spread)
            if suffix == "zero":
                continue
            for node in tree.main_path(child)[1:]:
                if suffix == "nearest" and len(tree.children[tree.parent[node]]) > 1:
                    break
                credit(node, value, has_spread)
        if prefix == "backbone" and point in backbone:
            for node in tree.backbone[1 : tree.depth[point] + 1]:
                credit(node, lam ** float(tree.depth[point] - tree.depth[node] + 1) * local[0], has_spread)
    # An edge that no group credits belongs to the tree's loss (its KL) as long as the tree has a signal at all.
    has_signal = spread | (~spread & ~flat & spread.any())
    return Credit(advantage, _trained(tree, np.ones(n)), _trained(tree, has_signal))


def _split(tree: Tree, base: float, shrink: float) -> Credit:
    _require_finished(tree)
    n = len(tree)
    advantage, baseline, has_signal = np.zeros(n), np.full(n, base), np.zeros(n, bool)
    has_signal[ROOT] = abs(tree.value[ROOT] - base) > SPREAD
    for node in range(n):
        children = list(tree.children[node])
        if not children:
            continue
        if len(children) == 1:  # no group: the baseline is the one of the level above
            (child,) = children
            baseline[child], has_signal[child] = baseline[node], has_signal[node]
            advantage[child] = tree.value[child] - baseline[node] if has_signal[node] else 0.0
            continue
        values, weights = tree.value[children], tree.weight[children]
        # A child with all the weight has no others: nan, and the baseline is again the one of the level above.
        gain = leave_one_out(values, weights)
        if shrink and node != ROOT:
            gain = gain + shrink * (values - gain - baseline[node])
        grouped = ~np.isnan(gain)
        baseline[children] = np.where(grouped, values - gain, baseline[node])
        # Without shrinkage equal returns have no advantage; with it they may differ from the level above, and count.
        contrast = np.ptp(values) > SPREAD or (shrink > 0 and np.nanmax(np.abs(gain), initial=0.0) > SPREAD)
        has_signal[children] = np.where(grouped, contrast, has_signal[node])
        advantage[children] = np.where(has_signal[children], np.where(grouped, gain, values - baseline[node]), 0.0)
    return Credit(advantage, _trained(tree, tree.mass), _trained(tree, has_signal))


def _trained(tree: Tree, values: np.ndarray) -> np.ndarray:
    """`values` with 0 at the root, which is no edge, and in auxiliary rollouts, which are not trained on."""
    values = np.where(tree.auxiliary, np.zeros_like(values), values)
    values[ROOT] = 0
    return values


def _require_finished(tree: Tree) -> None:
    """Raise BadInput for a tree with a path that was left open: it has no return to give credit for."""
    if not tree.ended[tree.leaves].all():
        raise BadInput(f"{tree.task}: a path was left open, and this rule needs the return of every path")
