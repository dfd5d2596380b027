"""Which runs a table needs: a preset's rows times its seeds, and baselines at the returns that branching really used."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bpo.config import Preset, RunConfig, Sweep, load_preset
from bpo.errors import BadInput, choose
from bpo.policies.settings import MOST
from reproduce import executed

ROOT = Path(__file__).resolve().parents[1]
# The label of the row of the initial policy.
START = "warm start"
# Rows that branching methods are compared with at equal numbers of returns.
BASELINES = ("rloo", "grpo")
# Numbers of returns, and costs of an update, within this share of each other count as matched.
MATCHED = 0.05
# What rows are compared at equal amounts of, by its name in the ledger, and how labels say so.
EQUAL = {"env_steps": "equal steps", "computed": "equal tokens"}


@dataclass(frozen=True)
class TableRow:
    """One row of the table.

    matched_to  the branching rows whose mean number of returns it was given
    equal       what it was given as much of per update as the reference uses ("env_steps", "computed"), by tasks; "": nothing
    of          the row that it is with that many tasks; "" for rows that are nobody's
    """

    label: str
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    matched_to: tuple[str, ...] = ()
    equal: str = ""
    of: str = ""


@dataclass(frozen=True)
class Job:
    """One training run of the table."""

    row: TableRow
    config: RunConfig
    folder: Path
    noise_draws: int
    noise_tasks: int

    @property
    def notebook(self) -> Path:
        """Where the executed notebook of the run is."""
        return self.folder / "notebook.ipynb"

    @property
    def title(self) -> str:
        """The row and the seed in words."""
        return f"{self.row.label}, seed {self.config.seed}"


@dataclass(frozen=True)
class TablePlan:
    """A preset on a sandbox, and the folders of its runs and results.

    first_seed  where as many seeds as the preset has begin, in place of its own: other warm starts, pools and evaluation tasks
    """

    told: str
    preset: Preset
    sandbox: str
    runs: Path
    results: Path
    first_seed: int | None = None

    @property
    def sweep(self) -> Sweep:
        """The rows and seeds of this sandbox's table."""
        sweep = self.preset.sweep_of(self.sandbox)
        if self.first_seed is None:
            return sweep
        return replace(sweep, seeds=tuple(range(self.first_seed, self.first_seed + len(sweep.seeds))))

    @property
    def warm_starts(self) -> list[tuple[RunConfig, Path]]:
        """Configuration and folder of the evaluation of every initial policy, which no method changes: one for each seed where
        seeds have their own warm start or their own tasks, else one for all.
        """
        configs = [self.config(self.rows[0], seed) for seed in self.sweep.seeds]
        first = configs[0]
        if first.settings.train_tasks or (first.warm_start and first.warm_start.per_seed):
            return [(config, self.runs / f"warm_start-s{config.seed}") for config in configs]
        return [(first, self.runs / "warm_start")]

    @property
    def rows(self) -> list[TableRow]:
        """The rows that the preset names."""
        return [TableRow(row.label, row.method, row.parameters, row.settings) for row in self.sweep.rows]

    @property
    def reference(self) -> TableRow:
        """The row that the others are compared with."""
        return next((row for row in self.rows if row.label == self.sweep.reference), self.rows[0])

    def config(self, row: TableRow, seed: int) -> RunConfig:
        """The checked configuration of one run."""
        return self.preset.run(row.method, self.sandbox, seed, row.parameters, row.settings)

    def planned(self, row: TableRow) -> int:
        """Returns per tree when every planned branch happens."""
        return self.config(row, 0).recipe().growth.planned_returns

    def branches(self, row: TableRow) -> bool:
        """Whether a row's trees can branch below the root, so that their number of returns is not known beforehand."""
        return self.config(row, 0).recipe().growth.branches

    def jobs(self, rows: Sequence[TableRow]) -> list[Job]:
        """Every row with every seed, seeds outermost, so that a table with one seed is there early.

        Gradient noise is measured at the warm start on fixed tasks and streams: once for each warm start, and not again for a
        row that is another one with more tasks.
        """
        sweep, jobs, starts = self.sweep, [], len(self.warm_starts)
        for number, seed in enumerate(sweep.seeds):
            for row in rows:
                config = self.config(row, seed)
                draws = sweep.noise_draws if number < starts and not row.of else 0
                jobs.append(Job(row, config, self.runs / config.name, draws, sweep.noise_tasks))
        return jobs


def make_plan(preset: str, sandbox: str, runs: Path, results: Path, first_seed: int | None = None) -> TablePlan:
    """The plan of a preset, checked row by row; BadInput for anything unknown.

    Runs and results of the household sandbox are in folders named like the preset, those of others in PRESET-SANDBOX; with
    other seeds than the preset's, -from-SEED is added.
    """
    loaded = load_preset(preset)
    name = loaded.name if sandbox == "household" else f"{loaded.name}-{sandbox}"
    name += "" if first_seed is None else f"-from-{first_seed}"
    told = str(Path(preset).resolve()) if preset.endswith((".yaml", ".yml")) else preset
    plan = TablePlan(told, loaded, sandbox, runs.resolve() / name, results.resolve() / name, first_seed)
    labels = [row.label for row in plan.rows]
    files: dict[str, str] = {}
    for label in labels:
        # The published notebook of a row is named by its label.
        name = file_name(label)
        if name in files:
            raise BadInput(f"preset {preset!r}: the labels {files[name]!r} and {label!r} differ in no letter and no digit")
        if not name or label == START:
            what = "is the name of the row that all are compared with" if name else "has no letter a-z and no digit"
            raise BadInput(f"preset {preset!r}: the label {label!r} {what}; give the row another")
        files[name] = label
    for row in plan.rows:
        plan.config(row, plan.sweep.seeds[0])
    return plan


