"""The commands `bpo sandbox` and `bpo swebench`: boxes of this host, and instances that run in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bpo.cli_paths import PATH, writable
from bpo.errors import BadInput
from bpo.printing import console, say, show_table, spinner

# A week: no test suite takes longer.
MOST_SECONDS = 7 * 24 * 3600

boxes = typer.Typer(no_args_is_help=True, help="The boxes that commands of agents run in.")
swebench = typer.Typer(no_args_is_help=True, help="Issues of real repositories (SWE-bench Verified).")


@boxes.command(epilog="Example:\n\n  bpo sandbox doctor")
def doctor() -> None:
    """Try every kind of box on this host; say which one is used, and why others do not work. Exit code 1 if none does."""
    from bpo.sandboxes.shell import findings
    from bpo.sandboxes.shell.tiers import TIERS, containers_work

    found = findings()
    rows = []
    for finding in (*found, containers_work()):
        works = "yes" if finding.safe else "in part" if finding.works else "no"
        rows.append((finding.tier, finding.how, works, finding.why or "; ".join(finding.open), finding.advice))
    show_table(("tier", "by", "works", "why not", "what to do"), rows)
    for tier, meaning in TIERS.items():
        say(f"{tier}: {meaning}")
    best = next((finding for finding in found if finding.safe), None)
    if best is None:
        say("Nothing works here that holds everything: commands of agents are refused, unless allow_unsafe is set.")
        raise typer.Exit(1)
    say(f"Used here: tier {best.tier}, by {best.how}. What it holds: docs/isolation.md.")


@boxes.command(epilog="Example:\n\n  bpo sandbox clean")
def clean() -> None:
    """Remove the folders that killed processes have left of their boxes in the temporary folder."""
    from bpo.sandboxes.shell import clean as remove_leftovers

    removed, stayed = remove_leftovers()
    for folder in removed:
        say(f"removed {folder}")
    for folder in stayed:
        say(f"could not be removed: {folder}", error=True)
    say(f"{len(removed)} folders removed; boxes of living processes are left alone")
    if stayed:
        raise typer.Exit(1)


CHECK = """Examples:

  bpo swebench check psf__requests-6028 --repo ~/src/requests --rows verified.parquet

  bpo swebench check pallets__flask-5014 --repo ~/src/flask --rows verified.parquet --pins environment.yml

  bpo swebench check psf__requests-6028 --release 2.27.0 --rows verified.parquet"""


# A callback keeps `check` a command of its own, as long as it is the only one.
@swebench.callback()
def _swebench() -> None:
    pass


@swebench.command(epilog=CHECK)
def check(
    instance: Annotated[str, typer.Argument(help="Like psf__requests-6028.")],
    repo: Annotated[Path | None, typer.Option(help="Your clone of the instance's repository; it is only read.", **PATH)] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            envvar="SWEBENCH_ROWS",
            help="The rows of SWE-bench Verified: its parquet file, or JSON lines.",
            **PATH,
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(help="Without a clone: this release's source from PyPI, which for some rows is near enough."),
    ] = None,
    pins: Annotated[
        Path | None,
        typer.Option(
            help="Exact versions: a requirements file, or a conda environment.yml. Default: what was current in 2023.",
            **PATH,
        ),
    ] = None,
    python: Annotated[str | None, typer.Option(help="Another version of Python than the recipe's, like 3.9.")] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of a test run.", min=1, max=MOST_SECONDS)] = 1800,
    logs: Annotated[Path | None, typer.Option(help="Folder for what the test runs print; made if absent.", **PATH)] = None,
) -> None:
    """Run an instance's hidden tests before and after its gold patch: the first must fail, the second must be resolved.

    The first run of an instance makes its environment with uv, which takes from seconds to minutes and needs the package index.
    Exit code 0 if the instance can be used here, 1 if not.
    """
    from contextlib import closing

    from bpo.files import write_atomically
    from bpo.sandboxes import swebench as package
    from bpo.sandboxes.swebench.instances import named

    if rows is None:
        raise BadInput(
            "the rows of SWE-bench Verified are needed: --rows FILE, or the environment variable SWEBENCH_ROWS "
            "(its parquet file is at huggingface.co/datasets/princeton-nlp/SWE-bench_Verified)"
        )
    if repo is None and release is None:
        raise BadInput("one of --repo CLONE and --release VERSION is needed, to say where the repository's source is")
    if repo is not None and release is not None:
        raise BadInput(f"--repo {str(repo)!r} and --release {release!r} both say where the source is: give one of them")
    if logs is not None:
        writable("--logs", logs)
    every = package.load(rows)
    row = named(every, instance)
    told = console(error=True)
    with spinner(f"making the environment of {instance}", told):
        try:
            source, commit = (package.release(row, release), "HEAD") if release else (repo, None)
            prepared = package.prepare(row, source, commit, pins, python)
        except package.ToolError as error:
            say(f"{error}\nbpo: the environment of {instance} could not be made here", error=True)
            raise typer.Exit(1) from None
    lines, reports = [], {}
    with closing(package.opened(prepared)) as workspace:
        for name, patch in (("none", ""), ("gold", row.patch)):
            with spinner(f"running the tests with the patch: {name}", told):
                report = reports[name] = package.grade(workspace, prepared, patch, seconds)
            counts = f"{report.mended} of {len(report.fail_to_pass)}", f"{report.kept} of {len(report.pass_to_pass)}"
            lines.append((name, "yes" if report.applied else "-", *counts, report.status, report.problem))
            if logs is not None:
                write_atomically(logs / f"{instance}-{name}.log", report.log)
        tier = workspace.tier.name
    heads = ("patch", "applies", "to mend", "to keep", "resolved", "why not")
    show_table(heads, lines, title=f"{instance}, {row.repo} {row.version}")
    facts = prepared.facts
    tree = f"release {release}, NOT the row's base commit" if release else f"commit {facts['commit'][:12]}"
    say(f"tree: {tree}; {facts['python']}, {len(facts['packages'])} packages; boxes of tier {tier}")
    for name, report in reports.items():
        wrong = {test: status for test, status in report.pass_to_pass.items() if status not in ("PASSED", "XFAIL", "SKIPPED")}
        if name == "gold":
            wrong |= {test: status for test, status in report.fail_to_pass.items() if status not in ("PASSED", "XFAIL")}
        for test, status in list(wrong.items())[:10]:
            say(f"  with the patch {name}: {status} {test}")
    usable = reports["gold"].resolved and not reports["none"].resolved
    say(f"{instance} can{'' if usable else 'not'} be used here")
    raise typer.Exit(0 if usable else 1)
