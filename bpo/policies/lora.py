"""Adapters (LoRA, Hu et al., arXiv 2106.09685): a pretrained model that trains a few added weights instead of its own."""

from __future__ import annotations

import warnings

import torch

from bpo.errors import BadInput, require


def adapted(model) -> bool:
    """Whether the model is wrapped in adapters."""
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


def with_adapters(model, rank: int, seed: int = 0):
    """The model with adapters of this rank beside every linear layer but the output; until they are trained nothing changes.

    Only the adapters take a gradient. The model's layers are wrapped in place: do not use it by itself any more.
    Errors: BadInput for a rank that no layer can have, and where peft is not installed.
    """
    most = model.config.get_text_config().hidden_size
    if not 1 <= rank <= most:
        raise BadInput(f"the rank of adapters is {rank}; for this model it must be from 1 to {most}")
    require("peft", "smollm")
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # peft asks by the old name whether activations are recomputed.
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        torch.manual_seed(seed)
        return get_peft_model(model, config)


def merged(model):
    """The model with its adapters added to the weights, which all take a gradient; the given one is used up."""
    return model.merge_and_unload().requires_grad_(True)


def state_dict(model) -> dict:
    """The weights of the adapters by name."""
    from peft import get_peft_model_state_dict

    return get_peft_model_state_dict(model)


def load_state_dict(model, state: dict) -> None:
    """Give the adapters weights that `state_dict` returned."""
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(model, state)
