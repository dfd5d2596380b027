"""From the results of runs to the table: pure functions, no files. The rules are in PROTOCOL.md."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bpo.sandboxes import spec
from bpo.sandboxes.record import PaperColumn
from reproduce import stats
from reproduce.collect import Collected, RowRuns
from reproduce.plan import BASELINES, START, mean_returns
from reproduce.stats import Estimate

Run = Mapping[str, Any]

# Returns of the paper's baselines.
PAPER_RETURNS = 8
# The label of the row that training starts from.
ABOVE, INSIDE, BELOW = "above the warm start", "inside the noise", "below the warm start"
# Fields that may differ between two runs of the same code on the same machine.
VOLATILE = ("seconds", "host", "date")


def build(collected: Collected) -> dict[str, Any]:
    """The table as plain values; equal runs give equal tables but for the fields named in VOLATILE."""
    config = collected.start["config"]
    splits = list(config["settings"]["eval_splits"])
    start = {split: outcomes([collected.start], split) for split in splits}
    start_score = {split: outcomes([collected.start], split, "score") for split in splits}
    figures = spec(collected.sandbox).paper
    reference = noise_reference(collected.rows)
    target = speed_target(collected.rows)
    rows = [_start_row(collected.start, start, start_score, figures)]
    for runs in collected.rows:
        results = [runs.runs[seed] for seed in sorted(runs.runs)]
        success = {split: outcomes(results, split) for split in splits}
        score = {split: outcomes(results, split, "score") for split in splits}
        rows.append(
            {
                "label": runs.row.label,
                "method": runs.row.method,
                "parameters": results[0]["parameters"],
                "matched_to": list(runs.row.matched_to),
                "paper": paper(runs, figures),
                "seeds": sorted(runs.runs),
                "success": {split: _success(success[split]) for split in splits},
                "score": {split: _success(score[split]) for split in splits},
                "vs_start": {split: _against(success[split], start[split]) for split in splits},
                "score_vs_start": {split: _against(score[split], start_score[split]) for split in splits},
                "speed": speed(runs, target),
                "noise": noise(runs, reference),
                "returns_per_tree": {"used": mean_returns(results), "planned": runs.planned},
                "cost": cost(results),
                **signal(results),
                "by_type": {split: by_type(results, split) for split in splits},
                "seconds": seconds(results),
            }
        )
    return {
        "preset": collected.preset,
        "sandbox": collected.sandbox,
        "games": spec(config["sandbox"]).tasks(config["sandbox_options"]),
        "scale": collected.scale,
        "seeds": list(collected.seeds),
        "splits": splits,
        "tasks": {split: int(start[split].shape[1]) for split in splits},
        "settings": {
            **config["settings"],
            "options": config["sandbox_options"],
            "policy": config["policy"],
            "warm_start": config["warm_start"],
        },
        "origin": origin(collected),
        "rows": rows,
        "target": target,
        "noise_reference": reference.row.label if reference else None,
        "pairs": pairs(collected.rows, splits[0]),
        "missing": list(collected.missing),
        "official": collected.official,
        "rules": collected.rules,
    }


def origin(collected: Collected) -> dict[str, Any]:
    """Where the warm start comes from, one fingerprint for the code of all runs, and the kinds of boxes that they used."""
    found = {key: value for key, value in collected.start["origin"].items() if key not in ("host", "date")}
    results = [collected.start, *(run for row in collected.rows for run in row.runs.values())]
    codes = sorted({result["origin"]["code"] for result in results})
    found["code"] = hashlib.sha256(" ".join(codes).encode()).hexdigest()[:12]
    if "boxes" in found:
        found["boxes"] = sorted({kind for result in results for kind in result["origin"]["boxes"]})
    return found


def strip_times(value: Any) -> Any:
    """The part of a table that a rerun must reproduce bit by bit: without seconds, host and date, at any depth."""
    if isinstance(value, Mapping):
        return {key: strip_times(inner) for key, inner in value.items() if key not in VOLATILE}
    return [strip_times(inner) for inner in value] if isinstance(value, list) else value


def outcomes(results: Sequence[Run], split: str, what: str = "success") -> np.ndarray:
    """float64 [runs, tasks]: each task's success or score, averaged over its episodes; ValueError where the tasks differ."""
    tables = []
    for result in results:
        by_task: dict[str, list[float]] = {}
        for episode in result["evaluation"][split]["episodes"]:
            by_task.setdefault(episode["task"], []).append(float(episode[what]))
        tables.append({task: float(np.mean(values)) for task, values in by_task.items()})
    if any(list(table) != list(tables[0]) for table in tables):
        raise ValueError(f"the runs were evaluated on different tasks of {split}")
    return np.array([list(table.values()) for table in tables])


def pairs(rows: Sequence[RowRuns], split: str) -> list[dict[str, Any]]:
    """Every pair of rows: the paired differences of their success and score, over the seeds that both have."""
    found = []
    for a, b in itertools.combinations(rows, 2):
        seeds = sorted(set(a.runs) & set(b.runs))
        if seeds:
            left, right = (outcomes([row.runs[seed] for seed in seeds], split) for row in (a, b))
            gap = stats.difference(left, right)
            score = stats.difference(*(outcomes([row.runs[seed] for seed in seeds], split, "score") for row in (a, b)))
            found.append(
                {
                    "a": a.row.label,
                    "b": b.row.label,
                    **_plain(gap),
                    "sign": gap.sign,
                    "score": {**_plain(score), "sign": score.sign},
                }
            )
    return found


