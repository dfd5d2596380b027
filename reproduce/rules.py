"""Rule policies on the evaluation tasks: reference rows that need no model. Only WebShop has such."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from typing import Any

from bpo.evaluate import panel
from bpo.files import write_json
from bpo.sandboxes import factory
from reproduce.collect import RULES
from reproduce.plan import TablePlan


def evaluate_rules(plan: TablePlan) -> dict[str, Any] | None:
    """Score, success and steps of every rule on every evaluation split, kept in rules.json among the runs."""
    from bpo.provenance import start_fingerprint

    if plan.sandbox != "webshop":
        return None
    from bpo.sandboxes.webshop import rules

    config = plan.warm_start[0]
    made_of = {"code": start_fingerprint(config), "config": config.hash}
    path = plan.runs / RULES
    if path.is_file() and made_of.items() <= (old := json.loads(path.read_text())).items():
        return old
    settings = config.settings
    with contextlib.closing(factory(config.sandbox, config.sandbox_options)()) as sandbox:
        rows = {
            name: {
                split: asdict(rules.score(sandbox, panel(sandbox, split, settings.eval_tasks), name))
                for split in settings.eval_splits
            }
            for name in rules.RULES
        }
        shared = {split: str(sandbox.leaks(split)) for split in settings.eval_splits}
    result = {**made_of, "rows": rows, "max_steps": sandbox.max_steps, "shared_with_train": shared}
    write_json(path, result)
    return result
