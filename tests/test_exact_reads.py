"""A credit rule declares what it reads, and the exact engine believes nothing that was not declared."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, wraps

import numpy as np
import pytest

from bpo import credit, select
from bpo.errors import BadInput
from bpo.exact import AtDepths, PostHocAtDepths, Problem, moments
from bpo.rollout import Growth

PROBLEM = Problem.from_spec({"p": [0.6, 0.3, 0.8, 0.5, 0.7, 0.45, 0.2], "r": [0, 0, 1, 0, 1, 1, 0, 1]})
ROOT_GROUP = Growth(select.RootOnly(), points=1, width=3, root=True)
FORK = Growth(AtDepths(1), points=1, width=3)
SPLIT = partial(credit.bpo_split, root_baseline="zero")
CASES = {
    "rloo": (ROOT_GROUP, credit.rloo),
    "grpo": (ROOT_GROUP, credit.grpo),
    "drgrpo": (ROOT_GROUP, credit.drgrpo),
    "bpo broadcast": (Growth(PostHocAtDepths(0, 1), 2, 3), credit.bpo),
    "bpo nearest": (Growth(PostHocAtDepths(0, 1), 2, 3), partial(credit.bpo, suffix="nearest")),
    "bpo zero": (Growth(PostHocAtDepths(0, 2), 2, 3), partial(credit.bpo, suffix="zero", prefix="off")),
    "bpo_split": (Growth(select.Threshold(0.6), 2, 3, root=True), SPLIT),
    "bpo_split shrunk": (Growth(select.Threshold(0.6), 2, 3, weights="planned"), partial(SPLIT, shrink=0.4)),
}


def by_entropy(trees, running=None):
    """Mass splitting whose advantages are scaled by the entropy of the state: reads more than returns."""
    out = []
    for tree, one in zip(trees, SPLIT(trees), strict=True):
        scale = np.concatenate([[0.0], np.nan_to_num(tree.entropy)[tree.parent[1:]]])
        out.append(replace(one, advantage=one.advantage * scale))
    return out


def last_fork_alone(trees, running=None):
    """Only the fork that was drawn last is trained: reads the order of the forks."""
    return [
        replace(one, weight=np.where(tree.sibling_index == tree.sibling_index.max(), one.weight, 0.0))
        for tree, one in zip(trees, SPLIT(trees), strict=True)
    ]


def complete(rule):
    """The same rule, given every tree: what no declaration means."""
    return lambda trees: rule(trees)


def same(one, other) -> bool:
    return np.allclose(one.mean, other.mean, atol=1e-14) and abs(one.trace_cov - other.trace_cov) < 1e-14


@pytest.mark.parametrize("name", CASES)
def test_what_the_rules_of_the_library_declare_is_true(name):
    growth, rule = CASES[name]
    assert credit.declared(rule) == {"returns"}
    assert same(moments(PROBLEM, growth, rule), moments(PROBLEM, growth, complete(rule)))


def test_a_rule_is_not_believed_because_of_the_module_it_stands_in(monkeypatch):
    monkeypatch.setattr(by_entropy, "__module__", "bpo.credit")
    found = moments(PROBLEM, FORK, by_entropy)
    assert same(found, moments(PROBLEM, FORK, complete(by_entropy)))
    assert found.mean[0, 0] == pytest.approx(PROBLEM.entropy[0] * PROBLEM.gradient[0, 0])


def test_a_rule_that_reads_more_than_it_declared_is_refused():
    lying = credit.reads("returns")(_copy(by_entropy))
    with pytest.raises(BadInput, match="read `entropy`"):
        moments(PROBLEM, FORK, lying)


def test_a_rule_may_declare_that_it_reads_the_order_of_forks():
    ordered = credit.reads("returns", "order")(_copy(last_fork_alone))
    expected = moments(PROBLEM, FORK, last_fork_alone)
    assert same(moments(PROBLEM, FORK, ordered), expected)
    alike = credit.reads("returns")(_copy(last_fork_alone))
    assert not same(moments(PROBLEM, FORK, alike), expected)


def test_a_wrapper_inherits_no_declaration_and_a_partial_does():
    @wraps(credit.bpo_split)
    def wrapper(trees, running=None):
        return by_entropy(trees, running)

    assert credit.declared(wrapper) is None
    assert credit.declared(partial(partial(credit.bpo_split, shrink=0.1), root_baseline="zero")) == {"returns"}


def test_an_unknown_word_is_refused():
    with pytest.raises(ValueError, match="'entropy'"):
        credit.reads("entropy")


def _copy(rule):
    """The rule as another function, so that a declaration does not outlive its test."""
    return lambda trees, running=None: rule(trees, running)
