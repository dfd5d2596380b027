"""Weights in half precision that learn as float32 ones do."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from rooms import demonstration

from bpo.policies.imitation import imitate
from bpo.policies.lm import LMPolicy
from bpo.policies.master_weights import MasterWeights

adamw = partial(torch.optim.AdamW, lr=2e-6, weight_decay=0.0)


def weights(dtype) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter((0.1 * torch.randn(50, 40, generator=generator)).to(dtype)) for _ in range(2)]


def steps(optimiser, parameters, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        generator = torch.Generator().manual_seed(number % 2)
        for parameter in parameters:
            parameter.grad = (1 + torch.rand(parameter.shape, generator=generator)).to(parameter.dtype)
        optimiser.step()


def test_small_steps_add_up_in_bfloat16():
    """At the preset paper's learning rate a step by itself is rounded away; a hundred of them are a hundred times as long."""
    direct, by_copy, truth = weights(torch.bfloat16), weights(torch.bfloat16), weights(torch.float32)
    before = [p.detach().float().clone() for p in by_copy]
    for parameter, start in zip(truth, before, strict=True):
        parameter.data.copy_(start)
    steps(adamw(direct), direct, 500)
    steps(MasterWeights(by_copy, adamw), by_copy, 500)
    steps(adamw(truth), truth, 500)
    stuck = sum((p.float() == b).sum().item() for p, b in zip(direct, before, strict=True))
    assert stuck > 3000
    for parameter, wide in zip(by_copy, truth, strict=True):
        assert parameter.dtype == torch.bfloat16
        assert (parameter == wide.detach().bfloat16()).float().mean() > 0.98


def test_wide_weights_are_stepped_as_the_optimiser_steps_them():
    one, other = weights(torch.float32), weights(torch.float32)
    steps(adamw(one), one, 5)
    steps(MasterWeights(other, adamw), other, 5)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_state_goes_on_where_it_was_taken(dtype):
    one = weights(dtype)
    optimiser = MasterWeights(one, adamw)
    steps(optimiser, one, 7)
    state, parameters = copy.deepcopy(optimiser.state_dict()), [torch.nn.Parameter(p.detach().clone()) for p in one]
    steps(optimiser, one, 400, first=7)
    again = MasterWeights(parameters, adamw)
    again.load_state_dict(state)
    steps(again, parameters, 400, first=7)
    assert all(torch.equal(a, b) for a, b in zip(one, parameters, strict=True))
    if dtype == torch.bfloat16:
        with pytest.raises(ValueError, match="belong to other parameters"):
            MasterWeights(parameters[:1], adamw).load_state_dict(state)


def test_gradients_are_forgotten_and_parameters_without_one_stay():
    one = weights(torch.bfloat16)
    optimiser = MasterWeights(one, adamw)
    steps(optimiser, one, 1)
    before = one[1].detach().clone()
    optimiser.zero_grad()
    assert all(p.grad is None for p in one)
    one[0].grad = torch.ones_like(one[0])
    for _ in range(300):
        optimiser.step()
    assert torch.equal(one[1], before)
    optimiser.zero_grad(set_to_none=False)
    assert not one[0].grad.any()


def test_imitation_in_bfloat16_learns_as_far_as_in_float32(make_policy):
    losses = {}
    for dtype in ("float32", "bfloat16"):
        made = make_policy()
        policy = LMPolicy.of(made.model, made.tokenizer, dtype=dtype)
        episodes = [demonstration(i)[:2] for i in range(4)]
        losses[dtype] = imitate(policy, episodes, epochs=60, lr=3e-4, batch_size=4, seed=0)["action_loss"]
        assert {p.dtype for p in policy.parameters()} == {getattr(torch, dtype)}
    assert losses["float32"][-1] < 0.6 * losses["float32"][0]
    assert losses["bfloat16"][-1] == pytest.approx(losses["float32"][-1], rel=0.1)