def file_name(label: str) -> str:
    """A label as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def select_rows(plan: TablePlan, only: Sequence[str]) -> list[TableRow]:
    """The rows with these labels, all where none is given; BadInput for an unknown label."""
    for label in only:
        choose(f"row of preset {plan.preset.name}:", label, [row.label for row in plan.rows])
    return [row for row in plan.rows if not only or row.label in only]


def result_of(job: Job) -> dict[str, Any] | None:
    """The result of a job that is finished with this code and exactly as asked, its notebook too; else None."""
    from bpo.experiment import finished

    result = finished(job.config, job.folder)
    same = result is not None and difference(job, result) is None
    return result if same and executed.is_finished(job.notebook) else None


def difference(job: Job, result: Mapping[str, Any]) -> str | None:
    """In words, how what a result says it used differs from what was asked; None where it does not."""
    for name, used, asked in (
        ("configuration", result["config"], job.config.plain()),
        ("parameters", result["parameters"], json.loads(json.dumps(dict(job.config.recipe().parameters)))),
        ("number of gradient draws", len((result["noise"] or {"draws": ()})["draws"]), job.noise_draws),
        ("number of tasks of a gradient draw", (result["noise"] or {"tasks": job.noise_tasks})["tasks"], job.noise_tasks),
        ("number of updates", max((row["update"] for row in result["metrics"]), default=0), job.config.settings.updates),
    ):
        if used != asked:
            return f"{name} used: {used}; asked: {asked}"
    return None


def mean_returns(results: Sequence[Mapping[str, Any]]) -> float:
    """Mean number of returns per tree over the updates of all runs of a row."""
    return float(np.mean([row["returns_per_tree"] for run in results for row in run["metrics"] if row["update"] > 0]))


def add_matched(plan: TablePlan, rows: Sequence[TableRow], used: Mapping[str, float]) -> list[TableRow]:
    """`rows`, then the baselines at the mean returns of branching rows that no row of theirs matches.

    used    mean returns per tree of the rows that are complete, by label

    A baseline matches within 5 %. Rows of the preset that match get the labels of their branching rows in `matched_to` too.
    """
    rows = list(rows)
    for branching in [row for row in rows if plan.branches(row) and row.label in used]:
        returns = used[branching.label]
        for method in BASELINES:
            own = [i for i, row in enumerate(rows) if row.method == method]
            count = max(2, round(returns))
            found = [i for i in own if near(returns, plan.planned(rows[i]))]
            found = found or [i for i in own if plan.planned(rows[i]) == count]
            if found:
                rows[found[0]] = replace(rows[found[0]], matched_to=(*rows[found[0]].matched_to, branching.label))
            else:
                rows.append(TableRow(f"{method} N{count}", method, {"returns": count}, matched_to=(branching.label,)))
    return rows


def near(value: float, reference: float) -> bool:
    """Whether a number of returns, or a cost, counts as the reference's."""
    return abs(value - reference) <= MATCHED * reference


def prices(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean environment steps and computed tokens of an update, over all updates of a row's runs."""
    ledgers = [row["ledger"] for run in results for row in run["metrics"] if row["update"] > 0]
    return {what: float(np.mean([ledger[what] for ledger in ledgers])) for what in EQUAL}


def add_equal(plan: TablePlan, rows: Sequence[TableRow], price: Mapping[str, Mapping[str, float]]) -> list[TableRow]:
    """`rows`, then the rows that use as much as the reference of what the preset asks for, by more or fewer tasks per update.

    price   what an update of a complete row used, by label (see `prices`)

    A row within 5 % of the reference needs no other. The number of tasks is whole and at most the pool's, so that a row may use
    more or less than the reference: the table prints what was used.
    """
    rows, reference, asked = list(rows), plan.reference.label, {row.label for row in plan.rows}
    for what in plan.sweep.equal:
        for row in [row for row in rows if row.label in asked and row.label != reference]:
            if row.label not in price or reference not in price:
                continue
            factor = price[reference][what] / price[row.label][what]
            settings = plan.config(row, plan.sweep.seeds[0]).settings
            own = settings.tasks_per_update
            count = min(max(1, round(own * factor)), settings.train_tasks or MOST)
            if not near(price[row.label][what], price[reference][what]) and count != own:
                label, changed = f"{row.label}, {EQUAL[what]}", {**row.settings, "tasks_per_update": count}
                rows.append(TableRow(label, row.method, row.parameters, changed, equal=what, of=row.label))
    return rows


# What is added once rows are complete: why, by what, and what it has to know of them.
EXTENSIONS = (
    ("returns differ from the plan by more than 5 %", add_matched, mean_returns),
    ("for equal cost", add_equal, prices),
)
