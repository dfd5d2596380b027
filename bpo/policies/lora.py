"""Adapters (LoRA, Hu et al., arXiv 2106.09685): a pretrained policy that trains a few added weights instead of its own."""

from __future__ import annotations

from bpo.errors import BadInput, require
from bpo.policies.lm import LMPolicy


def with_adapters(policy: LMPolicy, rank: int, seed: int = 0) -> LMPolicy:
    """The policy with adapters of this rank beside every linear layer but the output; until they are trained it acts as before.

    Only the adapters are in `parameters()`. The policy that is given must not be used any more: its layers are wrapped.
    """
    if rank < 1:
        raise BadInput(f"the rank of adapters is {rank}; it must be at least 1")
    require("peft", "smollm")
    import torch
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = get_peft_model(policy.model, config)
    return LMPolicy(model, policy.tokenizer, **policy.settings)
