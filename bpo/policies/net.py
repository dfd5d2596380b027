"""A causal language model reduced to one question: which logits stand at these positions?"""

from __future__ import annotations

import torch
from transformers.cache_utils import DynamicLayer

from bpo.errors import BadInput
from bpo.policies.llama import Llama, llama
from bpo.policies.lora import adapted


class Net:
    """Wraps any `AutoModelForCausalLM`; finds out once, on two tokens, which short cuts its architecture allows.

    positions  most tokens of a sequence that the model can tell apart, None where there is no such number
    kv_shape   (2 x layers, heads, head size) if every layer keeps plain keys and values of one shape, else None
    own        our forward pass of the model (see `llama`) where there is one that agrees with it, else None
    pair_cost  arithmetic of one token's attention to one other, relative to that of reading a token without attention
    """

    def __init__(self, model):
        self._parameters = list(model.parameters())
        self.model = model.eval()  # no dropout, so that rollout and training see the same distribution
        self.positions = _positions(model.config.get_text_config())
        # Adapters stand around the model, inside of which their layers are.
        self._base = (model.get_base_model() if adapted(model) else model).base_model
        with torch.no_grad():
            probe = torch.tensor([[0, 1]], device=self.device)
            out = model(input_ids=probe, attention_mask=torch.ones_like(probe), use_cache=True)
            self.kv_shape = _kv_shape(out.cache) if self._attention() in ("sdpa", "eager") else None
            self._split = self._can_split(probe, out.logits)
            self.own = self._checked(llama(model), probe, out.logits) if self.kv_shape and self._split else None
        config = model.config.get_text_config()
        inner = sum(p.numel() for p in model.parameters()) - model.get_input_embeddings().weight.numel()
        self.pair_cost = 2 * config.hidden_size * config.num_hidden_layers / max(inner, 1)

    @property
    def device(self):
        return self.model.device

    @property
    def dtype(self):
        return self.model.dtype

    def _attention(self) -> str:
        return self.model.config.get_text_config()._attn_implementation

    def _can_split(self, probe: torch.Tensor, logits: torch.Tensor) -> bool:
        """Is the model its base followed by its output embedding (no scaling, no soft cap, no adapter in between)?"""
        head = self.model.get_output_embeddings()
        hidden = getattr(self._base(input_ids=probe, attention_mask=torch.ones_like(probe)), "last_hidden_state", None)
        return head is not None and hidden is not None and torch.allclose(head(hidden), logits, atol=1e-4, rtol=1e-4)

    def _checked(self, own: Llama | None, probe: torch.Tensor, logits: torch.Tensor) -> Llama | None:
        """Our forward pass, if it agrees with the model's."""
        if own is None:
            return None
        buffer = torch.zeros(own.kv_shape[0], 1, own.kv_shape[1], probe.shape[1], own.kv_shape[2])
        states = own.append(probe.tolist(), [0], buffer, self.version())
        return own if torch.allclose(self.logits(states), logits[:, -1], atol=1e-4, rtol=1e-4) else None

    @property
    def state_size(self) -> int:
        """Numbers per token in what `states_at` returns."""
        return int(self.model.get_output_embeddings().weight.shape[1 if self._split else 0])

    def check_length(self, tokens: int) -> None:
        """Raise BadInput where a sequence of so many tokens is longer than the model can read."""
        if self.positions is not None and tokens > self.positions:
            raise BadInput(
                f"a path has {tokens} tokens, but the model reads at most {self.positions} (max_position_embeddings): "
                "use prompt 'windowed', fewer or shorter steps, or a model that reads more"
            )

    def logits_at(self, ids, where, *, mask, position_ids=None, cache=None) -> torch.Tensor:
        """Logits [n, vocabulary] in float32 at the (row, column) index pair `where` of the token ids [rows, columns].

        mask is [rows, columns] with 1 for tokens, or a boolean [rows, 1, columns, cached columns] with True for what is seen.
        """
        return self.logits(self.states_at(ids, where, mask=mask, position_ids=position_ids, cache=cache))

    def states_at(self, ids, where, *, mask, position_ids=None, cache=None) -> torch.Tensor:
        """What `logits` turns into logits, [n, size]: a fraction of their room, unless the model does more than that itself."""
        if mask.dim() == 4 and self._attention() == "eager":
            # Eager attention adds its mask to the scores.
            mask = torch.zeros_like(mask, dtype=self.dtype).masked_fill(~mask, torch.finfo(self.dtype).min)
        inputs = {"input_ids": ids, "attention_mask": mask, "use_cache": cache is not None}
        if cache is not None:
            inputs |= {"cache": cache, "position_ids": position_ids}
        if self._split:
            # The output embedding is the dearest layer of a small model: apply it where it is asked for only.
            return self._base(**inputs).last_hidden_state[where]
        return self.model(**inputs).logits[where]

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Logits [n, vocabulary] in float32 of states [n, size]."""
        return (self.model.get_output_embeddings()(states) if self._split else states).float()

    def version(self) -> tuple:
        """Changes when a parameter is written to (an optimiser step, a loaded state): what was cached before is stale."""
        return sum(p._version for p in self._parameters), sum(p.data_ptr() for p in self._parameters)


def _positions(config) -> int | None:
    """Learned positions end there; rotary ones go on, but a model has never seen those."""
    stated = getattr(config, "max_position_embeddings", None)
    # Where rotary positions are stretched, some configurations state what they were before.
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    before, factor = rope.get("original_max_position_embeddings"), rope.get("factor")
    stretched = int(before * factor) if before and factor else 0
    return None if stated is None else max(stated, stretched)


def _kv_shape(cache) -> tuple[int, int, int] | None:
    layers = getattr(cache, "layers", [])
    shapes = {tuple(tensor.shape) for layer in layers for tensor in (layer.keys, layer.values)}
    if len(shapes) != 1 or any(type(layer) is not DynamicLayer for layer in layers):
        return None
    (_, heads, _, size) = shapes.pop()
    return 2 * len(layers), heads, size
