"""Our forward pass of small Llama-shaped models against that of transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from bpo.policies.llama import MOST_PARAMETERS, llama
from bpo.policies.net import Net

VOCABULARY = 60
PLAIN = {"num_attention_heads": 4, "num_key_value_heads": 2}
SHAPES = {
    "grouped heads": PLAIN,
    "a head of keys for each": {"num_attention_heads": 4, "num_key_value_heads": 4},
    "one head of keys, untied": {"num_attention_heads": 4, "num_key_value_heads": 1, "tie_word_embeddings": False},
    "wide heads": {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "rope_theta": 500.0},
}


def model_of(seed: int = 0, **changes) -> LlamaForCausalLM:
    """A model whose logits are wide apart and whose norms scale every entry differently."""
    given = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "initializer_range": 0.15}
    given |= {"tie_word_embeddings": True, "rms_norm_eps": 1e-5, **changes}
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **given)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return model


def logits_of(model, ids) -> torch.Tensor:
    """What transformers thinks comes after each of the ids, which are read alone."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_that_grow_are_read_as_transformers_reads_them(shape):
    model = model_of(**SHAPES[shape])
    net, rng = Net(model), np.random.default_rng(0)
    assert net.own is not None
    rows = [()] * 7
    layers, heads, size = net.own.kv_shape
    buffer = torch.zeros(layers, len(rows), heads, 64, size)
    for call in range(5):
        # Some rows get nothing, one token or many; in the third call all get one.
        counts = [1] * 7 if call == 2 else rng.integers(0 if call else 1, 12, size=7)
        tokens = [tuple(rng.integers(VOCABULARY, size=count).tolist()) for count in counts]
        states = net.own.append(tokens, [len(row) for row in rows], buffer, net.version())
        rows = [row + new for row, new in zip(rows, tokens, strict=True)]
        found = net.logits(states).detach().log_softmax(-1)
        for row, new, ours in zip(rows, tokens, found, strict=True):
            if new:
                torch.testing.assert_close(ours, logits_of(model, row)[-1], atol=1e-5, rtol=0)


def test_what_was_folded_does_not_outlive_a_change_of_parameters():
    model = model_of(**PLAIN)
    net = Net(model)
    layers, heads, size = net.own.kv_shape
    for _ in range(2):
        with torch.no_grad():
            model.model.layers[1].self_attn.k_proj.weight.mul_(1.5)
        buffer = torch.zeros(layers, 1, heads, 3, size)
        found = net.logits(net.own.append([(5, 6, 7)], [0], buffer, net.version())).detach().log_softmax(-1)
        torch.testing.assert_close(found[0], logits_of(model, (5, 6, 7))[-1], atol=1e-5, rtol=0)


def test_models_of_another_shape_are_left_to_transformers():
    stretched = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
    others = {"attention_bias": True}, {"mlp_bias": True}, {"hidden_act": "gelu"}, {"rope_parameters": stretched}
    for changes in others:
        net = Net(model_of(**PLAIN, **changes))
        assert net.own is None
        assert net.kv_shape is not None
    assert Net(model_of(**PLAIN).to(torch.bfloat16)).own is None
    qwen = Qwen2Config(hidden_size=32, intermediate_size=48, num_hidden_layers=1, vocab_size=VOCABULARY, **PLAIN)
    assert Net(Qwen2ForCausalLM(qwen)).own is None
    large = LlamaConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=5, vocab_size=10_000)
    with torch.device("meta"):
        model = LlamaForCausalLM(large)
    assert sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS
    assert llama(model) is None


def test_a_model_with_adapters_is_left_to_transformers():
    pytest.importorskip("peft")
    from bpo.policies import lora

    model = model_of(**PLAIN)
    assert Net(lora.with_adapters(model, 2)).own is None
    # The same model, whose layers now are adapters.
    assert llama(model) is None
