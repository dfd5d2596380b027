"""From the results of runs to the table: pure functions, no files. The rules are in PROTOCOL.md."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bpo import compare
from bpo.sandboxes import spec
from bpo.sandboxes.record import PaperColumn
from reproduce.areas import areas, comparison_sets
from reproduce.collect import Collected, RowRuns
from reproduce.gradients import gradient_noise
from reproduce.plan import BASELINES, START, mean_returns

Run = Mapping[str, Any]

# Returns of the paper's baselines.
PAPER_RETURNS = 8
ABOVE, INSIDE, BELOW = "above the warm start", "inside the noise", "below the warm start"
VERDICTS = {1: ABOVE, 0: INSIDE, -1: BELOW}
# Fields that may differ between two runs of the same code on the same machine.
VOLATILE = ("seconds", "host", "date")


def build(collected: Collected) -> dict[str, Any]:
    """The table as plain values; equal runs give equal tables but for the fields named in VOLATILE."""
    config = collected.start["config"]
    splits = list(config["settings"]["eval_splits"])
    figures = spec(collected.sandbox).paper
    rows = [_start_row(collected, splits, figures)]
    for runs in collected.rows:
        results = ordered(runs)
        rows.append(
            {
                "label": runs.row.label,
                "method": runs.row.method,
                "parameters": results[0]["parameters"],
                "settings": dict(runs.row.settings),
                "matched_to": list(runs.row.matched_to),
                "equal": runs.row.equal,
                "of": runs.row.of,
                "paper": paper(runs, figures),
                "seeds": sorted(runs.runs),
                "success": {split: estimate(means(results, split)) for split in splits},
                "score": {split: estimate(means(results, split, "score")) for split in splits},
                "noise": gradient_noise(results),
                "returns_per_tree": {"used": mean_returns(results), "planned": runs.planned},
                "cost": cost(results),
                **signal(results),
                "by_type": {split: by_type(results, split) for split in splits},
                "seconds": seconds(results),
            }
        )
    sets = comparison_sets(collected)
    return {
        "preset": collected.preset,
        "sandbox": collected.sandbox,
        "games": spec(config["sandbox"]).tasks(config["sandbox_options"]),
        "scale": collected.scale,
        "seeds": list(collected.seeds),
        "reference": collected.reference,
        "splits": splits,
        "tasks": {split: tasks_of(collected.start, split) for split in splits},
        "settings": {
            **config["settings"],
            "options": config["sandbox_options"],
            "policy": config["policy"],
            "warm_start": config["warm_start"],
        },
        "origin": origin(collected),
        "rows": _against_start(rows, collected, splits),
        "sets": [
            {
                "name": one.name,
                "axis": one.axis,
                "budget": one.budget,
                "areas": {row: estimate(values) for row, values in areas(one).items()},
            }
            for one in sets
        ],
        "pairs": pairs(collected),
        "missing": list(collected.missing),
        "official": collected.official,
        "rules": collected.rules,
    }


def ordered(runs: RowRuns) -> list[Run]:
    """The runs of a row, by seed."""
    return [runs.runs[seed] for seed in sorted(runs.runs)]


def estimate(values: Sequence[float]) -> dict[str, Any]:
    """A mean over seeds, the ends of its interval (None with one seed, of which no variation is seen), and the seeds' own."""
    each = [float(value) for value in values]
    if len(each) < 2:
        return {"value": each[0], "low": None, "high": None, "seeds": each}
    found = compare.mean(each)
    return {"value": found.value, "low": found.low, "high": found.high, "seeds": each}


def origin(collected: Collected) -> dict[str, Any]:
    """Where the warm start comes from, one fingerprint for the code of all runs, and the kinds of boxes that they used."""
    found = {key: value for key, value in collected.start["origin"].items() if key not in ("host", "date")}
    results = [*collected.starts.values(), *(run for row in collected.rows for run in row.runs.values())]
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


def tasks_of(result: Run, split: str) -> int:
    """Number of tasks that a split of an evaluation has."""
    return len({episode["task"] for episode in result["evaluation"][split]["episodes"]})


def means(results: Sequence[Run], split: str, what: str = "success") -> np.ndarray:
    """float64 [runs]: success or score, the mean over all episodes of a split."""
    return np.array([np.mean([float(e[what]) for e in run["evaluation"][split]["episodes"]]) for run in results])


