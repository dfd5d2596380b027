"""From a preset to its table: warm start, training runs, runs at matched returns, official games, tables.

Every stage skips what is finished with this configuration and this code, and goes on where it was interrupted.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.progress import Progress

from bpo.errors import BadInput
from bpo.printing import bars as progress_bars
from bpo.printing import one_line, show_table, tell
from bpo.sealed import Damaged, digest_of, read_record, write_record
from reproduce import executed, markdown, report
from reproduce.collect import Collected, collect
from reproduce.plan import (
    EXTENSIONS,
    Job,
    TablePlan,
    TableRow,
    difference,
    file_name,
    result_of,
    select_rows,
)
from reproduce.processes import Notebook, WorkerPool, check_parameters, relative
from reproduce.rules import evaluate_rules

TRAIN, TABLES = "10_train.ipynb", "11_tables.ipynb"
# Says which notebooks were put into the results folder; written last.
PUBLISHED = "published.json"
# Seconds between two lines of progress where there is no terminal to draw bars on.
QUIET_S = 30.0


@dataclass(frozen=True)
class SweepOutcome:
    """What a call of `reproduce` did: runs trained now, runs that were there, and one message per failure."""

    trained: int
    skipped: int
    failures: tuple[str, ...]


def run(plan: TablePlan, *, at_once: int, only: Sequence[str], limit_s: float, console: Console) -> SweepOutcome:
    """Stages 0 and 1, with the rows that are added once those of the preset are complete.

    Failures of runs are collected, not raised.
    """
    rows = select_rows(plan, only)
    check_parameters(train_notebook(plan, plan.jobs(rows)[0]))
    warm_starts(plan, at_once, console)
    evaluate_rules(plan)
    outcome = train(plan, rows, at_once, limit_s, console)
    if not only:
        for why, add, measure in EXTENSIONS:
            before, rows = len(rows), add(plan, rows, {label: measure(runs) for label, runs in complete(plan, rows).items()})
            if extra := rows[before:]:
                tell(console, f"{why}: also {'; '.join(row.label for row in extra)}")
                more = train(plan, extra, at_once, limit_s, console)
                outcome = SweepOutcome(
                    outcome.trained + more.trained, outcome.skipped + more.skipped, outcome.failures + more.failures
                )
    return outcome


def warm_starts(plan: TablePlan, at_once: int, console: Console) -> None:
    """Stage 0: make the initial policies, which are cached, and evaluate them; `at_once` of them in processes of their own."""
    from bpo.experiment import finished_start

    todo = [number for number, (config, folder) in enumerate(plan.warm_starts) if finished_start(config, folder) is None]
    if not todo:
        return
    with _progress(console) as bars:
        if len(todo) == 1:
            make_start(plan, todo[0], Phases(bars, "warm start: "))
            return
        bar = bars.add_task("warm starts", total=len(plan.warm_starts), completed=len(plan.warm_starts) - len(todo))
        with ProcessPoolExecutor(at_once, get_context("spawn")) as pool:
            for made in as_completed([pool.submit(make_start, plan, number) for number in todo]):
                made.result()
                bars.advance(bar)
                if not console.is_terminal:
                    tell(console, f"{int(bars.tasks[bar].completed)} of {len(plan.warm_starts)} warm starts are made")


def make_start(plan: TablePlan, number: int, report: Phases | None = None) -> None:
    """Make and evaluate one of the initial policies of a plan."""
    from bpo.experiment import start_result

    start_result(*plan.warm_starts[number], report)


def train(plan: TablePlan, rows: Sequence[TableRow], at_once: int, limit_s: float, console: Console) -> SweepOutcome:
    """Stage 1: the runs of these rows that are not finished, each through the notebook in a process of its own."""
    jobs = plan.jobs(rows)
    todo = [job for job in jobs if result_of(job) is None]
    for job in todo:
        set_aside(job)
    failures: list[str] = []
    if todo:
        with _progress(console) as bars, WorkerPool(at_once, limit_s) as pool:
            board = _Board(bars, len(jobs), todo)
            notebooks = [train_notebook(plan, job) for job in todo]

            def ended(index: int, message: str | None) -> None:
                message = message or unfit(todo[index])
                board.ended(index)
                if message:
                    failures.append(f"{todo[index].title}: {message}")
                    tell(console, f"failed {todo[index].title} (traceback in {notebooks[index].target})")

            pool.run(notebooks, ended, board.tick)
    return SweepOutcome(len(todo) - len(failures), len(jobs) - len(todo), tuple(failures))


def train_notebook(plan: TablePlan, job: Job) -> Notebook:
    """The notebook of a run with the parameters that make it this run."""
    return Notebook(
        TRAIN,
        job.notebook,
        {
            "preset": _told(plan),
            "sandbox": plan.sandbox,
            "method": job.config.method,
            "seed": job.config.seed,
            "parameters": dict(job.row.parameters),
            "settings": dict(job.row.settings),
            "out": relative(plan.runs),
            "noise_draws": job.noise_draws,
            "noise_tasks": job.noise_tasks,
        },
    )


def unfit(job: Job) -> str | None:
    """Why a run whose notebook ended well is no result all the same; None where it is one."""
    from bpo.experiment import finished

    result = finished(job.config, job.folder)
    if result is None:
        return f"the notebook ended, but {job.folder / 'result.json'} is absent or of another configuration or code"
    return difference(job, result)


def set_aside(job: Job) -> None:
    """Move what other code left in a run's folder to `stale/`: going on from its checkpoint would mix two programs."""
    from bpo.provenance import code_fingerprint

    path = job.folder / "config.yaml"
    if not path.is_file():
        return
    try:
        code = yaml.safe_load(path.read_text())["origin"]["code"]
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, KeyError):
        code = "unknown"
    if code == code_fingerprint(job.config):
        return
    place = job.folder.parent / "stale" / f"{job.folder.name}-{code}"
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(exist_ok=True)
    os.replace(job.folder, place)


