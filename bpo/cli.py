"""The `bpo` command."""

from __future__ import annotations

import io
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from bpo import cli_lab, cli_show
from bpo.cli_boxes import boxes, swebench
from bpo.cli_paths import PATH, file_to_write, outside_runs, writable
from bpo.errors import BadInput, at_least, at_most, shown
from bpo.printing import bars, console, one_line, say, show_table

# Most that an option may ask for: what is above is a slip of the hand, and would run for days.
LARGEST_SEED = 2**32 - 1
MOST_GAMES, MOST_BRANCHES, MOST_STEPS = 100_000, 1_000, 10_000
MOST_REALISATIONS = 10_000_000

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

        say(f"bpo {installed('bpo')}")


EXAMPLES = "Examples:\n\n  bpo train --method bpo_split --sandbox household --preset smoke\n\n  bpo train --method grpo --sandbox household --preset quick --seed 1 --set returns=13 --dry-run"  # noqa: E501


@app.command(epilog=EXAMPLES)
def train(
    method: Annotated[str, typer.Option(help="A key of the table that `bpo methods` prints.")],
    sandbox: Annotated[str, typer.Option(help="A sandbox that the preset has a section for, like household or toy.")],
    preset: Annotated[str, typer.Option(help="smoke, quick, laptop, paper, or the path of a YAML file.")],
    seed: Annotated[int, typer.Option(help="Seed of everything that is random in the run.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder that holds the run's folder; made if absent.", **PATH)] = Path("runs"),
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

    _between(0, LARGEST_SEED, seed=seed)
    choose("checkpoint", checkpoint, ("latest", "previous"))
    config = load_preset(preset).run(method, sandbox, seed, _parameters(set_ or []))
    writable("--out", out)
    outside_runs("--out", out)
    folder = out / config.name
    if dry_run:
        _dry_run(config, folder)
        return
    from bpo import experiment
    from bpo.checkpoint import find

    if experiment.finished(config, folder):
        say(f"{folder} is already finished")
    else:
        if (begun := find(folder, checkpoint)) is not None:
            say(f"goes on from {begun}")
        with ProgressBars() as report:
            experiment.run(config, folder, which=checkpoint, report=report)
    result = experiment.finished(config, folder)
    assert result is not None
    for split, scores in result["evaluation"].items():
        graded = sum(episode["score"] for episode in scores["episodes"]) / len(scores["episodes"])
        score = f", score {100 * graded:.1f}" if graded != scores["success"] else ""
        kinds = ", ".join(f"{kind} {100 * value:.0f} % of {count}" for kind, (value, count) in scores["by_type"].items())
        say(f"{split}: success {100 * scores['success']:.1f} %{score} ({kinds})")
    for name in result.get("inactive", ()):
        say(f"inactive: {name} ({config.recipe().mechanism[name].meaning}) never happened in this run")
    say(f"run folder: {folder}")


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
        say(page) if isinstance(page, str) else console().print(page)


app.command("lab", epilog=cli_lab.EXAMPLES)(cli_lab.lab)
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
            help="A folder of real tasks, where the sandbox reads one (household: it holds json_2.1.1; webshop: products).",
            **PATH,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random walks.")] = 0,
) -> None:
    """Prove that forking is exact: interleaved branches against fresh replays, byte for byte."""
    from bpo import sandboxes
    from bpo.checkfork import check_fork as check

    _between(1, MOST_GAMES, games=games)
    _between(1, MOST_BRANCHES, branches=branches)
    _between(1, MOST_STEPS, steps=steps)
    _between(0, LARGEST_SEED, seed=seed)
    walk = sandboxes.fork_check(sandbox, games, steps, None if data is None else str(data))
    counts = {"games": games, "branches": branches, "steps": steps}
    report = check(walk.make, walk.tasks, **counts, seed=seed, reference=walk.reference)
    for difference in report.first_differences:
        say(difference)
    say(f"{report.steps} steps, {report.mismatches} mismatches")
    raise typer.Exit(1 if report.mismatches else 0)