def pairs(collected: Collected) -> list[dict[str, Any]]:
    """Every pair of rows of every comparison: differences of the area, the first measure, and of the final success on the first
    split. Each measure is a family of its own, over all sets, whose p values are Holm's.

    Pairs that have fewer than two seeds in common are left out.
    """
    split = collected.start["config"]["settings"]["eval_splits"][0]
    finals = {row.row.label: dict(zip(sorted(row.runs), means(ordered(row), split), strict=True)) for row in collected.rows}
    families: dict[str, dict[tuple[str, str, str], compare.Difference]] = {"area": {}, "final": {}}
    for one in comparison_sets(collected):
        for a, b in itertools.combinations(one.rows, 2):
            shared = sorted(set(one.rows[a]) & set(one.rows[b]))
            if len(shared) > 1:
                key, values = (one.name, a, b), areas(one, shared)
                families["area"][key] = compare.paired(values[a], values[b])
                families["final"][key] = compare.paired(*([finals[label][seed] for seed in shared] for label in (a, b)))
    return [
        {"measure": measure, "set": name, "a": a, "b": b, **_plain(verdict)}
        for measure, family in families.items()
        for (name, a, b), verdict in compare.verdicts(family).items()
    ]


def updates(results: Sequence[Run]) -> list[Mapping[str, Any]]:
    """The metrics of every update of these runs."""
    return [metric for run in results for metric in run["metrics"] if metric["update"] > 0]


def cost(results: Sequence[Run]) -> dict[str, float | None]:
    """Tasks, returns, environment steps and model tokens per update, of training alone."""
    names = ("returns", "env_steps", "computed", "generated")
    found = {name: _mean([metric["ledger"][name] for metric in updates(results)]) for name in names}
    return {"tasks": results[0]["config"]["settings"]["tasks_per_update"], **found}


def signal(results: Sequence[Run]) -> dict[str, Any]:
    """Updates done, the share of them without a gradient and with a clipped one, median norm, and last KL per token."""
    metrics, limit = updates(results), results[0]["config"]["settings"]["max_grad_norm"]
    last = [[metric for metric in run["metrics"] if metric["update"] > 0][-1:] for run in results]
    return {
        "updates": [sum(metric["update"] > 0 for metric in run["metrics"]) for run in results],
        "zero_gradient": _mean([metric["grad_norm"] == 0 for metric in metrics]),
        "norm_clipped": _mean([metric["grad_norm"] > limit for metric in metrics]),
        "median_norm": float(np.median([metric["grad_norm"] for metric in metrics])) if metrics else None,
        "last_kl": _mean([metric["kl"] for ends in last for metric in ends if metric["kl"] is not None]),
    }


def by_type(results: Sequence[Run], split: str) -> dict[str, Any]:
    """Success by task type, over the episodes of all seeds, with their number."""
    found: dict[str, list[float]] = {}
    for run in results:
        for episode in run["evaluation"][split]["episodes"]:
            found.setdefault(episode["task_type"], []).append(float(episode["success"]))
    return {kind: {"success": _mean(found[kind]), "episodes": len(found[kind])} for kind in sorted(found)}


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


def _start_row(collected: Collected, splits: Sequence[str], figures: PaperColumn) -> dict[str, Any]:
    starts = [collected.starts[seed] for seed in sorted(collected.starts)]
    return {
        "label": START,
        "method": None,
        "paper": figures.start,
        "seeds": sorted(collected.starts),
        "success": {split: estimate(means(starts, split)) for split in splits},
        "score": {split: estimate(means(starts, split, "score")) for split in splits},
        "by_type": {split: by_type(starts, split) for split in splits},
    }


def _against_start(rows: list[dict[str, Any]], collected: Collected, splits: Sequence[str]) -> list[dict[str, Any]]:
    """The rows with `vs_start` and `score_vs_start`: each minus the warm start of its seeds, a family of verdicts per split."""
    for field, what in (("vs_start", "success"), ("score_vs_start", "score")):
        for split in splits:
            gaps = {}
            for row in rows[1:]:
                starts = means([collected.start_of(seed) for seed in row["seeds"]], split, what)
                gaps[row["label"]] = np.array(row[what][split]["seeds"]) - starts
            several = {label: compare.mean(gap) for label, gap in gaps.items() if len(gap) > 1}
            found = compare.verdicts(several)
            for row in rows[1:]:
                verdict = found.get(row["label"])
                plain = (
                    {**_plain(verdict), "verdict": VERDICTS[verdict.sign]}
                    if verdict
                    else {"value": float(gaps[row["label"]][0]), "low": None, "high": None, "verdict": INSIDE}
                )
                row.setdefault(field, {})[split] = plain
    return rows


def _plain(verdict: compare.Verdict) -> dict[str, Any]:
    one = verdict.difference
    return {
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "p": one.p,
        "adjusted": verdict.adjusted,
        "sign": verdict.sign,
        "seeds": one.seeds,
    }


def _mean(values: Sequence[float]) -> float | None:
    found = float(np.mean(values)) if len(values) else math.nan
    return found if math.isfinite(found) else None