def complete(plan: TablePlan, rows: Sequence[TableRow]) -> dict[str, list[dict[str, Any]]]:
    """The results of the rows all of whose runs are finished, by label."""
    found = {row.label: [result_of(job) for job in plan.jobs([row])] for row in rows}
    return {label: results for label, results in found.items() if all(results)}


class Phases:
    """Reports of the library (phase, done, total) as progress bars; without a terminal, as a line now and then."""

    def __init__(self, bars: Progress, prefix: str = ""):
        self.bars, self.prefix, self.tasks = bars, prefix, {}
        self.said = time.monotonic()

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase not in self.tasks:
            self.tasks[phase] = self.bars.add_task(one_line(self.prefix + phase), total=total)
        self.bars.update(self.tasks[phase], completed=done, total=total)
        if not self.bars.console.is_terminal and time.monotonic() - self.said > QUIET_S:
            self.said = time.monotonic()
            tell(self.bars.console, f"{self.prefix}{phase}: {done} of {total}")


class _Board:
    """One bar for all runs and one for each that is running, which counts its updates."""

    def __init__(self, bars: Progress, total: int, jobs: Sequence[Job]):
        self.bars, self.jobs, self.total = bars, jobs, total
        self.all = bars.add_task("runs", total=total, completed=total - len(jobs))
        self.own: dict[int, Any] = {}
        self.over: set[int] = set()

    def tick(self) -> None:
        for index, job in enumerate(self.jobs):
            if index not in self.over and (job.folder / "notebook.log").exists():
                if index not in self.own:
                    self.own[index] = self.bars.add_task(one_line(job.title), total=job.config.settings.updates)
                self.bars.update(self.own[index], completed=updates_done(job.folder))

    def ended(self, index: int) -> None:
        self.over.add(index)
        if index in self.own:
            self.bars.remove_task(self.own[index])
        self.bars.advance(self.all)
        if not self.bars.console.is_terminal:
            done = self.total - len(self.jobs) + len(self.over)
            tell(self.bars.console, f"{done} of {self.total} runs ended: {self.jobs[index].title}")


def updates_done(folder: Path) -> int:
    """Updates that a run has written down so far."""
    path = folder / "metrics.jsonl"
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def _progress(console: Console) -> Progress:
    return progress_bars(32, console)


def finish(plan: TablePlan, limit_s: float, console: Console, *, strict: bool) -> list[str]:
    """Official games and tables from whatever is finished; one message per failure. `strict` raises where nothing is."""
    try:
        official(plan, console)
        return tables(plan, limit_s, console)
    except BadInput as error:
        if strict:
            raise
        return [str(error)]


