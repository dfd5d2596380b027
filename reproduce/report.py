"""Writes results/<preset>/: the table, the numbers behind every figure, the figures, and executed notebooks to read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bpo.errors import BadInput
from bpo.files import write_atomically, write_json
from bpo.sealed import Damaged, digest_of, read_record, write_record
from bpo.viz import plots
from reproduce.areas import area, curves_by_task
from reproduce.collect import Collected, fingerprint
from reproduce.markdown import markdown, summary
from reproduce.plan import file_name
from reproduce.tables import build

TABLE, SUMMARY, INPUTS = "table.json", "summary.md", "inputs.json"
WRITTEN = (TABLE, "table.md", SUMMARY, "curves.csv", "noise.csv", "by_type.csv", "by_task.csv", "noise.png")
# What the learning curves of a comparison are drawn against: a column of curves.csv, and its name in words.
AXES = {
    "update": ("update", "updates"),
    "env_steps": ("env_steps", "environment steps"),
    "computed": ("tokens", "model tokens computed"),
}


def figure_name(name: str) -> str:
    """File of the learning curves of a comparison."""
    return f"curves-{file_name(name)}.png"


def written(table: Mapping[str, Any]) -> list[str]:
    """Files of the results folder that a table is written to."""
    return [*WRITTEN, *(figure_name(one["name"]) for one in table["sets"])]


def write(collected: Collected, results: Path) -> dict[str, Any]:
    """Everything that the results folder says about these runs; `inputs.json`, written last, says from what."""
    table = build(collected)
    curves, noise = curve_rows(collected), noise_rows(collected)
    write_json(results / TABLE, table)
    write_atomically(results / "table.md", markdown(table))
    write_atomically(results / SUMMARY, summary(table))
    write_csv(results / "curves.csv", curves)
    write_csv(results / "noise.csv", noise)
    write_csv(results / "by_type.csv", type_rows(table))
    write_csv(results / "by_task.csv", task_rows(collected))
    for one in table["sets"]:
        plots.save(curve_figure(curves, table, one["name"]), results / figure_name(one["name"]))
    plots.save(noise_figure(table), results / "noise.png")
    digests = {name: digest_of(results / name) for name in written(table)}
    write_record(results / INPUTS, {"fingerprint": fingerprint(collected), "files": digests})
    return table


def unchanged(collected: Collected, results: Path) -> bool:
    """Whether the results folder is complete and was made from exactly these runs."""
    try:
        inputs = read_record(results / INPUTS)
        digests = {name: digest_of(results / name) for name in written(json.loads((results / TABLE).read_text()))}
    except (OSError, Damaged, ValueError):
        return False
    return inputs == {"fingerprint": fingerprint(collected), "files": digests}


def read(results: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The written table and the points of its curves; BadInput where there are none."""
    if not (results / TABLE).is_file():
        raise BadInput(f"results/{results.name} has no {TABLE}: python -m reproduce run --preset {results.name}")
    with (results / "curves.csv").open() as file:
        points = [{key: value if key == "row" else float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    return json.loads((results / TABLE).read_text()), points


def curve_rows(collected: Collected) -> list[dict[str, Any]]:
    """Points of the learning curves, with what had been spent on training by then."""
    rows = []
    for row in collected.rows:
        for seed in sorted(row.runs):
            spent = dict.fromkeys(("returns", "env_steps", "tokens"), 0)
            for metric in row.runs[seed]["metrics"]:
                ledger = metric.get("ledger", {})
                spent["returns"] += ledger.get("returns", 0)
                spent["env_steps"] += ledger.get("env_steps", 0)
                spent["tokens"] += ledger.get("computed", 0)
                if "curve" in metric:
                    point = {"row": row.row.label, "seed": seed, "update": metric["update"], "success": metric["curve"]}
                    rows.append({**point, **spent})
    return rows


def noise_rows(collected: Collected) -> list[dict[str, Any]]:
    """Every measured gradient at the frozen warm starts."""
    return [
        {"row": row.row.label, "seed": seed, "draw": number, **draw}
        for row in collected.rows
        for seed, run in sorted(row.runs.items())
        for number, draw in enumerate((run["noise"] or {"draws": ()})["draws"])
    ]


def task_rows(collected: Collected) -> list[dict[str, Any]]:
    """Area under the learning curve against updates, of every task of the curve: for drawing seeds and tasks again."""
    return [
        {"row": row.row.label, "seed": seed, "task": number, "area": area(updates, successes, updates[-1])}
        for row in collected.rows
        for seed, run in sorted(row.runs.items())
        for updates, by_task in [curves_by_task(run)]
        if len(updates) > 1
        for number, successes in enumerate(by_task)
    ]


def type_rows(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Success by row, split and task type."""
    return [
        {"row": row["label"], "split": split, "type": kind, **score}
        for row in table["rows"]
        for split, kinds in row["by_type"].items()
        for kind, score in kinds.items()
    ]


def curve_figure(points: Sequence[Mapping[str, Any]], table: Mapping[str, Any], name: str) -> Any:
    """The learning curves of a comparison, against what it is at equal amounts of, up to its budget."""
    one = next(one for one in table["sets"] if one["name"] == name)
    axis, label = AXES[one["axis"]]
    curves: dict[str, dict[float, list[tuple[float, float]]]] = {}
    for point in points:
        if point["row"] in one["areas"]:
            curves.setdefault(point["row"], {}).setdefault(point["seed"], []).append((point[axis], point["success"]))
    shown = {row: list(seeds.values()) for row, seeds in curves.items()}
    split = table["settings"]["curve_split"]
    return plots.learning_curves(shown, limit=one["budget"], xlabel=label, ylabel=f"success on tasks of the split {split}")


def noise_figure(table: Mapping[str, Any]) -> Any:
    """Gradient noise, trace(Cov) / |mean|^2, of every row that measured it."""
    rows = {}
    for row in table["rows"]:
        found = (row.get("noise") or {}).get("noise", {})
        if None not in (found.get("value"), found.get("low"), found.get("high")):
            rows[row["label"]] = (found["value"], found["low"], found["high"])
    return plots.intervals(rows, xlabel="gradients to average until signal and noise are equally long")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of equal fields as CSV, whole or not at all."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_atomically(path, text.getvalue())


def publish(executed: Path, target: Path) -> None:
    """Copy an executed notebook without what differs from run to run: times, and papermill's own record."""
    import nbformat

    notebook = nbformat.read(executed, as_version=4)
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
    write_atomically(target, nbformat.writes(notebook) + "\n")
