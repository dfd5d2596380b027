"""One finished run as one JSON file: gradient noise at the start, training, evaluation of the last checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bpo import noise
from bpo.config import RunConfig
from bpo.errors import choose
from bpo.evaluate import by_type, evaluate, plain, success
from bpo.files import locked, to_json
from bpo.initial import initial_policy
from bpo.mechanism import inactive
from bpo.policy import Policy
from bpo.pool import evaluation_tasks, split_tasks
from bpo.preflight import check_run
from bpo.provenance import code_fingerprint, record, start_fingerprint
from bpo.sandbox import Sandbox
from bpo.sandboxes import factory
from bpo.sealed import Damaged, read_with_digest, write_with_digest
from bpo.train import Trainer, read_metrics

RESULT, LOCK = "result.json", ".lock"
# Called with (phase, done, total).
ReportProgress = Callable[[str, int, int], None]


def finished(config: RunConfig, folder: Path) -> dict[str, Any] | None:
    """The result of a run that is complete for this configuration and this code, else None."""
    return _result(config, folder, code_fingerprint(config))


def finished_start(config: RunConfig, folder: Path) -> dict[str, Any] | None:
    """The evaluation of the initial policy, where it is complete for this configuration and this code, else None."""
    return _result(config, folder, start_fingerprint(config))


def _result(config: RunConfig, folder: Path, code: str) -> dict[str, Any] | None:
    try:
        result = json.loads(read_with_digest(folder / RESULT))
    except (OSError, Damaged):
        return None
    made_of = (result.get("hash"), result.get("config", {}).get("seed"), result.get("origin", {}).get("code"))
    return result if made_of == (config.hash, config.seed, code) else None


def run(
    config: RunConfig,
    folder: Path,
    *,
    which: str = "latest",
    noise_draws: int = 0,
    noise_tasks: int = 4,
    report: ReportProgress | None = None,
) -> dict[str, Any]:
    """Carry a run to its end, from where it was interrupted, and return what `result.json` says.

    The result holds the configuration, its origin, the metrics of every update, every evaluated episode and the cost. All
    fields but `origin.host`, `origin.date` and those named `seconds` are a function of configuration, code and versions.

    Errors: BadInput where the run could not end (see `bpo.preflight`), before anything is written, and where another process
    works on the same folder.
    """
    start = time.perf_counter()
    report = report or (lambda phase, done, total: None)
    settings = config.settings
    choose("checkpoint", which, ("latest", "previous"))
    check_run(config, noise_draws, noise_tasks)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / LOCK, f"another process works on {folder}: wait until it has ended, or name another folder"):
        policy = initial_policy(config, report)
        trainer = Trainer(config, folder, policy)
        try:
            measured = _noise(config, policy, trainer.sandboxes, noise_draws, noise_tasks, report) if noise_draws else None
            trainer.run(which, lambda done, row: report("train", done, settings.updates))
            splits = evaluate_splits(config, policy, trainer.sandboxes, report)
        finally:
            trainer.close()
    metrics = read_metrics(folder / "metrics.jsonl")
    result = {
        "config": config.plain(),
        "parameters": dict(config.recipe().parameters),
        "hash": config.hash,
        "name": config.name,
        "origin": record(config, code_fingerprint(config)),
        "metrics": [{key: value for key, value in row.items() if key != "seconds"} for row in metrics],
        "inactive": inactive(trainer.method.mechanism, metrics),
        "noise": measured,
        "evaluation": splits,
        "ledger": {key: value for key, value in asdict(trainer.ledger).items() if not key.endswith("_s")},
        "seconds": {
            "total": time.perf_counter() - start,
            "rollout": trainer.ledger.rollout_s,
            "update": trainer.ledger.update_s,
        },
    }
    _write(folder, result)
    return result


def _write(folder: Path, result: dict[str, Any]) -> None:
    write_with_digest(folder / RESULT, to_json(result, indent=1, sort_keys=True) + "\n")


def evaluate_splits(
    config: RunConfig, policy: Policy, sandboxes: list[Sandbox], report: ReportProgress | None = None
) -> dict[str, Any]:
    """Episodes, success and success per task type on every evaluation split of the configuration."""
    settings, splits = config.settings, {}
    for split in settings.eval_splits:
        tasks = evaluation_tasks(sandboxes[0], split, settings.eval_tasks, settings, config.seed)
        total = len(tasks) * settings.eval_samples
        told = (lambda done, split=split, total=total: report(split, done, total)) if report else None
        episodes, _ = evaluate(policy, sandboxes, tasks, settings.eval_samples, told)
        splits[split] = {"success": success(episodes), "by_type": by_type(episodes), "episodes": plain(episodes)}
    return splits


def start_result(config: RunConfig, folder: Path, report: ReportProgress | None = None) -> dict[str, Any]:
    """The initial policy under the same evaluation as every run: the row that all others are compared with."""
    check_run(config)
    policy = initial_policy(config, report)
    make = factory(config.sandbox, config.sandbox_options)
    sandboxes = [make() for _ in range(config.settings.concurrency)]
    try:
        splits = evaluate_splits(config, policy, sandboxes, report)
    finally:
        for sandbox in sandboxes:
            sandbox.close()
    result = {
        "config": config.plain(),
        "hash": config.hash,
        "origin": record(config, start_fingerprint(config)),
        "evaluation": splits,
    }
    _write(folder, result)
    return result


def _noise(config: RunConfig, policy: Policy, sandboxes, draws: int, width: int, report: ReportProgress) -> dict[str, Any]:
    """Norm and cost of every gradient, their Gram matrix, and the number of tasks of each."""
    # From the far end of the curve split: where that is not the pool, they are neither trained on nor part of the curve.
    pool = split_tasks(sandboxes[0], config.settings.curve_split, config.settings, config.seed)
    tasks = [[pool[-1 - (number * width + i) % len(pool)] for i in range(width)] for number in range(draws)]
    made, products = noise.gradient_draws(config.recipe(), policy, sandboxes, tasks, lambda done: report("noise", done, draws))
    return {"tasks": width, "draws": [asdict(draw) for draw in made], "gram": products.tolist()}