def official(plan: TablePlan, console: Console) -> None:
    """Stage 2: warm start and best row on the benchmark's own tasks, where they are; a message where not."""
    from bpo.sandboxes import spec
    from reproduce.official import evaluate_official

    found = spec(plan.sandbox).official
    if found is None:
        return
    data = found.folder()
    if data is None:
        tell(console, f"{found.label}: left out (optional): {found.hint}")
        return
    with _progress(console) as bars:
        evaluate_official(plan, collect(plan), data, Phases(bars, "official: "))


def tables(plan: TablePlan, limit_s: float, console: Console) -> list[str]:
    """Stage 3: the tables notebook, unless nothing changed; prints the table. Returns a message where it failed."""
    collected = collect(plan)
    if not (
        report.unchanged(collected, plan.results) and executed.is_finished(plan.runs / "tables.ipynb") and _published(plan)
    ):
        notebook = Notebook(
            TABLES,
            plan.runs / "tables.ipynb",
            {
                "preset": _told(plan),
                "sandbox": plan.sandbox,
                "first_seed": plan.first_seed,
                "rebuild": True,
                "runs": relative(plan.runs.parent),
                "results": relative(plan.results.parent),
            },
        )
        check_parameters(notebook)
        failures: list[str] = []
        with _progress(console) as bars, WorkerPool(1, limit_s) as pool:
            bar = bars.add_task("tables", total=1)
            pool.run([notebook], lambda _, message: failures.extend([f"tables: {message}"] if message else []), lambda: None)
            bars.update(bar, completed=1)
        if failures or not report.unchanged(collected, plan.results):
            return failures or [f"tables: the notebook ended, but {plan.results} is not what the runs say"]
        _publish(plan, collected, notebook)
    table, _ = report.read(plan.results)
    _print(table, console)
    tell(console, f"all of it: {plan.results / 'table.md'}", wrap=False)
    return []


def _published(plan: TablePlan) -> bool:
    """Whether the notebooks in the results folder are the ones that were put there last."""
    try:
        record = read_record(plan.runs / PUBLISHED)
        return record == _digests(plan)
    except (OSError, Damaged):
        return False


def _digests(plan: TablePlan) -> dict[str, str]:
    folder = plan.results / "notebooks"
    return {path.name: digest_of(path) for path in sorted(folder.glob("*.ipynb"))}


def _publish(plan: TablePlan, collected: Collected, tables_notebook: Notebook) -> None:
    place = plan.results / "notebooks"
    (plan.runs / PUBLISHED).unlink(missing_ok=True)
    report.publish(tables_notebook.target, place / TABLES)
    seed = plan.sweep.seeds[0]
    for row in collected.rows:
        ran = plan.runs / plan.config(row.row, seed).name / "notebook.ipynb"
        if seed in row.runs and executed.is_finished(ran):
            report.publish(ran, place / f"{TRAIN.removesuffix('.ipynb')}-{file_name(row.row.label)}.ipynb")
    write_record(plan.runs / PUBLISHED, _digests(plan))


def _print(table: dict[str, Any], console: Console) -> None:
    tell(console, f"{table['preset']} on {table['sandbox']}: {table['scale']}")
    for one in table["sets"]:
        tell(console, f"At {one['name']}:")
        show_table(*markdown.set_table(table, one), on=console)
    heads = [f"{markdown.short(name)} [95 %]" for name in table["splits"]]
    scored = [f"score, {markdown.short(name)}" for name in table["splits"]] if table["rules"] else []
    rows = []
    for row in table["rows"]:
        cells = [markdown.spread(row["success"][name]) for name in table["splits"]]
        cells += [markdown.spread(row["score"][name]) for name in table["splits"]] if table["rules"] else []
        rows.append((row["label"], *cells, row["paper"]))
    tell(console, "Success after the last update, %:")
    show_table(("row", *heads, *scored, "paper (another experiment)"), rows, on=console)
    for sentence in [*markdown.missing(table), *markdown.findings(table)]:
        tell(console, f"- {sentence}")


def _told(plan: TablePlan) -> str:
    return relative(plan.told) if os.sep in plan.told else plan.told
