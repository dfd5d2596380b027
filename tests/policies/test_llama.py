"""Our forward pass of small Llama-shaped models against that of transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from bpo.policies.llama import MOST_PARAMETERS, llama
from bpo.policies.net import Net
from bpo.policies.prefix_sharing import plan

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


FAMILIES = {
    "a tree": [30, [25, 12, 9], [18, 5, [22, 7, 7, 30]], 40],
    "two trees": [0, [40, *[20] * 6], [30, [25, 12, 9], 40], 33],
    "nothing shared": [0, 9, 30, 1, 18],
    "one sequence": [0, 25],
}


def sequences_of(shape, rng, prefix=()):
    """Sequences from a nested shape: a number is a private ending of that length, a list begins with what its others share."""
    if isinstance(shape, int):
        return [prefix + tuple(rng.integers(VOCABULARY, size=shape).tolist())]
    length, *children = shape
    start = prefix + tuple(rng.integers(VOCABULARY, size=length).tolist())
    return [row for child in children for row in sequences_of(child, rng, start)]


def gradients(model, values, weights) -> dict[str, torch.Tensor]:
    model.zero_grad()
    (values * weights).sum().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_log_probs_and_gradients_of_a_tree_are_those_of_transformers(shape, family):
    model = model_of(**SHAPES[shape])
    net, rng = Net(model), np.random.default_rng(3)
    rows = sequences_of(FAMILIES[family], rng)
    # Some places twice, in no order, as steps of several paths share their tokens.
    places = [(i, int(p)) for i, row in enumerate(rows) for p in rng.integers(len(row), size=1 + len(row) // 4)]
    places = [places[int(i)] for i in rng.permutation(len(places))]
    targets = torch.tensor(rng.integers(VOCABULARY, size=len(places)))
    weights = torch.tensor(rng.normal(size=len(places)), dtype=torch.float32)

    def theirs(row):
        return model(input_ids=torch.tensor([row])).logits[0].log_softmax(-1)

    plain = [theirs(row) for row in rows]
    expected = torch.stack([plain[row][place] for row, place in places])
    wanted = gradients(model, expected[torch.arange(len(places)), targets], weights)
    for shortest in (1, 16, 10_000):
        states = net.own.states(plan(rows, shortest), places)
        found = net.logits(states).log_softmax(-1)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        ours = gradients(model, found[torch.arange(len(places)), targets], weights)
        for name, gradient in wanted.items():
            scale = max(1.0, float(gradient.abs().max()))
            torch.testing.assert_close(ours[name] / scale, gradient / scale, atol=1e-5, rtol=0, msg=name)
    with torch.no_grad():
        again = net.logits(net.own.states(plan(rows, 16), places)).log_softmax(-1)
    assert not again.requires_grad
    torch.testing.assert_close(again, expected.detach(), atol=1e-5, rtol=0)
