"""Policies that need no model on the evaluation tasks: reference rows, where the sandbox's record brings some."""

from __future__ import annotations

import contextlib
from typing import Any

from bpo.cache import data_of
from bpo.pool import evaluation_tasks
from bpo.sandboxes import factory, spec
from bpo.sealed import Damaged, read_record, write_record
from reproduce.collect import RULES
from reproduce.plan import TablePlan


def evaluate_rules(plan: TablePlan) -> dict[str, Any] | None:
    """Score, success and steps of every rule on every evaluation split, kept in rules.json among the runs."""
    from bpo.provenance import start_fingerprint

    reference_rows = spec(plan.sandbox).reference_rows
    if reference_rows is None:
        return None
    config, _ = plan.warm_starts[0]
    made_of = {"code": start_fingerprint(config), "config": config.hash, "data": data_of(config.sandbox_options)}
    path = plan.runs / RULES
    with contextlib.suppress(OSError, Damaged):
        old = read_record(path)
        if made_of.items() <= old.items():
            return old
    settings = config.settings
    with contextlib.closing(factory(config.sandbox, config.sandbox_options)()) as sandbox:
        tasks = {
            split: list(evaluation_tasks(sandbox, split, settings.eval_tasks, settings, config.seed))
            for split in settings.eval_splits
        }
        result = {**made_of, **reference_rows(sandbox, tasks)}
    write_record(path, result)
    return result
