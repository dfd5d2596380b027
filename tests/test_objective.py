"""Losses: gradients by hand, and what makes them biased."""

from __future__ import annotations

import math

import pytest
import torch

from bpo import objective


def tokens(advantages=(1.0, -2.0), weights=(0.5, 0.25), old=(0.0, 0.0, 0.0), reference=None):
    """Two edges of one path, with two tokens and one; `old` and `reference` are added to the log-probs of the policy."""
    values = torch.tensor([-0.5, -1.0, -0.2], requires_grad=True)
    fixed = values.detach()
    return objective.Tokens(
        values=values,
        old=fixed + torch.tensor(old),
        reference=None if reference is None else fixed + reference,
        owner=torch.tensor([0, 0, 1]),
        advantage=torch.tensor(advantages),
        weight=torch.tensor(weights),
        parent=torch.tensor([-1, 0]),
        rollout=torch.tensor([0, 0]),
        tree=torch.tensor([0, 0]),
    )


def test_reinforce_is_the_weighted_score_and_sums_over_tokens():
    given = tokens()
    loss, _ = objective.reinforce(given)
    loss.backward()
    assert given.values.grad.tolist() == pytest.approx([-0.5, -0.5, 0.5])


def test_ppo_has_the_same_gradient_on_policy():
    given = tokens()
    loss, facts = objective.ppo_clip(given)
    loss.backward()
    assert given.values.grad.tolist() == pytest.approx([-0.5, -0.5, 0.5])
    assert facts["clipped"] == 0


def test_ppo_stops_where_the_ratio_has_left_the_range_in_the_direction_of_the_advantage():
    given = tokens(old=(-0.5, 0.0, 0.5))  # ratios 1.65, 1, 0.61
    loss, facts = objective.ppo_clip(given, clip=0.2)
    loss.backward()
    assert given.values.grad.tolist() == pytest.approx([0.0, -0.5, 0.0])
    assert facts["clipped"] == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_k3_loses_neither_small_differences_nor_large_ones(dtype):
    """exp(d) - d - 1 is 0 in float32 for d = 1e-4 and inf for d = 89.3; the right values are 5e-9 and 6e38."""
    small = objective.k3(torch.tensor([0.0], dtype=dtype), torch.tensor([2.0**-13, -(2.0**-13)], dtype=dtype))
    assert small.tolist() == pytest.approx([2.0**-27, 2.0**-27], rel=1e-4)
    values, reference = torch.tensor([-90.0], dtype=dtype), torch.tensor([-0.75], dtype=dtype)
    assert objective.k3(values, reference).tolist() == pytest.approx([math.exp(89.25) - 90.25], rel=1e-12)
    assert objective.k3(torch.tensor([-90.0]), torch.tensor([-0.7])).isfinite().all()
    assert objective.k3(reference, values).tolist() == pytest.approx([math.expm1(-89.25) + 89.25], rel=1e-12)


def test_the_gradient_of_k3_is_that_of_the_reverse_kl():
    """Averaged over the policy's own tokens; the value is that of KL(policy || reference)."""
    logits = torch.tensor([0.3, -0.8, 1.1], dtype=torch.float64, requires_grad=True)
    fixed = torch.tensor([0.9, 0.2, -0.4], dtype=torch.float64).log_softmax(0)
    log_probs = logits.log_softmax(0)
    per_token = objective.k3(log_probs, fixed)
    probs = log_probs.detach().exp()
    assert float((probs * per_token).sum().detach()) == pytest.approx(
        float((probs * (log_probs - fixed)).sum().detach()), abs=1e-12
    )
    (found,) = torch.autograd.grad((probs * per_token).sum(), logits)
    (reverse,) = torch.autograd.grad((fixed.exp() * (fixed - logits.log_softmax(0))).sum(), logits)
    (forward,) = torch.autograd.grad((logits.log_softmax(0).exp() * (logits.log_softmax(0) - fixed)).sum(), logits)
    assert found.tolist() == pytest.approx(reverse.tolist(), abs=1e-12)
    assert found.tolist() != pytest.approx(forward.tolist(), abs=1e-3)


def test_k3_is_non_negative_zero_at_equality_and_quadratic_near_it():
    """The estimate exp(d) - d - 1 is d^2 / 2 to second order."""
    d = torch.tensor([0.0, 1e-2, -1e-2])
    assert objective.k3(torch.zeros(3), d).tolist() == pytest.approx([0, 5e-5, 5e-5], abs=2e-7)
    assert (objective.k3(torch.zeros(99), torch.linspace(-3, 3, 99)) >= 0).all()


def test_kl_pulls_every_edge_by_its_weight_even_without_an_advantage():
    given = tokens(advantages=(0.0, 0.0), reference=0.3)
    loss, facts = objective.ppo_clip(given, beta=0.1)
    loss.backward()
    pull = 0.1 * (1 - torch.tensor(0.3).exp().item())
    assert given.values.grad.tolist() == pytest.approx([0.5 * pull, 0.5 * pull, 0.25 * pull], rel=1e-5)
    assert facts["kl"] == pytest.approx(3 * (torch.tensor(0.3).exp().item() - 1.3), rel=1e-4)
