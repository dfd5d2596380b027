"""Language-model policy: any causal model of `transformers`, writing actions under a constraint or freely."""

from __future__ import annotations

import copy
import errno
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from bpo.errors import BadInput, choose, scalar
from bpo.files import to_json
from bpo.policies import lora, prefix_sharing
from bpo.policies.decode import ActionDecoder, FreeDecoder, TrieDecoder, write
from bpo.policies.features import by_budget, last_states
from bpo.policies.net import Net
from bpo.policies.prefix_cache import CachedRows, PlainRows, PrefixStore, pad
from bpo.policies.prompts import STYLES, Context
from bpo.policies.quiet import no_bars
from bpo.policies.score import pack, read_before, token_log_probs
from bpo.policies.settings import hub_name
from bpo.policy import Decision
from bpo.sandbox import Observation
from bpo.sealed import DIGESTS, check_folder, seal_folder

Step = tuple[Context, Decision]


class LMPolicy:
    """A policy (see `bpo.policy.Policy`) that reads and writes tokens.

    model, tokenizer   of `transformers`; the model needs sdpa or eager attention for its keys and values to be reused
    prompt             "transcript": append-only, one trajectory is one sequence. "windowed": rendered anew for each decision
    writing            "constrained": token by token inside the trie of admissible actions, an exact normalised distribution.
                       "free": until the line ends (transcript) or </action> (windowed), then parsed; without an action it is
                       "", which sandboxes answer with "Nothing happens."
    temperature        divides the logits, in rollout and in training alike
    max_action_tokens  where free writing is cut off
    pause_tokens, pause_at   free writing pauses inside an action every so many tokens (0: never) and wherever one of these
                       texts has been written: a boundary where a tree can branch (its entropy is that of the next token)
    batch_tokens       most padded tokens in one forward pass; on a CPU, training is a third slower at 16,384
    cache_bytes        most memory for keys and values kept between two calls of `act`; 0 keeps none
    share              train on what sequences share once, where that is cheaper and the model allows it (see `prefix_sharing`)

    Errors: BadInput for unknown settings, and for constrained writing where an observation has no list of actions.
    """

    def __init__(
        self,
        model,
        tokenizer,
        *,
        prompt: str = "transcript",
        writing: str = "constrained",
        temperature: float = 1.0,
        max_action_tokens: int = 256,
        pause_tokens: int = 0,
        pause_at: Sequence[str] = (),
        batch_tokens: int = 8_192,
        cache_bytes: int = 2**30,
        share: bool = True,
    ):
        choose("prompt", prompt, STYLES)
        choose("writing", writing, ("constrained", "free"))
        for kind, name, value in (
            (float, "temperature", temperature),
            (int, "max_action_tokens", max_action_tokens),
            (int, "batch_tokens", batch_tokens),
        ):
            if not scalar(kind, value, name) > 0:
                raise BadInput(f"{name} must be positive, not {value!r}")
        if (pause_tokens or pause_at) and writing != "free":
            raise BadInput("pause_tokens and pause_at pause inside actions that are written freely: they need writing 'free'")
        if scalar(int, cache_bytes, "cache_bytes") < 0:
            raise BadInput(f"cache_bytes is {cache_bytes!r}; it must be a number of bytes, 0 to keep nothing")
        scalar(bool, share, "share")
        texts = not isinstance(pause_at, str) and all(isinstance(text, str) and text for text in pause_at)
        if scalar(int, pause_tokens, "pause_tokens") < 0 or not texts:
            raise BadInput(
                f"pause_tokens is {pause_tokens!r} and pause_at {pause_at!r}; they must be 0 or more, and a list of texts"
            )
        self.model, self.tokenizer = model, tokenizer
        self.settings = {
            "prompt": prompt,
            "writing": writing,
            "temperature": temperature,
            "max_action_tokens": max_action_tokens,
            "pause_tokens": pause_tokens,
            "pause_at": list(pause_at),
            "batch_tokens": batch_tokens,
            "cache_bytes": cache_bytes,
            "share": share,
        }
        self.temperature = temperature
        self._constrained = writing == "constrained"
        self._style = STYLES[prompt](tokenizer, writing)
        self._net = Net(model)
        self._store = PrefixStore(cache_bytes)
        self._stored_version = self._net.version()

    # --- contexts

    def begin(self, observation: Observation) -> Context:
        return self._style.begin(observation)

    def extend(self, context: Context, decision: Decision, observation: Observation) -> Context:
        return self._style.extend(context, decision, observation)

    def resume(self, context: Context, decision: Decision) -> Context:
        ids, draft = context.ids + decision.tokens, context.draft + decision.tokens
        return replace(context, ids=ids, draft=draft, parent=context)

    def context_size(self, context: Context) -> int:
        """Tokens along the path, which a prompt that is rendered anew may show no more."""
        return context.travelled

    def check_length(self, tokens: int) -> None:
        """Raise BadInput where a path of so many tokens is longer than the model can read."""
        self._net.check_length(tokens)

    # --- acting

    @torch.no_grad()
    def act(self, contexts: Sequence[Context], rngs: Sequence) -> list[Decision]:
        """One decision per context, in order.

        What contexts share is read once, and so is what is written alike after the same context: `prefilled` and `computed`
        count it at the first of those decisions. Everything read stays known until `evict_except` says that it is not needed.
        """
        if self._net.version() != self._stored_version:
            self._store.clear()
            self._stored_version = self._net.version()
        decoders = [self._decoder(context) for context in contexts]
        prefilled, computed = [0] * len(contexts), [0] * len(contexts)
        for group in self._groups(contexts, [i for i, decoder in enumerate(decoders) if not decoder.finished]):
            self._act_group(group, contexts, decoders, rngs, prefilled, computed)
        return [
            decoder.decision(decoder.action, *counts) for decoder, *counts in zip(decoders, prefilled, computed, strict=True)
        ]

    def evict_except(self, contexts: Sequence[Context]) -> None:
        """Free the keys and values of what is neither on the way to one of these contexts nor goes on from one of them.

        A prompt that is rendered anew may begin like any before it: in that style all is freed when no context is left.
        """
        if self._style.appends or not contexts:
            self._store.evict_except([context.ids for context in contexts])

    def _decoder(self, context: Context) -> ActionDecoder:
        actions = context.observation.actions
        if self._constrained:
            return TrieDecoder(self._style.codec.trie(_listed(actions)))
        parse, limit = lambda tokens: self._style.parse(tokens, actions), self.settings["max_action_tokens"]
        if self._net.positions is not None:
            # The last token is not read, so it needs no position.
            limit = min(limit, len(context.draft) + self._net.positions - len(context.ids) + 1)
        return FreeDecoder(self._style.ended, parse, limit, context.draft, self._pauses, self.tokenizer.decode)

    def _pauses(self, written: list[int]) -> bool:
        """Whether free writing pauses after its last token."""
        every, marks = self.settings["pause_tokens"], self.settings["pause_at"]
        if every and len(written) % every == 0:
            return True
        # Looked for in the last tokens alone; each is at least a byte long.
        tail = written[-max(map(len, marks), default=0) * 4 - 1 :]
        texts = self.tokenizer.decode(tail), self.tokenizer.decode(tail[:-1])
        return any(texts[0].count(mark) > texts[1].count(mark) for mark in marks)

    def _groups(self, contexts: Sequence[Context], wanted: list[int]) -> list[list[int]]:
        """Indices in groups of similar length whose padded size stays within `batch_tokens`; equal contexts stay together.

        The order depends on the arguments alone (not on where objects lie in memory): a row's rounding depends on its place.
        """
        first: dict[tuple[int, ...], int] = {}
        for i in wanted:
            first.setdefault(contexts[i].ids, i)
        wanted = sorted(wanted, key=lambda i: (len(contexts[i].ids), first[contexts[i].ids], i))
        return [[wanted[k] for k in group] for group in by_budget([len(contexts[i].ids) for i in wanted], self.batch_tokens)]

    def _act_group(self, group: list[int], contexts, decoders, rngs, prefilled: list[int], computed: list[int]) -> None:
        texts = [contexts[i].ids + decoders[i].start for i in group]
        # Rows that lack as many tokens lie side by side, so that they can be read with little padding.
        unread = {ids: len(ids) - self._store.known(ids) for ids in texts}
        place = {ids: row for row, ids in enumerate(sorted(unread, key=unread.__getitem__))}
        at = [place[ids] for ids in texts]
        if self._net.kv_shape is None:
            rows = PlainRows(self._net, list(place))
        else:
            rows = CachedRows(self._net, self._store, list(place))
        logits, counts = rows.read()
        written = write(rows, logits, at, [decoders[i] for i in group], [rngs[i] for i in group], self.temperature)
        for i, row, count in zip(group, at, written, strict=True):
            prefilled[i] = max(counts[row] - len(decoders[i].start), 0)
            computed[i] = counts[row] + count
            counts[row] = 0  # the others that stand in this row found it read

    def decide(self, context: Context, action: str) -> Decision:
        """The decision that writes `action` here, without a forward pass: log-probabilities of its choices are nan.

        For teacher forcing. Free writing wraps the action as its style expects it, without any thoughts. BadInput for an
        action that is not admissible, or that the tokenizer changes.
        """
        codec = self._style.codec
        if self._constrained:
            tokens, choices = codec.path(_listed(context.observation.actions), action)
        else:
            tokens = self._style.written(action)
            choices = (None,) * len(tokens)
            if self._style.parse(list(tokens), None) != action:
                raise BadInput(f"the action {action!r} cannot be written freely: the tokenizer does not keep it as it is")
        log_probs = tuple(0.0 if ids is not None and len(ids) == 1 else float("nan") for ids in choices)
        return Decision(action, tokens, log_probs, choices, entropy=float("nan"))

    # --- training

    def logprob(self, steps: Sequence[Step]) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities [T] of all free tokens and the step [T] each belongs to; differentiable in `parameters()`.

        Steps on one path share a sequence, so a trajectory of the transcript style is read once; what paths share is read once
        too, where that is cheaper. All steps are in one graph: split them with `batches` first.
        """
        if torch.is_grad_enabled():
            self._store.clear()  # the parameters are about to change
        places = [(step, j) for step, (_, decision) in enumerate(steps) for j in decision.free]
        if not places:
            return torch.zeros(0, requires_grad=True), torch.zeros(0, dtype=torch.int64)
        rows, row_of = pack([read_before(*step) for step in steps])
        self._net.check_length(max(map(len, rows)))
        where = [(row_of[step], len(steps[step][0].ids) + j - 1) for step, j in places]
        planned = self._plan(rows)
        if self._reads_itself:
            planned = planned or prefix_sharing.plan(rows, max(map(len, rows)) + 1)
            logits = self._net.logits(self._net.own.states(planned, where))
        elif planned is not None:
            logits = prefix_sharing.staged(self._net, planned, where, self.batch_tokens)
        else:
            # Padding on the right is invisible to a causal model; a mask that hides it would only cost the fast attention path.
            ids, _ = pad(rows, self._net.device)
            logits = self._net.logits_at(ids, tuple(torch.tensor(where, device=ids.device).T), mask=torch.ones_like(ids))
        tokens = [steps[step][1].tokens[j] for step, j in places]
        choices = [steps[step][1].choices[j] for step, j in places]
        owner = torch.tensor([step for step, _ in places], device=logits.device)
        return token_log_probs(logits, tokens, choices, self.temperature), owner

    @property
    def _reads_itself(self) -> bool:
        """Whether training reads by our own forward pass: it knows nothing of activations that are not kept."""
        return self._net.own is not None and not self.model.is_activation_checkpointing

    def tokens_read(self, steps: Sequence[Step]) -> int:
        """Tokens that `logprob` reads, batch by batch, to score these steps: what is shared, and read once, counts once."""
        count = 0
        for group in self.batches(steps):
            rows, _ = pack([read_before(*steps[i]) for i in group])
            planned = self._plan(rows)
            count += sum(map(len, rows)) if planned is None else planned.unique
        return count

    def _plan(self, rows: Sequence[tuple[int, ...]]) -> prefix_sharing.SharingPlan | None:
        """How to read what sequences share once; None where each is better read by itself."""
        if not self.settings["share"] or self._net.kv_shape is None or self.model.is_activation_checkpointing:
            return None
        if self._reads_itself:
            # It pads next to nothing, so that reading once is cheaper wherever there is something to share.
            return prefix_sharing.plan(rows)
        return prefix_sharing.best(rows, self.batch_tokens, self._net.pair_cost)

    def batches(self, steps: Sequence[Step]) -> list[list[int]]:
        """Indices of the steps in groups of at most `batch_tokens` tokens: unique ones where they are shared, else padded."""
        rows, row_of = pack([read_before(*step) for step in steps])
        members: list[list[int]] = [[] for _ in rows]
        for index, row in enumerate(row_of):
            members[row].append(index)
        if self._plan(rows) is not None:
            groups = prefix_sharing.together(rows, self.batch_tokens)
        else:
            order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
            groups = [[order[k] for k in group] for group in by_budget([len(rows[row]) for row in order], self.batch_tokens)]
        return [sorted(index for row in group for index in members[row]) for group in groups]

    @property
    def feature_size(self) -> int:
        """Numbers per context in what `features` gives."""
        return self._net.state_size

    def features(self, contexts: Sequence[Context]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """The model's last states [n, feature_size] at the end of contexts, in float32, by groups of `batch_tokens` tokens."""
        if torch.is_grad_enabled():
            self._store.clear()  # the parameters are about to change
        return last_states(self._net, [context.ids for context in contexts], self.batch_tokens)

    # --- parameters

    @property
    def batch_tokens(self) -> int:
        return self.settings["batch_tokens"]

    def parameters(self) -> list[torch.nn.Parameter]:
        """The trainable parameters."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def state_dict(self) -> dict:
        """The weights by name; of a model with adapters theirs alone, since the others never change."""
        if not lora.adapted(self.model):
            return self.model.state_dict()
        return lora.state_dict(self.model)

    def load_state_dict(self, state: dict) -> None:
        if not lora.adapted(self.model):
            self.model.load_state_dict(state)
        else:
            lora.load_state_dict(self.model, state)
        self._store.clear()

    def frozen_copy(self) -> LMPolicy:
        """The same policy on a copy of the model that takes no gradient."""
        return LMPolicy(copy.deepcopy(self.model).requires_grad_(False), self.tokenizer, **self.settings)

    def with_adapters(self, rank: int, seed: int = 0) -> LMPolicy:
        """This policy with adapters (see `lora`), which alone are trained; do not use this one any more."""
        return LMPolicy(lora.with_adapters(self.model, rank, seed), self.tokenizer, **self.settings)

    def merged(self) -> LMPolicy:
        """This policy with its adapters added to the weights, all of which are trained; do not use this one any more."""
        return LMPolicy(lora.merged(self.model), self.tokenizer, **self.settings)

    def save(self, folder) -> None:
        """Write model (with adapters merged into its weights), tokenizer and settings into `folder`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with no_bars():
            model = lora.merged(copy.deepcopy(self.model)) if lora.adapted(self.model) else self.model
            try:
                model.save_pretrained(folder)
            except SafetensorError as error:
                # It says what the system said in words alone.
                full = errno.ENOSPC if f"os error {errno.ENOSPC}" in str(error) else errno.EIO
                raise OSError(full, str(error), str(folder)) from None
        self.tokenizer.save_pretrained(folder)
        (folder / "policy.json").write_text(to_json(self.settings, indent=1) + "\n")
        seal_folder(folder)

    @classmethod
    def of(cls, model, tokenizer, *, device: str = "cpu", dtype: str = "float32", **settings) -> LMPolicy:
        """A policy on `model`, moved to a device and a precision by name (as torch names them)."""
        try:
            model = model.to(device=torch.device(device), dtype=getattr(torch, dtype))
        except (AttributeError, RuntimeError, AssertionError) as error:
            raise BadInput(f"device {device!r} with dtype {dtype!r} cannot be used: {str(error).splitlines()[0]}") from None
        return cls(model, tokenizer, **settings)

    @classmethod
    def load(cls, folder, **settings) -> LMPolicy:
        """The policy saved in `folder`, any causal model's folder or hub name, or "smollm2"; `settings` (as for `of`) win.

        Files come from this machine alone, unless `folder` is a hub name ("owner/model") and HF_HUB_OFFLINE is not set.
        """
        if str(folder) == "smollm2":
            from bpo.policies import smollm2

            folder = smollm2.folder()
        path = Path(folder)
        hub = hub_name(str(folder))
        if not path.exists() and (not hub or os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")):
            raise BadInput(
                f"no model folder {str(folder)!r} (a folder written by save, or a hub name while HF_HUB_OFFLINE is unset)"
            )
        if (path / DIGESTS).exists():
            check_folder(path)
        saved = path / "policy.json"
        settings = (json.loads(saved.read_text()) if saved.exists() else {}) | settings
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=not hub)
            with no_bars():
                model = AutoModelForCausalLM.from_pretrained(str(folder), local_files_only=not hub)
        except (OSError, ValueError) as error:
            raise BadInput(f"cannot load a causal language model from {str(folder)!r}: {str(error).splitlines()[0]}") from error
        return cls.of(model, tokenizer, **settings)


def _listed(actions: tuple[str, ...] | None) -> tuple[str, ...]:
    if not actions:
        raise BadInput(
            "constrained writing needs a list of admissible actions, and this observation has none: use writing='free'"
        )
    return actions
