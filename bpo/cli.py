"""The `bpo` command."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bpo import cli_show
from bpo.cli_boxes import boxes, swebench
from bpo.errors import BadInput, at_least

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


app.add_typer(boxes, name="sandbox")
app.add_typer(swebench, name="swebench")


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Branching Policy Optimization: reinforcement learning on rollout trees."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"bpo {installed('bpo')}")


EXAMPLES = "Examples:\n\n  bpo train --method bpo_split --sandbox household --preset smoke\n\n  bpo train --method grpo --sandbox household --preset quick --seed 1 --set returns=13 --dry-run"  # noqa: E501


@app.command(epilog=EXAMPLES)
def train(
    method: Annotated[str, typer.Option(help="A key of the table that `bpo methods` prints.")],
    sandbox: Annotated[str, typer.Option(help="A sandbox that the preset has a section for, like household or toy.")],
    preset: Annotated[str, typer.Option(help="smoke, quick, laptop, paper, or the path of a YAML file.")],
    seed: Annotated[int, typer.Option(help="Seed of everything that is random in the run.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder that holds the run's folder.")] = Path("runs"),
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter that `bpo methods METHOD` lists; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="Where an interrupted run goes on: latest or previous.")] = "latest",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the configuration, train nothing.")
    ] = False,
) -> None:
    """Train a policy; an interrupted run goes on where it was."""
    from bpo.config import load_preset
    from bpo.errors import choose

    _at_least(0, seed=seed)
    config = load_preset(preset).run(method, sandbox, seed, _parameters(set_ or []))
    choose("checkpoint", checkpoint, ("latest", "previous"))
    _writable("--out", out)
    folder = out / config.name
    if dry_run:
        _dry_run(config, folder)
        return
    from bpo import experiment
    from bpo.checkpoint import find

    if experiment.finished(config, folder):
        typer.echo(f"{folder} is already finished")
    else:
        if (begun := find(folder, checkpoint)) is not None:
            typer.echo(f"goes on from {begun}")
        with _Bars() as bars:
            experiment.run(config, folder, which=checkpoint, report=bars)
    result = experiment.finished(config, folder)
    assert result is not None
    for split, scores in result["evaluation"].items():
        graded = sum(episode["score"] for episode in scores["episodes"]) / len(scores["episodes"])
        score = f", score {100 * graded:.1f}" if graded != scores["success"] else ""
        kinds = ", ".join(f"{kind} {100 * value:.0f} % of {count}" for kind, (value, count) in scores["by_type"].items())
        typer.echo(f"{split}: success {100 * scores['success']:.1f} %{score} ({kinds})")
    typer.echo(f"run folder: {folder}")


@app.command(epilog="Examples:\n\n  bpo methods\n\n  bpo methods bpo_split --preset quick")
def methods(
    method: Annotated[str | None, typer.Argument(help="Show this method's parameters.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="With a method: also the values that this preset gives it; rows of its tables may set others."),
    ] = None,
) -> None:
    """Print the table of methods, or the parameters of one, which --set changes."""
    from bpo.cli_methods import explained, overview
    from bpo.config import load_preset
    from bpo.errors import choose
    from bpo.methods import METHODS

    if method is None:
        if preset is not None:
            raise BadInput(f"--preset {preset!r} needs a method, like bpo methods bpo --preset quick")
        pages = overview()
    else:
        row = METHODS[choose("method", method, METHODS)]
        given = {} if preset is None else {f"in {preset}": {**row.defaults, **load_preset(preset).methods.get(method, {})}}
        pages = explained(method, given)
    for page in pages:
        typer.echo(page) if isinstance(page, str) else Console().print(page)


app.command("show", epilog=cli_show.EXAMPLES)(cli_show.show)


@app.command("check-fork", epilog="Example:\n\n  bpo check-fork household --games 6 --branches 3 --steps 30")
def check_fork(
    sandbox: Annotated[str, typer.Argument(help="A sandbox, like household or toy.")],
    games: Annotated[int, typer.Option(help="Tasks to walk in.")] = 6,
    branches: Annotated[int, typer.Option(help="Interleaved branches per task.")] = 3,
    steps: Annotated[int, typer.Option(help="Steps per branch.")] = 30,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A folder of real tasks, where the sandbox reads one (household: it holds json_2.1.1; webshop: products)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random walks.")] = 0,
) -> None:
    """Prove that forking is exact: interleaved branches against fresh replays, byte for byte."""
    from bpo import sandboxes
    from bpo.checkfork import check_fork as check

    _at_least(1, games=games, branches=branches, steps=steps)
    _at_least(0, seed=seed)
    walk = sandboxes.fork_check(sandbox, games, steps, None if data is None else str(data))
    counts = {"games": games, "branches": branches, "steps": steps}
    report = check(walk.make, walk.tasks, **counts, seed=seed, reference=walk.reference)
    for difference in report.first_differences:
        typer.echo(difference)
    typer.echo(f"{report.steps} steps, {report.mismatches} mismatches")
    raise typer.Exit(1 if report.mismatches else 0)


@app.command("webshop-replay", epilog="Example:\n\n  bpo webshop-replay golden_traces_100.json.gz --data DIR")
def webshop_replay(
    traces: Annotated[
        Path,
        typer.Argument(
            help="Recorded sessions, JSON or gzipped JSON: a list of {goal, obs0, steps: [{action, avail: {has_search_bar, "
            "clickables}, obs, reward, done}]}, with the goal's number and what was available before each action."
        ),
    ],
    data: Annotated[Path, typer.Option(help="Folder with WebShop's 1,000 products.")],
    show: Annotated[int, typer.Option(help="Differences that are printed.", min=0)] = 5,
) -> None:
    """Compare recorded WebShop sessions with the sandbox, step by step. Exit code 1 if anything differs."""
    from bpo.sandboxes.webshop import WebShop
    from bpo.sandboxes.webshop.replay import read_traces, replay

    recorded = read_traces(traces)
    # Recorded flags know the shop's own end alone, so the step limit is out of reach.
    with WebShop(data=data, protocol="paper", max_steps=sys.maxsize) as sandbox:
        found = replay(sandbox, recorded)
    for difference in found.mismatches[:show]:
        typer.echo(difference)
    typer.echo(f"{found.steps} steps, {len(found.mismatches)} mismatches")
    if found.mismatches:
        raise typer.Exit(1)


@app.command(epilog="Example:\n\n  bpo exact SPEC.json --out OUT.json")
def exact(
    spec: Annotated[Path, typer.Argument(help="JSON with p (P(action 1) or a list of probabilities per state), r, threshold.")],
    out: Annotated[Path, typer.Option(help="Where the moments of all estimators are written, as JSON.")],
    limit: Annotated[
        int, typer.Option(help="Most realisations of a row that are enumerated; above, it is sampled.")
    ] = 2_000_000,
    samples: Annotated[int, typer.Option(help="Realisations of a sampled row.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Seed of sampled rows.")] = 0,
) -> None:
    """Exact mean, bias, covariance and cost of every estimator on a decision tree.

    SPEC.json for three states and four leaves: {"p": [0.3, 0.8, 0.45], "r": [0, 1, 0, 0.5], "threshold": 0.6}. p has one entry
    per state, breadth first (root, after action 0, after action 1, ...): P(action 1), or a list with a probability per action.
    r has the return of every leaf, from actions 00..0 to 11..1. threshold: the entropy, in nats, from which causal rows branch.

    Rows: literal_* is the paper's estimator (B: branch depths, top: most uncertain, k: children, zero or broadcast: what later
    steps get), splitting_* is bpo_split (M: branch points at most).
    """
    import json

    from bpo.exact import report
    from bpo.files import write_json

    _at_least(1, limit=limit)
    _at_least(2, samples=samples)
    _at_least(0, seed=seed)
    if out.exists() and not out.is_file():
        raise BadInput(f"--out {str(out)!r} is a folder or a device; it must be the name of a file")
    if out.absolute() == spec.absolute():
        raise BadInput(f"--out {str(out)!r} is the spec itself; name another file")
    _writable("--out", out.absolute().parent)
    try:
        content = json.loads(spec.read_text())
    except ValueError as error:
        raise BadInput(f"{spec} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise BadInput(f"{spec}: the file must hold an object with p, r and threshold")
    with _Bars() as bars:
        found = report(content, where=str(spec), limit=limit, samples=samples, seed=seed, progress=bars)
    write_json(out, found)
    # Tight, so that the mark of a sampled row is not cut off where a terminal is 80 columns wide.
    table = Table("estimator", "bias", "cosine", "tr cov", "steps", "trees", box=None, padding=(0, 1, 0, 0))
    for column in table.columns:
        column.no_wrap = True
    for name, row in found["estimators"].items():
        cosine = "none" if row["cosine"] is None else f"{row['cosine']:.4f}"
        count = f"{row['n']:,}" + ("" if row["exact"] else "*")
        table.add_row(name, f"{row['bias']:.4f}", cosine, f"{row['trace_cov']:.4f}", f"{row['env_steps']:.2f}", count)
    Console().print(table)
    if not all(row["exact"] for row in found["estimators"].values()):
        typer.echo(f"* sampled: more than {limit:,} realisations; 99 % intervals are in {out}")
    typer.echo(f"J = {found['J']:.6g}; all of it: {out}")


def _at_least(low: int, **options: int) -> None:
    for name, value in options.items():
        at_least(f"--{name}", value, low)


def _parameters(pairs: list[str]) -> dict[str, Any]:
    import yaml

    parameters = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise BadInput(f"--set {pair!r} must have the form KEY=VALUE, like --set returns=13")
        parameters[key] = yaml.safe_load(value)
    return parameters


def task_counts(config) -> dict[str, int]:
    """Number of tasks per split of a run; BadInput where its policy or its sandbox cannot be made, or a split is empty."""
    from bpo.initial import check_initial
    from bpo.sandboxes import factory

    check_initial(config)
    settings, start = config.settings, config.warm_start
    splits = ("train", settings.curve_split, *settings.eval_splits, *((start.split,) if start else ()))
    with contextlib.closing(factory(config.sandbox, config.sandbox_options)()) as sandbox:
        counts = {split: len(sandbox.tasks(split)) for split in splits}
        empty = [split for split, count in counts.items() if not count]
        if empty:
            raise BadInput(f"the split {empty[0]!r} of {config.sandbox} with these options has no tasks")
    return counts


def _writable(option: str, path: Path) -> None:
    """Refuse a path below which nothing can be written, before any work is done for it."""
    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BadInput(f"{option} {str(path)!r}: {there} is no folder that can be written to")


def _dry_run(config, folder: Path) -> None:
    import yaml

    from bpo.provenance import code_fingerprint

    counts = task_counts(config)
    typer.echo(yaml.safe_dump(config.plain(), sort_keys=False).rstrip())
    typer.echo(f"# planned returns per tree: {config.recipe().growth.planned_returns}; tasks: {counts}")
    typer.echo(f"# fingerprint of the code: {code_fingerprint(config)}")
    typer.echo(f"# valid; would write to {folder}")


class _Bars:
    """Progress bars, one per phase, on standard error."""

    def __enter__(self):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description:>14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=Console(stderr=True))
        self.tasks: dict[str, Any] = {}
        self.progress.start()
        return self

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase not in self.tasks:
            self.tasks[phase] = self.progress.add_task(phase, total=total)
        self.progress.update(self.tasks[phase], completed=done, total=total)

    def __exit__(self, *_) -> None:
        self.progress.stop()


def run_app(typer_app: typer.Typer, name: str) -> None:
    """Run a command line so that bad input of any kind is one sentence on standard error and exit code 2."""
    command = typer.main.get_command(typer_app)
    try:
        code = command.main(prog_name=name, standalone_mode=False)
    except BadInput as error:
        _refuse(name, str(error))
    except OSError as error:
        # A file or folder of the user's that cannot be read or written; anything without a name is ours.
        if error.filename is None:
            raise
        _refuse(name, f"{error.filename}: {error.strerror}")
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        # Usage errors of the option parser say themselves what is wrong; anything else is ours and keeps its traceback.
        if getattr(error, "exit_code", None) != 2 or not hasattr(error, "format_message"):
            raise
        message = error.format_message()
        context = getattr(error, "ctx", None)
        # Without any arguments the help has been printed already, and the message is empty.
        _refuse(
            name, f"{message} ({context.command_path if context else name} --help shows what is possible)" if message else ""
        )
    else:
        if code == 130:  # what the option parser makes of Ctrl-C
            print(f"{name}: interrupted; a training run goes on from its last checkpoint, if it has one", file=sys.stderr)
        sys.exit(code or 0)


def _refuse(name: str, sentence: str) -> None:
    if sentence:
        print(f"{name}: {sentence}", file=sys.stderr)
    sys.exit(2)


def main() -> None:
    """Entry point of the `bpo` command."""
    run_app(app, "bpo")
