"""A benchmark's own tasks with the tiny model: a check that the pipeline meets the real task set, whatever it scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bpo.cache import data_of
from bpo.errors import BadInput
from bpo.pool import POOL
from bpo.sealed import Damaged, read_record, write_record
from reproduce.collect import OFFICIAL, Collected, RowRuns
from reproduce.plan import TablePlan


def best_row(collected: Collected) -> RowRuns:
    """The row with the highest mean success on the first split that is no pool; ties to the earlier row."""
    split = other_splits(collected.start["config"]["settings"]["eval_splits"])[0]

    def score(row: RowRuns) -> float:
        return sum(run["evaluation"][split]["success"] for run in row.runs.values()) / len(row.runs)

    return max(collected.rows, key=score)


def evaluate_official(plan: TablePlan, collected: Collected, data: Path, report=None) -> dict[str, Any]:
    """Success of the warm start and of the best row (its first seed) on the first `eval_tasks` official tasks of each split.

    Writes official.json among the runs; what is there from the same code and run is kept.
    """
    from bpo import checkpoint
    from bpo.experiment import evaluate_splits
    from bpo.initial import initial_policy
    from bpo.sandboxes import factory, spec

    best, label = best_row(collected), spec(plan.sandbox).official.label
    config = plan.config(best.row, min(best.runs))
    code, path = collected.start["origin"]["code"], plan.runs / OFFICIAL
    games = data_of({"data": str(data)})
    try:
        old = read_record(path)
    except (OSError, Damaged):
        old = {}
    if (old.get("code"), old.get("run"), old.get("games")) == (code, config.name, games):
        return old
    state = checkpoint.load(plan.runs / config.name, "latest")
    if state is None:
        raise BadInput(f"{plan.runs / config.name} has no checkpoint, so its policy cannot be evaluated on the official tasks")
    checkpoint.require_same(plan.runs / config.name, state, config)
    splits = other_splits(config.settings.eval_splits)
    settings = replace(config.settings, train_tasks=0, eval_splits=splits)
    official = replace(config, sandbox_options={"data": str(data)}, settings=settings)
    make = factory(official.sandbox, official.sandbox_options)
    sandboxes = [make() for _ in range(config.settings.concurrency)]
    try:
        policy = initial_policy(config)
        rows = {"warm start": _scores(evaluate_splits(official, policy, sandboxes, report))}
        policy.load_state_dict(state["policy"])
        rows[best.row.label] = _scores(evaluate_splits(official, policy, sandboxes, report))
    finally:
        for sandbox in sandboxes:
            sandbox.close()
    result = {"label": label, "code": code, "run": config.name, "games": games, "rows": rows}
    write_record(path, result)
    return result


def other_splits(splits: Sequence[str]) -> tuple[str, ...]:
    """The splits that any set of tasks has: all but the run's own training tasks."""
    return tuple(split for split in splits if split != POOL)


def _scores(splits: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"success": split["success"], "games": len(split["episodes"]), "by_type": split["by_type"]}
        for name, split in splits.items()
    }
