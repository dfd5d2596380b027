"""Fitting the policy to the reference times exp(alpha R): the exact partition as an oracle, and what estimates are worth."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch

from bpo import objective
from bpo.methods import build
from bpo.objective.balance import balance
from bpo.partition import FrozenPartition
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import grow
from bpo.sandboxes.toy import TASKS, ToyTree
from bpo.select import RootOnly
from bpo.tree import ROOT

RETURNS = [0.1, 0.9, 0.4, 0.3, 0.0, 1.0, 0.2, 0.6]
STATES = ("", "0", "1", "00", "01", "10", "11")
PATHS = ["".join(path) for path in product("01", repeat=3)]
ALPHA = 2.0


def policy_of(chance):
    return TabularPolicy.bernoulli(dict.fromkeys(STATES, chance))


def chances(policy) -> np.ndarray:
    """Probability of every path."""
    rows = {state: policy.logits[state].detach().softmax(0).numpy() for state in STATES}
    return np.array([math.prod(rows[path[:depth]][int(path[depth])] for depth in range(3)) for path in PATHS])


def exact_log_z(policy) -> float:
    return math.log(float(chances(policy) @ np.exp(ALPHA * np.array(RETURNS))))


def test_with_the_exact_partition_the_optimum_is_the_softmax_of_the_returns():
    """All eight paths, each a rollout of three tokens; at the minimum every residual is 0 and pi = pi_ref exp(alpha R) / Z."""
    reference, trained = policy_of(0.4), policy_of(0.6)
    exact = torch.tensor([exact_log_z(reference)], dtype=torch.float64)

    def log_probs(policy):
        return torch.stack([policy.logits[p[:d]].log_softmax(0)[int(p[d])] for p in PATHS for d in range(3)])

    def loss():
        values = log_probs(trained)
        tokens = objective.Tokens(
            values=values,
            old=values.detach(),
            reference=log_probs(reference).detach(),
            owner=torch.arange(24),
            advantage=torch.tensor(RETURNS, dtype=torch.float64).repeat_interleave(3),
            weight=torch.full((24,), 1 / 8, dtype=torch.float64),
            parent=torch.tensor([-1, 0, 1]).repeat(8),
            rollout=torch.arange(8).repeat_interleave(3),
            tree=torch.zeros(24, dtype=torch.int64),
        )
        return balance(tokens, log_z=exact, alpha=ALPHA)[0]

    optimizer = torch.optim.Adam(trained.parameters(), lr=0.05)
    first = loss().item()
    for _ in range(600):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert first > 0.1
    assert loss().item() < 1e-8
    wanted = chances(reference) * np.exp(ALPHA * np.array(RETURNS)) / math.exp(exact.item())
    assert chances(trained) == pytest.approx(wanted, abs=1e-4)
    assert wanted.sum() == pytest.approx(1)


def first_met(policy, draws, memory, seed=0):
    growth = build("disa", {"draws": draws, "returns": 2, "alpha": ALPHA}).growth
    trees, ledger = grow(TASKS[:1], [ToyTree(RETURNS)], policy, growth, (seed,), memory=memory)
    return trees, ledger


def test_the_frozen_partition_is_estimated_by_importance_from_the_policy_that_acted():
    reference, acting = policy_of(0.4), policy_of(0.55)
    memory = FrozenPartition(RootOnly(), ALPHA)
    memory.attach(acting, reference)
    trees, ledger = first_met(acting, 3000, memory)
    assert ledger.returns == 3002
    (found,) = memory.log_z(trees).tolist()
    assert found == pytest.approx(exact_log_z(reference), abs=0.02)
    assert abs(exact_log_z(acting) - exact_log_z(reference)) > 0.02


def test_a_partition_that_was_estimated_is_frozen_and_costs_nothing_more():
    policy = policy_of(0.4)
    memory = FrozenPartition(RootOnly(), ALPHA)
    memory.attach(policy, policy.frozen_copy())
    trees, _ = first_met(policy, 5, memory)
    before = memory.log_z(trees).tolist()
    again, ledger = first_met(policy_of(0.7), 5, memory, seed=1)
    assert ledger.returns == 2
    assert not again[0].auxiliary_children[ROOT]
    assert memory.log_z(again).tolist() == before
    resumed = FrozenPartition(RootOnly(), ALPHA)
    resumed.load_state_dict(memory.state_dict())
    assert resumed.log_z(again).tolist() == before


def test_a_learned_partition_is_trained_by_the_objective_and_begins_at_0():
    method = build("flowrl", {"returns": 3})
    memory, policy = method.memory(), policy_of(0.4)
    memory.attach(policy, policy.frozen_copy())
    trees, _ = grow(TASKS[:2], [ToyTree(RETURNS)] * 1, policy, method.growth, (0,))
    found = memory.log_z(trees)
    assert found.tolist() == [0.0, 0.0]
    found.sum().backward()
    (weights,) = memory.parameters()
    assert weights.grad.tolist() == [2.0, *[0.0] * 6, 2.0]  # the root is the first of the states