def speed_target(rows: Sequence[RowRuns]) -> dict[str, Any] | None:
    """The baseline row whose learning curves end highest (mean over seeds), and where they end.

    None without curves, and where no baseline ends above its start: a target that is met before training says nothing.
    """
    ends = []
    for row in rows:
        if row.row.method in BASELINES and all(curves(row).values()):
            first, last = (float(np.mean([points[i][1] for points in curves(row).values()])) for i in (0, -1))
            ends += [(last, row.row.label)] if last > first else []
    best = max(ends, key=lambda end: end[0], default=None)
    return None if best is None else {"row": best[1], "success": best[0]}


def speed(row: RowRuns, target: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """First update with a curve point at the target, per seed and as median; None stands for "not reached"."""
    if target is None:
        return None
    reached = {
        seed: next((float(update) for update, success in points if success >= target["success"]), math.inf)
        for seed, points in curves(row).items()
    }
    median = float(np.median(list(reached.values())))
    return {"seeds": {str(seed): _number(value) for seed, value in reached.items()}, "median": _number(median)}


def curves(row: RowRuns) -> dict[int, list[tuple[int, float]]]:
    """(update, success on the curve panel) by seed."""
    return {
        seed: [(metric["update"], metric["curve"]) for metric in row.runs[seed]["metrics"] if "curve" in metric]
        for seed in sorted(row.runs)
    }


def noise_reference(rows: Sequence[RowRuns]) -> RowRuns | None:
    """The GRPO row that gradient noise is relative to: the one with as many returns as other methods plan, else the first."""
    grpo = [row for row in rows if row.row.method == "grpo" and norms(row)]
    planned = [row.planned for row in rows if row.row.method not in BASELINES]
    return next((row for row in grpo if row.planned in planned), grpo[0] if grpo else None)


def norms(row: RowRuns) -> list[float]:
    """Gradient norms at the frozen warm start, one per draw; empty where none were measured."""
    return next(([draw["norm"] for draw in run["noise"]] for run in row.runs.values() if run["noise"]), [])


def noise(row: RowRuns, reference: RowRuns | None) -> dict[str, Any] | None:
    """Variance of the gradient norm relative to the reference row on the same tasks: raw, and divided by the squared mean."""
    own = norms(row)
    if reference is None or not own:
        return None
    return {
        "draws": len(own),
        "mean_norm": float(np.mean(own)),
        "raw": _plain(stats.ratio_of_noise(own, norms(reference), stats.variance)),
        "scale_free": _plain(stats.ratio_of_noise(own, norms(reference), stats.scale_free)),
    }


def updates(results: Sequence[Run]) -> list[Mapping[str, Any]]:
    """The metrics of every update of these runs."""
    return [metric for run in results for metric in run["metrics"] if metric["update"] > 0]


def cost(results: Sequence[Run]) -> dict[str, float | None]:
    """Environment steps and model tokens per update, of training alone."""
    names = ("returns", "env_steps", "computed", "generated")
    return {name: _mean([metric["ledger"][name] for metric in updates(results)]) for name in names}


def signal(results: Sequence[Run]) -> dict[str, Any]:
    """Updates done, share of them without any gradient and with clipping of the norm active, and the last KL per token."""
    metrics, limit = updates(results), results[0]["config"]["settings"]["max_grad_norm"]
    last = [[metric for metric in run["metrics"] if metric["update"] > 0][-1:] for run in results]
    return {
        "updates": [sum(metric["update"] > 0 for metric in run["metrics"]) for run in results],
        "zero_gradient": _mean([metric["grad_norm"] == 0 for metric in metrics]),
        "norm_clipped": _mean([metric["grad_norm"] > limit for metric in metrics]),
        "last_kl": _mean([metric["kl"] for ends in last for metric in ends if metric["kl"] is not None]),
    }


def by_type(results: Sequence[Run], split: str) -> dict[str, Any]:
    """Success by task type, mean over seeds, with the number of episodes of one seed."""
    kinds = results[0]["evaluation"][split]["by_type"]
    return {
        kind: {"success": _mean([run["evaluation"][split]["by_type"][kind][0] for run in results]), "episodes": count}
        for kind, (_, count) in kinds.items()
    }


def seconds(results: Sequence[Run]) -> dict[str, float | None]:
    """Wall seconds of rollouts and updates of one run, mean over seeds; they belong to the machine."""
    return {name: _mean([run["seconds"][name] for run in results]) for name in ("rollout", "update")}


def paper(runs: RowRuns, figures: PaperColumn) -> str:
    """The paper's figure for this method; its baselines were run at N = 8 alone, and it has no `bpo_split`."""
    method = runs.row.method
    if method in BASELINES and method in figures.methods:
        figure = f"{figures.methods[method]} (N = {PAPER_RETURNS})"
        return figure if runs.planned == PAPER_RETURNS else f"none at N = {runs.planned}; {figure}"
    return figures.methods.get(method, "none")


def _start_row(
    result: Run, start: Mapping[str, np.ndarray], score: Mapping[str, np.ndarray], figures: PaperColumn
) -> dict[str, Any]:
    return {
        "label": START,
        "method": None,
        "paper": figures.start,
        "success": {split: _success(values) for split, values in start.items()},
        "score": {split: _success(values) for split, values in score.items()},
        "by_type": {split: by_type([result], split) for split in start},
    }


def _success(values: np.ndarray) -> dict[str, Any]:
    return {**_plain(stats.success(values)), "seeds": [float(mean) for mean in values.mean(axis=1)]}


def _against(values: np.ndarray, start: np.ndarray) -> dict[str, Any]:
    gap = stats.difference(values, start)
    return {**_plain(gap), "verdict": {1: ABOVE, 0: INSIDE, -1: BELOW}[gap.sign]}


def _plain(estimate: Estimate) -> dict[str, float | None]:
    return {"value": _number(estimate.value), "low": _number(estimate.low), "high": _number(estimate.high)}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
