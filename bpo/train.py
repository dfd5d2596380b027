"""The training loop: rollout, credit, update; metrics, checkpoints, resume. What changes the policy is its learner."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bpo import checkpoint, finite, tree_log, update
from bpo.config import RunConfig
from bpo.credit import Credit, found_by
from bpo.errors import BadInput
from bpo.evaluate import evaluate, success
from bpo.files import published, write_atomically
from bpo.initial import initial_policy
from bpo.mechanism import FIRED, Seen, fired
from bpo.policy import Policy
from bpo.pool import split_tasks, training_tasks
from bpo.provenance import code_fingerprint, record
from bpo.reading import to_yaml
from bpo.rollout import Ledger, grow
from bpo.sandbox import Sandbox
from bpo.sandboxes import factory
from bpo.sealed import Damaged, append_row, read_rows, to_row
from bpo.select import QuantileThreshold
from bpo.tree import Tree

# Window of the running statistics of the gradient norm (the paper: 50 mini-batches).
WINDOW = 50
# Share of steps with an advantage that matters (the paper: 0.1).
SIGNAL = 0.1
# First integers of the keys of the streams that a run spawns.
TASKS, ROLLOUT, SPARE = 1, 2, 6
# Spare tasks of an update at most.
MOST_SPARE = 256

# Columns of a row that are means over the update's tokens, by the fact that they are made of.
PER_TOKEN = {"kl": "kl", "approx_kl": "approx_kl", "clip_fraction": "clipped"}

Progress = Callable[[int, dict[str, Any]], None]


class Trainer:
    """One run. `run` does what is left of it; everything that decides its future is in `state`, and so in a checkpoint."""

    def __init__(self, config: RunConfig, folder: Path, policy: Policy | None = None):
        code_fingerprint(config)  # of the code that runs, not of what the files say when the run ends
        self.config, self.folder, self.method = config, folder, config.recipe()
        settings = config.settings
        make = factory(config.sandbox, config.sandbox_options)
        trees = settings.tasks_per_update * self.method.growth.trees
        self.sandboxes: list[Sandbox] = [
            make() for _ in range(min(settings.concurrency, max(trees, settings.curve_tasks * settings.curve_samples)))
        ]
        self.policy = policy or initial_policy(config)
        self.memory = self.method.memory()
        self.learner = self.method.learner(self.policy, self.memory, self.method, settings, config.seed)
        self.train_tasks = training_tasks(self.sandboxes[0], settings, config.seed)
        if settings.tasks_per_update > len(self.train_tasks):
            raise BadInput(
                f"tasks_per_update is {settings.tasks_per_update}, but there are {len(self.train_tasks)} training tasks"
            )
        self.done = 0
        self.ledger = Ledger()
        self.norms: deque[float] = deque(maxlen=WINDOW)

    def run(self, which: str = "latest", progress: Progress | None = None) -> Policy:
        """Train to the last update, from the named checkpoint where there is one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = checkpoint.load(self.folder, which)
        if state is not None:
            self.load_state(state)
        checkpoint.require_own(self.folder, self.config)
        self._start_files()
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(self.folder / "tensorboard"), purge_step=self.done)
        try:
            if self.done == 0 and self.config.settings.curve_every:
                self._log({"update": 0, **self.curve()}, writer)
            while self.done < self.config.settings.updates:
                row, trees = self.one_update()
                settings = self.config.settings
                if settings.curve_every and self.done % settings.curve_every == 0:
                    row |= self.curve()
                self._log(row, writer)
                tree_log.append(self.folder / tree_log.FILE, trees)
                if self.done % settings.checkpoint_every == 0 or self.done == settings.updates:
                    checkpoint.save(self.folder, self.done, self.state())
                if progress:
                    progress(self.done, row)
        finally:
            writer.close()
        with published(self.folder / "policy") as made:
            self.policy.save(made)
        return self.policy

    def close(self) -> None:
        """Close the sandboxes."""
        for sandbox in self.sandboxes:
            sandbox.close()

    def tasks_of(self, number: int) -> list[str]:
        """Training tasks of an update: a function of the seed and the update alone, so all methods meet the same tasks."""
        rng = np.random.default_rng([TASKS, self.config.seed, number])
        picks = rng.choice(len(self.train_tasks), size=self.config.settings.tasks_per_update, replace=False)
        return [self.train_tasks[int(i)] for i in picks]

    def spare_tasks(self, number: int) -> Iterator[str]:
        """Further training tasks of an update, each once, for methods that set trees aside."""
        rng = np.random.default_rng([SPARE, self.config.seed, number])
        taken = set(self.tasks_of(number))
        count = min(MOST_SPARE, len(self.train_tasks))
        for pick in rng.choice(len(self.train_tasks), size=count, replace=False):
            if (task := self.train_tasks[int(pick)]) not in taken:
                yield task

    def one_update(self) -> tuple[dict[str, Any], list[tree_log.SavedTree]]:
        """Rollout, credit, update; returns the row of metrics and the trees that are kept."""
        key = (ROLLOUT, self.config.seed, self.done)
        tasks, spare = self.tasks_of(self.done), self.spare_tasks(self.done)
        trees, ledger = grow(tasks, self.sandboxes, self.policy, self.method.growth, key, memory=self.memory, spare=spare)
        start = time.perf_counter()
        credits = found_by(self.method.credit, trees, self.memory)
        finite.require_batch(self.done + 1, trees, credits)
        facts = self.learner.learn(self.done, trees, credits)
        self.memory.observe(trees)
        self.norms.append(facts["grad_norm"])
        ledger.update_s = time.perf_counter() - start
        self.ledger = self.ledger + ledger
        self.done += 1
        seen = Seen(tasks, trees, credits, facts)
        row = {**self._row(trees, credits, facts, ledger), FIRED: fired(self.method.mechanism, seen)}
        return row, tree_log.of_update(self.done, self.config.method, trees, credits)

    def curve(self) -> dict[str, Any]:
        """A point of the learning curve: `curve`, success, and `curve_by_task`, the share of each task's episodes that succeed.

        Its tasks are the run's own pool, or a split that is neither trained nor evaluated on.
        """
        settings = self.config.settings
        tasks = split_tasks(self.sandboxes[0], settings.curve_split, settings, self.config.seed)[: settings.curve_tasks]
        episodes, _ = evaluate(self.policy, self.sandboxes, tasks, settings.curve_samples)
        each = [success([episode for episode in episodes if episode.task == task]) for task in tasks]
        return {"curve": success(episodes), "curve_by_task": each}

    def state(self) -> dict[str, Any]:
        """Everything that decides the rest of the run. Random streams are spawned from (seed, update), so they are in here."""
        return {
            "update": self.done,
            "origin": checkpoint.origin(self.config),
            "policy": self.policy.state_dict(),
            "learner": self.learner.state_dict(),
            "memory": self.memory.state_dict(),
            "norms": list(self.norms),
            "ledger": asdict(self.ledger),
            "torch_rng": torch.get_rng_state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken; BadInput where other code or another configuration took it."""
        checkpoint.require_same(self.folder, state, self.config)
        finite.require_finite(f"the checkpoint in {self.folder}", state["policy"], "delete it")
        self.done = state["update"]
        self.policy.load_state_dict(state["policy"])
        self.memory.load_state_dict(state["memory"])
        self.learner.load_state_dict(state["learner"])
        self.norms = deque(state["norms"], maxlen=WINDOW)
        self.ledger = Ledger(**state["ledger"])
        torch.set_rng_state(state["torch_rng"])

    def _row(
        self, trees: Sequence[Tree], credits: Sequence[Credit], facts: Mapping[str, float], ledger: Ledger
    ) -> dict[str, Any]:
        causal, selector = self.method.growth.causal, self.method.growth.selector
        magnitudes = [np.abs(credit.advantage[1:]) for credit in credits]
        tokens = facts["tokens"]
        mean, variance = float(np.mean(self.norms)), float(np.var(self.norms))
        row = {
            "update": self.done,
            "success": float(np.mean([update.root_estimate(tree, causal) for tree in trees])),
            "return": float(np.mean([update.root_return(tree, causal) for tree in trees])),
            "entropy": float(np.nanmean(np.concatenate([tree.entropy for tree in trees]))),
            "grad_norm": facts["grad_norm"],
            "grad_norm_mean": mean,
            "grad_norm_var": variance,
            "signal_steps": float(np.mean(np.concatenate(magnitudes) > SIGNAL)),
            "signal_trees": float(np.mean([m.max() > SIGNAL for m in magnitudes])),
            "loss": facts["loss"],
            # Means over tokens: of none, where no group had a contrast, there is no mean.
            **{name: facts[fact] / tokens if tokens else None for name, fact in PER_TOKEN.items()},
            "branch_points": float(np.mean([len(tree.branch_points) for tree in trees])),
            "returns_per_tree": ledger.returns / len(trees),
            "ledger": {k: v for k, v in asdict(ledger).items() if not k.endswith("_s")},
            "seconds": {"rollout": ledger.rollout_s, "update": ledger.update_s},
        }
        if isinstance(selector, QuantileThreshold):
            row["threshold"] = selector.threshold
        return row

    def _start_files(self) -> None:
        write_atomically(
            self.folder / checkpoint.CONFIG,
            to_yaml(
                {
                    "config": self.config.plain(),
                    "hash": self.config.hash,
                    "origin": record(self.config, code_fingerprint(self.config)),
                }
            ),
        )
        path = self.folder / "metrics.jsonl"
        rows = read_metrics(path) if path.exists() and self.done else []
        kept = [row for row in rows if row["update"] <= self.done]
        missing = {*range(1, self.done + 1)} - {row["update"] for row in kept}
        if missing:
            raise Damaged(f"{path} lacks update {min(missing)} of the {self.done} that the checkpoint has seen: delete the run")
        write_atomically(path, "".join(map(to_row, kept)))
        tree_log.truncate(self.folder / tree_log.FILE, self.done)

    def _log(self, row: dict[str, Any], writer: Any) -> None:
        append_row(self.folder / "metrics.jsonl", row)
        flat = {**row, **row.get("ledger", {}), **{f"seconds/{k}": v for k, v in row.get("seconds", {}).items()}}
        flat |= {f"{FIRED}/{k}": v for k, v in row.get(FIRED, {}).items()}
        for name, value in flat.items():
            if isinstance(value, int | float) and name != "update":
                writer.add_scalar(name, value, row["update"])


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics.jsonl; a last line that was cut off by a kill is left out, any other damage is Damaged."""
    return read_rows(path)
