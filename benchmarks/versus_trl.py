"""Measures a whole update against TRL's GRPOTrainer: the same episodes, the same loss, once here and once there.

    python benchmarks/versus_trl.py [--updates 5] [--tasks 8] [--rows 13] [--json FILE]

Both train the same tiny model (float32, one thread, AdamW) in the same household games on the same returns. An update of one
follows an update of the other.

  rollout   both by this library, since TRL's own rollouts know no sandboxes: TRL's `rollout_func` plays the same episodes in
            the same batches and keeps nothing between two turns, so every context is read from its first token, as by a server
            without a prefix cache. (vLLM has one: beside it this column would say little.) Here every token is computed once.
  update    TRL's trainer, with a row for every return and `--rows` rows in a forward pass; activations are kept, not
            recomputed. Here, paths share what they begin with where that is estimated to be cheaper: "read in training" is what
            was read, and "unique" the least that could be.

  independent   13 rollouts per game: TRL's own GRPO (loss "dr_grpo", rewards not scaled) and `drgrpo` here
  tree          `bpo_split` (M = 4, K = 4): TRL gets a row for every leaf and advantages by token; a token that several leaves
                share carries its loss in the first of them

The policy writes freely, since TRL scores tokens under the whole vocabulary. It was warm-started, so that games are played; a
random number is added to every return, so that all advantages differ from zero and both train on the same tokens (trees
without a contrast are left out here, and read by TRL). Both draw from the same random streams; where rounding tips a draw, an
episode goes another way, so TRL trains on the episodes that were played here, after its own have been played and timed.

The loss is TRL's with a completion length of 1: the sum over tokens, divided by the number of rows. Losses and gradient norms
are compared at every update; at the second pass over the same episodes, ratios differ from 1. Times are CPU seconds, medians
over updates after the first; compare ratios.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import numpy as np
import torch
from arguments import Parser, count, file_path, run
from rich.console import Console
from rich.table import Table
from tree_training import tokens_of

from bpo import update
from bpo.errors import require
from bpo.files import to_json, write_atomically
from bpo.methods import BuiltMethod, build
from bpo.objective import ppo_clip
from bpo.policies.lm import LMPolicy
from bpo.policies.score import read_before
from bpo.policies.settings import PolicySettings, WarmStart
from bpo.policies.warmstart import warm_start
from bpo.rollout import grow
from bpo.sandboxes import demonstration, factory
from bpo.tree import Tree

RETURNS, LR, CLIP = 13, 1e-5, 0.2
METHODS = {
    "independent": ("drgrpo", {"returns": RETURNS}),
    "tree": ("bpo_split", {"gap": 1, "unit": "steps", "floor": 0.0, "selector_value": 0.3}),
}
OPTIONS = {"difficulty": "small"}
RECIPE = WarmStart(games=300, demonstrations=2, epochs=3, vocab_size=512)
WRITING = PolicySettings(writing="free")


class Side:
    """One of the two: its own copy of the model, its own sandboxes, the same random streams."""

    def __init__(self, recipe: BuiltMethod, tasks: Sequence[str], policy: LMPolicy, shared: bool):
        self.recipe, self.tasks = recipe, tasks
        settings = policy.settings | ({} if shared else {"cache_bytes": 0, "share": False})
        self.policy = LMPolicy(policy.frozen_copy().model.requires_grad_(True), policy.tokenizer, **settings)
        self.sandboxes = [factory("household", OPTIONS)() for _ in tasks]
        self.computed: list[int] = []
        self.rollout_s: list[float] = []
        self.update_s: list[float] = []
        self.facts: list[dict[str, float]] = []

    def trees(self) -> list[Tree]:
        """The next update's trees."""
        start = time.process_time()
        trees, ledger = grow(self.tasks, self.sandboxes, self.policy, self.recipe.growth, (0, len(self.computed)))
        self.rollout_s.append(time.process_time() - start)
        self.computed.append(ledger.computed)
        return trees

    def close(self) -> None:
        for sandbox in self.sandboxes:
            sandbox.close()


class Ours(Side):
    """An update of this library, `passes` times over the same trees."""

    def __init__(self, recipe, tasks, policy):
        super().__init__(recipe, tasks, policy, shared=True)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=LR, weight_decay=0.0)

    def one_pass(self, fresh: bool) -> None:
        if fresh:
            rng = np.random.default_rng([1, len(self.computed)])
            self.played = [noisy(tree, rng) for tree in self.trees()]
            start = time.process_time()
            trees = self.played
            self.batch = update.make_batch(trees, self.recipe.credit(trees))
        else:
            start = time.process_time()
        update.zero_grad(self.policy)
        facts = update.backward(self.policy, None, self.batch, ppo_clip, {"clip": CLIP})
        norm = update.grad_norm(self.policy.parameters())
        self.optimizer.step()
        self.update_s.append(time.process_time() - start)
        self.facts.append({"loss": facts["loss"], "norm": norm, "tokens": facts["tokens"], **self.read()})

    def read(self) -> dict[str, int]:
        """Tokens that the last pass read, and the least that it could have."""
        unique = tokens_of(read_before(*step) for step in self.batch.steps)["unique"]
        return {"read": self.policy.tokens_read(self.batch.steps), "unique": unique}


