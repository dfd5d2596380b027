"""A forward pass of our own for small Llama-shaped models (Touvron et al., arXiv 2302.13971): no padding, few operations.

`transformers` reads a rectangle of tokens and spends most of a small model's time around the matrix products. Here the tokens
of all rows lie in one list, which linear layers read without padding; attention alone is laid out by rows. What follows the
attention of the last layer is computed for tokens that are asked for alone. Weights are used as they are, folded where that
saves an operation: the scale of a norm into the layer after it, that of the scores into the queries.

A head's entries are kept in another order than in `transformers`, first and second half of it in turn, so that rotating them
is one product of complex numbers. Keys and values that one of the two has made are of no use to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as nn
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

# Larger models spend their time in matrix products anyway, and the folded weights are a copy.
MOST_PARAMETERS = 20_000_000
# Settings of a configuration that must be as they are by default, and what that is.
PLAIN = {"attention_bias": False, "mlp_bias": False, "hidden_act": "silu", "pretraining_tp": 1, "attention_dropout": 0.0}
# What may hold parameters.
KNOWN = (torch.nn.Linear, torch.nn.Embedding, LlamaRMSNorm)


@dataclass(frozen=True)
class _Layer:
    """Folded weights of a layer, [out, in] each: queries, keys and values in one; gate and up in one."""

    qkv: torch.Tensor
    out: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True)
class _Weights:
    version: tuple
    layers: tuple[_Layer, ...]
    norm: torch.Tensor


class Llama:
    """The forward pass of a `LlamaForCausalLM` without its output embedding; make it with `llama`.

    kv_shape  (2 x layers, heads, head size) of its keys and values
    """

    def __init__(self, model: LlamaForCausalLM):
        config = model.config
        self._model = model.model
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._size = model.model.layers[0].self_attn.head_dim
        self._eps = config.rms_norm_eps
        self.kv_shape = (2 * config.num_hidden_layers, self._kv_heads, self._size)
        # From the order of a head's entries in the model to the order here.
        self._order = torch.arange(self._size).view(2, -1).T.flatten()
        self._folded: _Weights | None = None
        self._turns = torch.empty(0, self._size // 2, dtype=torch.complex64)

    # --- weights

    def _fold(self, version: tuple) -> _Weights:
        if self._folded is None or self._folded.version != version:
            layers = tuple(self._folded_layer(layer) for layer in self._model.layers)
            self._folded = _Weights(version, layers, self._model.norm.weight.detach())
        return self._folded

    @torch.no_grad()
    def _folded_layer(self, layer) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        queries = self._in_order(attention.q_proj.weight) * self._size**-0.5
        keys = self._in_order(attention.k_proj.weight)
        first, second = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        return _Layer(
            torch.cat([queries, keys, attention.v_proj.weight]) * first,
            attention.o_proj.weight.detach(),
            torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]) * second,
            mlp.down_proj.weight.detach(),
        )

    def _in_order(self, weight: torch.Tensor) -> torch.Tensor:
        """Rows of a projection to heads, in the order of entries that is used here."""
        return weight.view(-1, self._size, weight.shape[1])[:, self._order].reshape(weight.shape)

    def turns(self, length: int) -> torch.Tensor:
        """complex64 [at least length, head size / 2], by what the entries of a head are turned at each position."""
        if length > len(self._turns):
            places = torch.arange(max(length, 2 * len(self._turns)))
            # As the model computes them, in float32, so that both turn by the same angles.
            cos, sin = self._model.rotary_emb(torch.empty(1), places[None])
            self._turns = torch.complex(cos[0, :, : self._size // 2], sin[0, :, : self._size // 2])
        return self._turns

    # --- reading rows

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
        weights = self._fold(version)
        rows = _Rows(tokens, lengths, buffer, self)
        x = self._model.embed_tokens.weight[rows.ids]
        last = len(weights.layers) - 1
        for number, layer in enumerate(weights.layers):
            keys, values = buffer[2 * number], buffer[2 * number + 1]
            projected = nn.linear(self._normed(x), layer.qkv)
            heads = projected.view(len(x), -1, self._size)
            turned = torch.view_as_complex(heads[:, : self._heads + self._kv_heads].unflatten(2, (-1, 2)))
            turned.mul_(rows.turns)
            rows.write(keys, heads[:, self._heads : -self._kv_heads])
            rows.write(values, heads[:, -self._kv_heads :])
            queries = heads[:, : self._heads]
            if number == last:
                x, queries, rows = x[rows.last], queries[rows.last], rows.of_last()
            seen = rows.attend(queries, keys, values)
            x = torch.addmm(x, seen, layer.out.T)
            gate, up = nn.linear(self._normed(x), layer.gate_up).chunk(2, 1)
            x.addmm_(nn.silu(gate).mul_(up), layer.down.T)
        return self._normed(x).mul_(weights.norm)

    def _normed(self, x: torch.Tensor) -> torch.Tensor:
        return nn.rms_norm(x, x.shape[1:], None, self._eps)


class _Rows:
    """New tokens of some rows, in one list, and how they lie in a rectangle of queries and in the rows' buffer."""

    def __init__(self, tokens: Sequence[Sequence[int]], lengths: Sequence[int], buffer: torch.Tensor, model: Llama):
        self._groups = model._heads // model._kv_heads
        self._kv_heads, self._size, columns = buffer.shape[2], buffer.shape[4], buffer.shape[3]
        counts = torch.tensor([len(new) for new in tokens])
        starts = torch.tensor(lengths)
        ends = starts + counts
        self.ids = torch.tensor([token for new in tokens for token in new])
        of_row = torch.repeat_interleave(counts)
        first = counts.cumsum(0) - counts
        inside = torch.arange(len(self.ids)) - first[of_row]
        places = starts[of_row] + inside
        self.turns = model.turns(int(ends.max()))[places][:, None]
        self.last = (first + counts - 1).clamp(min=0)
        self._seen = int(ends.max())
        self._count, self._width = len(tokens), int(counts.max())
        heads = torch.arange(self._kv_heads) * columns
        self._slots = (of_row[:, None] * (self._kv_heads * columns) + heads + places[:, None]).flatten()
        self._full = len(self.ids) == self._count * self._width
        self._at = of_row * self._width + inside
        self._ends, self._counts = ends, counts
        self._hidden = self._mask(starts[:, None] + torch.arange(self._width))

    def of_last(self) -> _Rows:
        """The same rows where each has one query, that of its last token."""
        other = object.__new__(_Rows)
        other.__dict__.update(self.__dict__)
        other._width, other._full = 1, True
        other._hidden = self._mask((self._ends - 1)[:, None])
        return other

    def _mask(self, places: torch.Tensor) -> torch.Tensor:
        """Added to the scores, [rows, 1, groups x queries, columns]: nothing where a query at a place may look, else -inf."""
        hidden = torch.arange(self._seen) > places[:, :, None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
        return mask.repeat(1, self._groups, 1)[:, None]

    def write(self, where: torch.Tensor, new: torch.Tensor) -> None:
        """Put the keys or values [tokens, heads, head size] of the new tokens into those of the rows."""
        where.view(-1, self._size).index_copy_(0, self._slots, new.reshape(-1, self._size))

    def attend(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """What the queries [tokens, heads, head size] see, [tokens, heads x head size]."""
        shape = (self._count, self._width, self._kv_heads, self._groups, self._size)
        if not self._full:
            queries = queries.new_zeros(self._count * self._width, *queries.shape[1:]).index_copy_(0, self._at, queries)
        # The heads of a group ask the same keys: they are queries one below the other.
        asked = queries.view(shape).permute(0, 2, 3, 1, 4).reshape(self._count, self._kv_heads, -1, self._size)
        keys, values = keys[:, :, : self._seen], values[:, :, : self._seen]
        seen = nn.scaled_dot_product_attention(asked, keys, values, attn_mask=self._hidden, scale=1.0)
        seen = seen.unflatten(2, (self._groups, self._width)).permute(0, 3, 1, 2, 4).reshape(self._count * self._width, -1)
        return seen if self._full else seen[self._at]


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
