"""A forward pass of our own for small Llama-shaped models (Touvron et al., arXiv 2302.13971): no padding, few operations.

`transformers` reads a rectangle of tokens and spends most of a small model's time around the matrix products. Here tokens lie
in one list, which linear layers read without padding; attention alone is laid out by rows (`llama_rows` while acting, on top of
a buffer of keys and values; `llama_tree` in training, where what sequences share is read once). What follows the attention of
the last layer is computed for tokens that are asked for alone. Weights are folded where that saves an operation: the scale of a
norm into the layer after it, that of the scores into the queries.

The entries of queries and keys are kept in another order than in `transformers`: the first and the second half of a head in
turn, so that turning them by their position is one product of complex numbers; and heads that ask the same keys apart, so that
they are queries one below the other without a copy. Keys that one of the two has made are of no use to the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as nn
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from bpo.policies.llama_layer import Layer, Shape, normed, turn
from bpo.policies.llama_rows import Rows
from bpo.policies.llama_tree import Tree, read_tree
from bpo.policies.prefix_sharing import SharingPlan

# Larger models spend their time in matrix products anyway, and the folded weights are a copy.
MOST_PARAMETERS = 20_000_000
# Settings of a configuration that must be as they are by default, and what that is.
PLAIN = {"attention_bias": False, "mlp_bias": False, "hidden_act": "silu", "pretraining_tp": 1, "attention_dropout": 0.0}
# What may hold parameters.
KNOWN = (torch.nn.Linear, torch.nn.Embedding, LlamaRMSNorm)


class Llama:
    """The forward pass of a `LlamaForCausalLM` without its output embedding; make it with `llama`.

    kv_shape  (2 x layers, heads, head size) of its keys and values
    """

    def __init__(self, model: LlamaForCausalLM):
        config = model.config
        self._model = model.model
        size = model.model.layers[0].self_attn.head_dim
        self.shape = Shape(config.num_attention_heads, config.num_key_value_heads, size, config.rms_norm_eps)
        self.kv_shape = (2 * config.num_hidden_layers, self.shape.kv_heads, size)
        self._folded: tuple[tuple, list[Layer]] = ((), [])
        self._turns = torch.empty(0, size // 2, dtype=torch.complex64)

    @torch.no_grad()
    def append(
        self, tokens: Sequence[Sequence[int]], lengths: Sequence[int], buffer: torch.Tensor, version: tuple
    ) -> torch.Tensor:
        """Read the tokens that are appended to some rows; returns states [rows, size] after the last of each.

        tokens   new tokens of each row (the state of a row without any says nothing); lengths: how many it had
        buffer   [2 x layers, rows, heads, columns, head size], keys and values of the rows, packed from column 0 on; those of
                 the new tokens are written there
        version  of the model's parameters (see `Net.version`)
        """
        if self._folded[0] != version:
            self._folded = (version, self._layers())
        layers, shape = self._folded[1], self.shape
        rows = Rows(tokens, lengths, buffer, shape)
        turns = self._turned(rows.longest)[rows.places][:, None]
        x = self._model.embed_tokens.weight[rows.ids]
        for number, layer in enumerate(layers):
            keys, values = buffer[2 * number], buffer[2 * number + 1]
            heads = nn.linear(normed(x, shape.eps), layer.qkv).view(len(x), -1, shape.size)
            turn(heads[:, : -shape.kv_heads], turns)
            rows.write(keys, heads[:, shape.heads : -shape.kv_heads])
            rows.write(values, heads[:, -shape.kv_heads :])
            queries = heads[:, : shape.heads]
            if number == len(layers) - 1:
                x, queries, rows = x[rows.last], queries[rows.last], rows.of_last()
            x = torch.addmm(x, rows.attend(queries, keys, values), layer.out.T)
            gate, up = nn.linear(normed(x, shape.eps), layer.gate_up).chunk(2, 1)
            x.addmm_(nn.silu(gate).mul_(up), layer.down.T)
        return normed(x, shape.eps).mul_(self._model.norm.weight)

    def states(self, planned: SharingPlan, places: Sequence[tuple[int, int]]) -> torch.Tensor:
        """States [n, size] at the (sequence, position) pairs `places`; differentiable."""
        tree = Tree(planned, places, self.shape)
        turns = self._turned(tree.longest)[tree.places][:, None]
        return read_tree(tree, self.shape, turns, self._model.embed_tokens.weight, self._layers()) * self._model.norm.weight

    def _layers(self) -> list[Layer]:
        """The folded weights; differentiable."""
        return [self._layer(layer) for layer in self._model.layers]

    def _layer(self, layer) -> Layer:
        shape, attention, mlp = self.shape, layer.self_attn, layer.mlp
        first, second = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        # [heads of keys, heads that ask them, halves, half a head, in]
        split = (shape.kv_heads, -1, 2, shape.size // 2, len(first))
        queries = attention.q_proj.weight.view(split).permute(1, 0, 3, 2, 4).reshape(-1, len(first)) * shape.size**-0.5
        keys = attention.k_proj.weight.view(split).transpose(2, 3).reshape(-1, len(first))
        out = attention.o_proj.weight.view(len(first), shape.kv_heads, shape.groups, shape.size).transpose(1, 2)
        return Layer(
            torch.cat([queries, keys, attention.v_proj.weight]) * first,
            out.reshape(len(first), -1),
            torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]) * second,
            mlp.down_proj.weight,
        )

    @torch.no_grad()
    def _turned(self, length: int) -> torch.Tensor:
        """complex64 [at least length, head size / 2], by what the entries of a head are turned at each position."""
        if length > len(self._turns):
            places = torch.arange(max(length, 2 * len(self._turns)))
            # As the model computes them, so that both turn by the same angles.
            cos, sin = self._model.rotary_emb(torch.empty(1), places[None])
            self._turns = torch.complex(cos[0, :, : self.shape.size // 2], sin[0, :, : self.shape.size // 2])
        return self._turns


def llama(model) -> Llama | None:
    """The forward pass for a model that it fits: one of plain Llama layers in float32 on a CPU, not too large; else None."""
    if type(model) is not LlamaForCausalLM or model.dtype != torch.float32 or model.device.type != "cpu":
        return None
    config = model.config
    plain = all(getattr(config, name, default) == default for name, default in PLAIN.items())
    rotary = (getattr(config, "rope_parameters", None) or {}).get("rope_type") == "default"
    # Adapters and quantisation put other modules in the place of linear layers.
    holding = [module for module in model.modules() if next(module.parameters(recurse=False), None) is not None]
    linear = all(type(module) in KNOWN for module in holding)
    small = sum(parameter.numel() for parameter in model.parameters()) <= MOST_PARAMETERS
    return Llama(model) if plain and rotary and linear and small else None