class Theirs(Side):
    """TRL's trainer. Before each of its optimiser steps `ours` makes one, whose episodes it trains on."""

    def __init__(self, ours: Ours, policy, *, by_token: bool, rows: int, passes: int, updates: int, folder: Path):
        tasks = ours.tasks
        super().__init__(ours.recipe, tasks, policy, shared=False)
        self.ours, self.other = ours, 0
        from datasets import Dataset
        from transformers import PrinterCallback, TrainerCallback
        from trl import GRPOConfig, GRPOTrainer
        from trl.trainer.utils import pad

        side = self

        class Clock(TrainerCallback):
            def on_step_begin(self, args, state, control, **kwargs):
                ours.one_pass(fresh=state.global_step % passes == 0)
                side.start, side.spent = time.process_time(), 0.0

            def on_step_end(self, args, state, control, **kwargs):
                side.update_s.append(time.process_time() - side.start - side.spent)

        class ByToken(GRPOTrainer):
            def _generate_and_score_completions(self, inputs):
                found = super()._generate_and_score_completions(inputs)
                advantages = pad([torch.tensor(row["by_token"]) for row in inputs], padding_value=0.0, padding_side="right")
                return found | {"advantages": advantages}

        arguments = GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=len(tasks) * RETURNS // rows,
            num_generations=RETURNS,
            num_iterations=passes,
            max_steps=updates * passes,
            max_completion_length=1,  # of the loss's divisor alone: what rollout_func returns is not cut
            loss_type="dr_grpo",
            scale_rewards="none",
            beta=0.0,
            epsilon=CLIP,
            learning_rate=LR,
            lr_scheduler_type="constant",
            optim="adamw_torch",
            max_grad_norm=0.0,
            activation_checkpointing=False,
            shuffle_dataset=False,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
        )
        self.trainer = (ByToken if by_token else GRPOTrainer)(
            model=self.policy.model,
            args=arguments,
            train_dataset=Dataset.from_list([{"prompt": task} for task in tasks]),
            processing_class=self.policy.tokenizer,
            reward_funcs=lambda completions, returned, **_: returned,
            rollout_func=lambda prompts, _: self.rows(prompts),
            callbacks=[Clock()],
        )
        self.trainer.remove_callback(PrinterCallback)

    def rows(self, prompts: Sequence[str]) -> dict[str, list]:
        """A row for every leaf: `prompts` holds every task as often as it has rows."""
        assert list(prompts) == [task for task in self.tasks for _ in range(RETURNS)], "TRL asks for other games"
        start = time.process_time()
        own, trees = self.trees(), self.ours.played
        self.other += sum(written(one) != written(two) for one, two in zip(own, trees, strict=True))
        credits = self.recipe.credit(trees)
        found: dict[str, list] = {name: [] for name in ("prompt_ids", "completion_ids", "env_mask", "by_token", "returned")}
        for tree, credit in zip(trees, credits, strict=True):
            first = tree.steps[1].context.ids
            seen: set[int] = set()
            for leaf in tree.leaves:
                path = tree.path(leaf)
                last = tree.steps[path[-1]]
                ids = last.context.ids + last.decision.tokens
                mask, advantages = [0] * len(ids), [0.0] * len(ids)
                for node in path:
                    step = tree.steps[node]
                    wrote = slice(len(step.context.ids), len(step.context.ids) + len(step.decision.tokens))
                    if node not in seen:
                        mask[wrote] = [1] * len(step.decision.tokens)
                        advantages[wrote] = [RETURNS * credit.weight[node] * credit.advantage[node]] * len(step.decision.tokens)
                seen.update(path)
                found["prompt_ids"].append(list(first))
                found["completion_ids"].append(list(ids[len(first) :]))
                found["env_mask"].append(mask[len(first) :])
                found["by_token"].append(advantages[len(first) :])
                found["returned"].append(float(tree.reward[path].sum()))
            for _ in range(RETURNS - len(tree.leaves)):
                blank = {
                    "prompt_ids": [first[0]],
                    "completion_ids": [first[0]],
                    "env_mask": [0],
                    "by_token": [0.0],
                    "returned": 0.0,
                }
                for name, value in blank.items():
                    found[name].append(value)
        self.facts.append(
            {
                "tokens": sum(map(sum, found["env_mask"])),
                "read": sum(len(a) + len(b) for a, b in zip(found["prompt_ids"], found["completion_ids"], strict=True)),
            }
        )
        # Rows are made and compared for this benchmark: neither TRL's rollout nor its update pays for that.
        self.spent = time.process_time() - start
        return found | {"logprobs": None}


def noisy(tree: Tree, rng: np.random.Generator) -> Tree:
    """The tree with a random number added to every return."""
    reward = tree.reward.copy()
    reward[tree.leaves] += rng.normal(size=len(tree.leaves))
    return replace(tree, reward=reward)


