"""What a credit rule is: from the trees of an update to an advantage and a weight per edge; and what all rules share.

Most rules have the signature `rule(trees, running, **options) -> list[Credit]`: `trees` are all trees of one task, `running` is
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


def each(trees: Sequence[Tree]) -> Sequence[Tree]:
    """The trees themselves; BadInput where a rule is given something else, like one tree alone."""
    if isinstance(trees, Tree) or not isinstance(trees, Sequence) or not all(isinstance(tree, Tree) for tree in trees):
        given = "a tree" if isinstance(trees, Tree) else shown(trees)
        raise BadInput(f"a credit rule is given {given}; it needs the list of all trees of one task, like [tree]")
    return trees


def trained(tree: Tree, values: np.ndarray) -> np.ndarray:
    """`values` with 0 at the root, which is no edge, and in auxiliary rollouts, which are not trained on."""
    values = np.where(tree.auxiliary, np.zeros_like(values), values)
    values[ROOT] = 0
    return values


def require_finished(tree: Tree) -> None:
    """Raise BadInput for a tree with a path that was left open: it has no return to give credit for."""
    if not tree.ended[tree.leaves].all():
        raise BadInput(f"{tree.task}: a path was left open, and this rule needs the return of every path")
