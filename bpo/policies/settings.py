"""What a policy is and how it starts: plain settings, readable without torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Interval, MinLen

# The largest number of anything that is counted; what is above is a slip of the hand.
MOST = 1_000_000
# What is counted from one, and from none.
Count = Annotated[int, Interval(ge=1, le=MOST)]
CountOrNone = Annotated[int, Interval(ge=0, le=MOST)]
Seed = Annotated[int, Interval(ge=0, le=2**32 - 1)]
Share = Annotated[float, Interval(ge=0.0, le=1.0)]

# Of the models that a warm start makes: hidden size, layers, heads, key-value heads, size of the feed-forward layer.
SIZES = {
    "micro": (64, 2, 2, 1, 128),  # for tests
    "tiny": (128, 4, 4, 2, 256),
}


def hub_name(model: str) -> bool:
    """Whether a model is named as the hub names it, "owner/model", and not as a folder that is here."""
    return model.count("/") == 1 and not model.startswith((".", "/", "~")) and not Path(model).exists()


@dataclass(frozen=True)
class PolicySettings:
    """Which model acts and how it writes.

    kind      "tiny" (a small model that the warm start makes), "hf" (a pretrained one, in `model`: a folder, a hub name, or
              "smollm2" for the one from PyPI) or "tabular" (where all states can be listed)
    prompt    "transcript" (append-only) or "windowed" (the field's prompt: last two steps, <think>/<action> tags)
    writing   "constrained" (exact distribution over admissible actions) or "free"
    pause_tokens, pause_at   free writing: pause inside an action after so many tokens (0: never) and after these texts, so that
              a tree can branch there
    adapter_rank   of the adapters (LoRA) that are trained in place of a pretrained model's own weights; 0: no adapters
    device, dtype   where and in which precision a model runs, as torch names them
    """

    kind: Literal["tiny", "hf", "tabular"] = "tiny"
    model: str = ""
    prompt: Literal["transcript", "windowed"] = "transcript"
    writing: Literal["constrained", "free"] = "constrained"
    temperature: Annotated[float, Gt(0.0)] = 1.0
    max_action_tokens: Count = 64
    pause_tokens: CountOrNone = 0
    pause_at: tuple[Annotated[str, MinLen(1)], ...] = ()
    adapter_rank: CountOrNone = 0
    device: str = "cpu"
    dtype: Literal["float32", "float64", "bfloat16", "float16"] = "float32"


@dataclass(frozen=True)
class WarmStart:
    """How the initial policy is made: the demonstrations it sees, and the imitation. Defaults are for small household rooms.

    games, demonstrations   different games, and demonstrations of each; different games matter more
    split                   split of the demonstrated games
    per_seed                every seed of a run has a warm start of its own: other games, other weights, another order; else all
                            seeds share one, made with `seed` and the first games of the split
    hesitation              probability, before every step, that the demonstrator looks around first (look, inventory, examine)
                            while the step limit leaves room: demonstrations that win but waste steps, as people's do
    vocab_size, size        of the tiny model and its tokenizer (a pretrained model brings its own)
    text_weight             weight of the loss on the observations' own tokens, which teaches a new model to copy names
    """

    games: Count = 2_000
    demonstrations: Count = 2
    split: str = "train"
    hesitation: Share = 0.0
    # The bytes and the special tokens have an id each.
    vocab_size: Annotated[int, Interval(ge=300, le=MOST)] = 1_024
    size: Literal[tuple(SIZES)] = "tiny"
    epochs: CountOrNone = 2
    lr: Annotated[float, Ge(0.0)] = 2e-3
    batch_size: Count = 16
    text_weight: Annotated[float, Ge(0.0)] = 0.5
    seed: Seed = 0
    per_seed: bool = False

    def of_run(self, seed: int) -> WarmStart:
        """The recipe of a run with this seed."""
        return replace(self, seed=(self.seed + seed) % 2**32) if self.per_seed else self