def written(tree: Tree) -> list[tuple[int, ...]]:
    """What was written, step by step."""
    return [step.decision.tokens for step in tree.steps[1:]]


def compared(method: str, policy: LMPolicy, tasks: Sequence[str], updates: int, rows: int, passes: int = 1) -> dict[str, float]:
    """All figures of one method."""
    recipe = build(*METHODS[method])
    ours = Ours(recipe, tasks, policy)
    with tempfile.TemporaryDirectory() as folder:
        theirs = Theirs(ours, policy, by_token=method == "tree", rows=rows, passes=passes, updates=updates, folder=Path(folder))
        theirs.trainer.train()
    ours.close()
    theirs.close()
    logs = [log for log in theirs.trainer.state.log_history if "loss" in log]

    def median(values: Sequence[float]) -> float:
        return statistics.median(values[1:])

    pairs = list(zip(ours.facts, logs, strict=True))

    figures = {
        "rollout_s": (median(ours.rollout_s), median(theirs.rollout_s)),
        "update_s": (median(ours.update_s), median(theirs.update_s)),
        "trained": (sum(fact["tokens"] for fact in ours.facts[::passes]), sum(fact["tokens"] for fact in theirs.facts)),
        "computed": (sum(ours.computed), sum(theirs.computed)),
        "read": (sum(fact["read"] for fact in ours.facts[::passes]), sum(fact["read"] for fact in theirs.facts)),
    }
    return {
        **{
            f"{name}_{side}": value for name, pair in figures.items() for side, value in zip(("ours", "trl"), pair, strict=True)
        },
        "trees": updates * len(tasks),
        "other_trees": theirs.other,
        "unique": sum(fact["unique"] for fact in ours.facts[::passes]),
        "loss": ours.facts[-1]["loss"],
        # A loss is a sum with signs and may be next to nothing: its difference is relative where the loss is above 1.
        "loss_error": max(abs(own["loss"] - their["loss"]) / max(abs(own["loss"]), 1.0) for own, their in pairs),
        "norm_error": max(abs(own["norm"] - their["grad_norm"]) / own["norm"] for own, their in pairs),
    }


def main() -> None:
    parser = Parser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--updates", type=count(2), default=5)
    parser.add_argument("--tasks", type=count(), default=8)
    parser.add_argument("--rows", type=count(), default=RETURNS, help="rows of one of TRL's forward passes")
    parser.add_argument("--json", type=file_path)
    given = parser.parse_args()
    if given.tasks * RETURNS % given.rows:
        parser.error(
            f"--rows is {given.rows}; it must divide the {RETURNS} x --tasks = {given.tasks * RETURNS} returns of an update"
        )
    require("trl", "trl")
    # TRL asks by an old name whether activations are recomputed.
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
    torch.set_num_threads(1)
    console = Console(width=130)
    with console.status("warm start"):
        policy = warm_start(factory("household", OPTIONS), RECIPE, WRITING, demonstrate=demonstration("household"))
    sandbox = factory("household", OPTIONS)()
    tasks = sandbox.tasks("panel")[: given.tasks]
    sandbox.close()
    found = {
        method: compared(method, policy, tasks, given.updates, given.rows)
        | {"second": compared(method, policy, tasks, 2, given.rows, passes=2)}
        for method in METHODS
    }
    heads = ("rollout (nothing kept : each token once)", "update (TRL : ours)", "both")
    table = Table("", *heads, title=f"CPU seconds, TRL's side : ours; {given.tasks} games x {RETURNS} returns, tiny model")
    for method, row in found.items():
        both = [row[f"rollout_s_{side}"] + row[f"update_s_{side}"] for side in ("ours", "trl")]
        ratios = [row["rollout_s_trl"] / row["rollout_s_ours"], row["update_s_trl"] / row["update_s_ours"], both[1] / both[0]]
        table.add_row(method, *(f"{ratio:.2f}x" for ratio in ratios))
    console.print(table)
    heads = ("tokens with a loss", "computed in rollouts", "read in training", "unique in training", "other rollouts")
    table = Table("", *heads, title="Tokens, TRL's side : ours; trees whose rollouts parted by rounding")
    for method, row in found.items():
        counts = [f"{row[f'{name}_trl']:,.0f} : {row[f'{name}_ours']:,.0f}" for name in ("trained", "computed", "read")]
        table.add_row(method, *counts, f"{row['unique']:,.0f}", f"{row['other_trees']} of {row['trees']}")
    console.print(table)
    table = Table(
        "",
        "loss",
        "gradient norm",
        title="Largest relative difference (of losses below 1: absolute): first pass, second pass (ratios are not 1)",
    )
    for method, row in found.items():
        errors = ((row[name], row["second"][name]) for name in ("loss_error", "norm_error"))
        table.add_row(method, *(f"{first:.1g}, {second:.1g}" for first, second in errors))
    console.print(table)
    if given.json:
        write_atomically(given.json, to_json(found, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
