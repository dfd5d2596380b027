"""`python -m reproduce`: one command from nothing to the table."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

from reproduce.processes import THREADS

os.environ.update(THREADS)  # before numpy and torch are imported

import typer
from rich.console import Console

from bpo.cli import LARGEST_SEED, run_app
from bpo.cli_paths import PATH, writable
from bpo.errors import BadInput, require
from bpo.preflight import check_run
from bpo.printing import console as plain_console
from bpo.printing import show_table, tell
from reproduce.plan import TablePlan, make_plan, select_rows

# A quarter of a year, and as many processes as the largest machines have threads.
MOST_HOURS, MOST_JOBS = 24.0 * 92, 1024

app = typer.Typer(
    help="Reproduce the table of a preset: every row and seed through a notebook, then intervals and figures.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

PresetOption = Annotated[str, typer.Option(help="smoke, quick, laptop, paper, or the path of a YAML file.")]
SandboxOption = Annotated[str, typer.Option(help="A sandbox that the preset has a section for, like household or toy.")]
RunsOption = Annotated[Path, typer.Option(help="Folder of the runs; finished ones are kept, interrupted ones go on.", **PATH)]
ResultsOption = Annotated[Path, typer.Option(help="Folder of tables and figures.", **PATH)]
FirstSeedOption = Annotated[
    int | None,
    typer.Option(help="As many seeds from here on, in place of the preset's: another table.", min=0, max=LARGEST_SEED),
]


@app.command(
    epilog="Examples:\n\n  python -m reproduce run --preset smoke\n\n  python -m reproduce run --preset quick --first-seed 20"
)
def run(
    preset: PresetOption,
    sandbox: SandboxOption = "household",
    runs: RunsOption = Path("runs"),
    results: ResultsOption = Path("results"),
    first_seed: FirstSeedOption = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time, each in a process with one thread.", min=1, max=MOST_JOBS)] = 2,
    only: Annotated[list[str] | None, typer.Option(help="A row's label; may be repeated. Leaves the others out.")] = None,
    timeout: Annotated[float, typer.Option(help="Hours after which one run is stopped.")] = 24.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, print what would run.")] = False,
) -> None:
    """Train every row and seed that is not finished yet, then make the tables. Exit code 1 if a run failed."""
    from reproduce import driver

    if not 0.001 <= timeout <= MOST_HOURS:
        raise BadInput(f"--timeout is {timeout}; it must be a number of hours from 0.001 to {MOST_HOURS:g}")
    plan = checked(preset, sandbox, runs, results, first_seed)
    for row in select_rows(plan, only or []):
        check_run(plan.config(row, plan.sweep.seeds[0]), plan.sweep.noise_draws, plan.sweep.noise_tasks)
    if dry_run:
        show_plan(plan, only or [])
        return
    start, console = time.monotonic(), plain_console()
    outcome = driver.run(plan, at_once=jobs, only=only or [], limit_s=timeout * 3600, console=console)
    failures = [*outcome.failures, *driver.finish(plan, timeout * 3600, console, strict=not outcome.failures)]
    tell(console, f"{outcome.trained} runs trained, {outcome.skipped} were finished; {spent(start)}")
    end(failures, console)


@app.command(epilog="Example:\n\n  python -m reproduce tables --preset smoke")
def tables(
    preset: PresetOption,
    sandbox: SandboxOption = "household",
    runs: RunsOption = Path("runs"),
    results: ResultsOption = Path("results"),
    first_seed: FirstSeedOption = None,
) -> None:
    """Make tables and figures from the runs that are finished; trains nothing."""
    from reproduce import driver

    start, console = time.monotonic(), plain_console()
    failures = driver.tables(checked(preset, sandbox, runs, results, first_seed), 3600.0, console)
    tell(console, spent(start))
    end(failures, console)


@app.command(epilog="Example:\n\n  python -m reproduce pages")
def pages() -> None:
    """Copy generated tables into README and the documentation, so that no number and no method in them is typed."""
    from reproduce import pages as generated

    for page, name in generated.fill_all():
        tell(plain_console(), f"{page} shows {name}")


@app.command(epilog="Example:\n\n  python -m reproduce claims")
def claims() -> None:
    """Check every claim of the paper that is in the ledger, and write docs/claims.json and docs/claims.md."""
    from reproduce import claims as ledger
    from reproduce.plan import ROOT

    console = plain_console()
    for row in ledger.write(ROOT / "docs"):
        tell(console, f"{row['place']}: {row['verdict']}")
    tell(console, f"all of it: {ROOT / 'docs' / 'claims.md'}", wrap=False)


def checked(preset: str, sandbox: str, runs: Path, results: Path, first_seed: int | None) -> TablePlan:
    """The plan, once everything that it needs is there."""
    for option, folder in (("--runs", runs), ("--results", results)):
        writable(option, folder)
    plan = make_plan(preset, sandbox, runs, results, first_seed)
    for module in ("torch", "papermill", "ipykernel", "matplotlib"):
        require(module, "notebooks")
    return plan


def show_plan(plan: TablePlan, only: list[str]) -> None:
    """Print every run with its state."""
    from bpo.experiment import finished_start
    from reproduce.driver import updates_done
    from reproduce.plan import result_of

    rows = []
    for config, folder in plan.warm_starts:
        state = "finished" if finished_start(config, folder) else "to do"
        rows.append(("warm start", str(config.seed), "", state, str(folder.name)))
    for job in plan.jobs(select_rows(plan, only)):
        done, updates = updates_done(job.folder), job.config.settings.updates
        state = "finished" if result_of(job) else f"{done} of {updates} updates" if done else "to do"
        rows.append((job.row.label, str(job.config.seed), str(plan.planned(job.row)), state, job.folder.name))
    console = plain_console()
    show_table(("run", "seed", "returns per tree", "state", "folder"), rows, on=console)
    tell(console, f"runs in {plan.runs}, results in {plan.results}; nothing was run")


def spent(start: float) -> str:
    """Wall and CPU time of this command and of the processes that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in used)
    return f"{time.monotonic() - start:.0f} s wall, {cpu:.0f} s CPU"


def end(failures: list[str], console: Console) -> None:
    """Name what failed; exit code 1 if anything did."""
    for failure in failures:
        tell(console, f"failed: {failure}")
    if failures:
        raise typer.Exit(1)


def main() -> None:
    """Entry point: bad input is one sentence on standard error and exit code 2; SIGTERM ends the runs too."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    run_app(app, "reproduce")


if __name__ == "__main__":
    main()