@app.command("webshop-replay", epilog="Example:\n\n  bpo webshop-replay golden_traces_100.json.gz --data DIR")
def webshop_replay(
    traces: Annotated[
        Path,
        typer.Argument(
            help="Recorded sessions, JSON or gzipped JSON: a list of {goal, obs0, steps: [{action, avail: {has_search_bar, "
            "clickables}, obs, reward, done}]}, with the goal's number and what was available before each action.",
            **PATH,
        ),
    ],
    data: Annotated[Path, typer.Option(help="Folder with WebShop's 1,000 products.", **PATH)],
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
        say(difference)
    say(f"{found.steps} steps, {len(found.mismatches)} mismatches")
    if found.mismatches:
        raise typer.Exit(1)


@app.command(epilog="Example:\n\n  bpo exact SPEC.json --out OUT.json")
def exact(
    spec: Annotated[
        Path,
        typer.Argument(help="JSON with p (P(action 1) or a list of probabilities per state), r, threshold.", **PATH),
    ],
    out: Annotated[Path, typer.Option(help="Where the moments of all estimators are written, as JSON.", **PATH)],
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
    from bpo.exact import read_spec, report
    from bpo.files import write_json

    _between(1, MOST_REALISATIONS, limit=limit)
    _between(2, MOST_REALISATIONS, samples=samples)
    _between(0, LARGEST_SEED, seed=seed)
    file_to_write("--out", out)
    if out.exists() and spec.exists() and out.samefile(spec):
        raise BadInput(f"--out {str(out)!r} is the spec itself; name another file")
    content = read_spec(spec)
    with ProgressBars() as progress:
        found = report(content, where=str(spec), limit=limit, samples=samples, seed=seed, progress=progress)
    write_json(out, found)
    rows = []
    for name, row in found["estimators"].items():
        cosine = "none" if row["cosine"] is None else f"{row['cosine']:.4f}"
        # The mark of a sampled row must not be cut off where a terminal is 80 columns wide.
        count = f"{row['n']:,}" + ("" if row["exact"] else "*")
        rows.append((name, f"{row['bias']:.4f}", cosine, f"{row['trace_cov']:.4f}", f"{row['env_steps']:.2f}", count))
    show_table(("estimator", "bias", "cosine", "tr cov", "steps", "trees"), rows, tight=True)
    if not all(row["exact"] for row in found["estimators"].values()):
        say(f"* sampled: more than {limit:,} realisations; 99 % intervals are in {out}")
    say(f"J = {found['J']:.6g}; all of it: {out}")


def _between(low: int, high: int, **options: int) -> None:
    for name, value in options.items():
        at_least(f"--{name}", value, low)
        at_most(f"--{name}", value, high)


def _parameters(pairs: list[str]) -> dict[str, Any]:
    from bpo.reading import scalar

    parameters: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise BadInput(f"--set {shown(pair)} must have the form KEY=VALUE, like --set returns=13")
        if key in parameters:
            raise BadInput(f"--set {shown(pair)}: {key} is set twice; give it once")
        try:
            parameters[key] = scalar(value)
        except BadInput as error:
            raise BadInput(f"--set {shown(pair)}: {error}") from None
    return parameters


def _dry_run(config, folder: Path) -> None:
    from bpo.preflight import check_elsewhere, check_machine
    from bpo.provenance import code_fingerprint
    from bpo.reading import to_yaml

    counts = check_elsewhere(config)
    say(to_yaml(config.plain()).rstrip())
    say(f"# planned returns per tree: {config.recipe().growth.planned_returns}; tasks: {counts}")
    say(f"# fingerprint of the code: {code_fingerprint(config)}")
    check_machine(config)
    say(f"# valid; would write to {folder}")


class ProgressBars:
    """Progress bars, one per phase, on standard error."""

    def __enter__(self):
        self.progress = bars(14, console(error=True))
        self.tasks: dict[str, Any] = {}
        return self

    def __call__(self, phase: str, done: int, total: int) -> None:
        # Not before there is something to show, so that a refusal stands alone.
        self.progress.start()
        if phase not in self.tasks:
            self.tasks[phase] = self.progress.add_task(one_line(phase), total=total)
        self.progress.update(self.tasks[phase], completed=done, total=total)

    def __exit__(self, *_) -> None:
        if self.tasks:
            self.progress.stop()


def run_app(typer_app: typer.Typer, name: str) -> None:
    """Run a command line so that bad input of any kind is one sentence on standard error and exit code 2."""
    command = typer.main.get_command(typer_app)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that is not UTF-8 is shown what it can show.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
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
        message = _with_value(error.format_message(), sys.argv[1:])
        context = getattr(error, "ctx", None)
        # Without any arguments the help has been printed already, and the message is empty.
        _refuse(
            name, f"{message} ({context.command_path if context else name} --help shows what is possible)" if message else ""
        )
    else:
        if code == 130:  # what the option parser makes of Ctrl-C
            print(f"{name}: interrupted; a training run goes on from its last checkpoint, if it has one", file=sys.stderr)
        sys.exit(code or 0)


def _with_value(message: str, arguments: list[str]) -> str:
    """What the option parser says, with the value that it speaks of."""
    found = re.match(r"Invalid value for '(--[\w-]+)[^']*': (.*)", message, re.DOTALL)
    if not found:
        return message
    option, said = found[1], found[2]
    values = [after for one, after in pairwise([*arguments, ""]) if one == option]
    values += [one.partition("=")[2] for one in arguments if one.startswith(f"{option}=")]
    return f"{option} is {shown(values[0])}: {said[:1].lower()}{said[1:]}" if values else message


def _refuse(name: str, sentence: str) -> None:
    if sentence:
        say(f"{name}: {sentence}".replace("\n", " "), error=True)
    sys.exit(2)


def main() -> None:
    """Entry point of the `bpo` command."""
    run_app(app, "bpo")
