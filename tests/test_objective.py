"""Losses: gradients by hand, and what makes them biased."""

from __future__ import annotations

import pytest
import torch

from bpo import objective


def inputs(advantages=(1.0, -2.0), weights=(0.5, 0.25)):
    values = torch.tensor([-0.5, -1.0, -0.2], requires_grad=True)
    owner = torch.tensor([0, 0, 1])
    to = torch.tensor
    return values, owner, to(advantages), to(weights)


def test_reinforce_is_the_weighted_score_and_sums_over_tokens():
    values, owner, advantage, weight = inputs()
    loss, _ = objective.reinforce(values, values.detach(), None, owner, advantage, weight)
    loss.backward()
    assert values.grad.tolist() == pytest.approx([-0.5, -0.5, 0.5])


def test_ppo_has_the_same_gradient_on_policy():
    values, owner, advantage, weight = inputs()
    loss, facts = objective.ppo_clip(values, values.detach(), None, owner, advantage, weight)
    loss.backward()
    assert values.grad.tolist() == pytest.approx([-0.5, -0.5, 0.5])
    assert facts["clipped"] == 0


def test_ppo_stops_where_the_ratio_has_left_the_range_in_the_direction_of_the_advantage():
    values, owner, advantage, weight = inputs()
    old = values.detach() - torch.tensor([0.5, 0.0, -0.5])  # ratios 1.65, 1, 0.61
    loss, facts = objective.ppo_clip(values, old, None, owner, advantage, weight, clip=0.2)
    loss.backward()
    assert values.grad.tolist() == pytest.approx([0.0, -0.5, 0.0])
    assert facts["clipped"] == 2


def test_k3_is_non_negative_zero_at_equality_and_quadratic_near_it():
    """The estimate exp(d) - d - 1 is d^2 / 2 to second order."""
    d = torch.tensor([0.0, 1e-2, -1e-2])
    assert objective.k3(torch.zeros(3), d).tolist() == pytest.approx([0, 5e-5, 5e-5], abs=2e-7)
    assert (objective.k3(torch.zeros(99), torch.linspace(-3, 3, 99)) >= 0).all()


def test_kl_pulls_every_edge_by_its_weight_even_without_an_advantage():
    values, owner, advantage, weight = inputs(advantages=(0.0, 0.0))
    reference = values.detach() + 0.3
    loss, facts = objective.ppo_clip(values, values.detach(), reference, owner, advantage, weight, beta=0.1)
    loss.backward()
    pull = 0.1 * (1 - torch.tensor(0.3).exp().item())
    assert values.grad.tolist() == pytest.approx([0.5 * pull, 0.5 * pull, 0.25 * pull], rel=1e-5)
    assert facts["kl"] == pytest.approx(3 * (torch.tensor(0.3).exp().item() - 1.3), rel=1e-4)
