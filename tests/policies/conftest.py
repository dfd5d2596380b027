"""Tiny models with random weights for the household-like world of `rooms`."""

from __future__ import annotations

import pytest
import torch
from rooms import room

from bpo.policies.lm import LMPolicy
from bpo.policies.tiny import tiny_model, train_tokenizer


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer():
    return train_tokenizer(
        [f"{o.text}\n{o.task}\n" + "\n".join(o.actions) for o in (room(s, t) for s in range(20) for t in (0, 1))], 512
    )


@pytest.fixture
def make_policy(tokenizer):
    """LMPolicy on a micro model whose logits are wide apart, so that distributions are far from uniform."""

    def make(seed: int = 0, **settings) -> LMPolicy:
        model = tiny_model(len(tokenizer), "micro", seed)
        with torch.no_grad():
            model.model.norm.weight.mul_(2.0)
        return LMPolicy(model, tokenizer, **settings)

    return make
