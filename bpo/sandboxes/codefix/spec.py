"""The record of the program-repair sandbox."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path

from bpo.errors import BadInput
from bpo.param import Param
from bpo.sandbox import Sandbox
from bpo.sandboxes.codefix.bugs import DIFFICULTIES
from bpo.sandboxes.codefix.demos import demonstration
from bpo.sandboxes.codefix.sandbox import CodeFix
from bpo.sandboxes.record import Demonstrate, Options, PaperColumn, SandboxSpec, Walk, presets_beside, walk_limit
from bpo.sandboxes.shell.tiers import used


def make(**options) -> Sandbox:
    """Broken programs in boxes."""
    return CodeFix(**options)


def tasks(options: Options) -> str:
    """Whose programs are broken, and how badly."""
    if options.get("data"):
        return "broken programs of a collection"
    return f"mutated HumanEval programs ({options.get('difficulty', 'easy')})"


def writes_commands(options: Options) -> bool:
    """Whether actions are bash commands and not edits that are listed."""
    return options.get("actions") == "free" or bool(options.get("data"))


def needs_writing(options: Options) -> str:
    """Where actions are commands."""
    return "codefix with these options lists no actions" if writes_commands(options) else ""


def demonstrations(options: Options) -> Demonstrate | None:
    """The repair, where it is among the edits."""
    return None if writes_commands(options) else demonstration


def walk(games: int, steps: int, data: str | None) -> Walk:
    """Generated bugs, replayed by the sandbox itself."""
    if data is not None:
        raise BadInput("check-fork plays listed actions, and for programs of a collection none are listed: leave --data out")
    again = partial(make, max_steps=walk_limit(steps))
    with contextlib.closing(again()) as probe:
        return Walk(again, again, probe.tasks("train"))


def differences(options: Options) -> list[str]:
    """What an agent's tools on a repository became here."""
    if writes_commands(options):
        return ["Actions are bash commands on one file instead of an agent's tools on a repository."]
    choices = options.get("choices", 8)
    return [
        f"Actions: at most {choices} edits of single lines, the repair always among them, undo, run the tests, submit, instead "
        "of a shell; a failing test run names the exception and no more."
    ]


codefix = SandboxSpec(
    summary="program repair: a broken function, edits or a shell, hidden tests",
    make=make,
    options={
        "data": Param(None, "a HumanEvalFix file or a folder with QuixBugs; unset: mutated HumanEval programs", kind=Path),
        "difficulty": Param("easy", "without data: how much is broken", choices=tuple(DIFFICULTIES)),
        "actions": Param(
            None,
            "edits that are listed, or bash commands; unset: constrained without data, free with data",
            choices=("constrained", "free"),
            kind=str,
        ),
        "choices": Param(8, "constrained: edits to choose from, the repair among them", low=1),
        "visible": Param(False, "free: whether the tests lie in the tree"),
        "max_steps": Param(10, "step limit", low=1),
        "tier": Param("auto", "the kind of box (bpo sandbox doctor)"),
        "allow_unsafe": Param(False, "permit boxes without any confinement"),
    },
    tasks=tasks,
    needs_writing=needs_writing,
    demonstrations=demonstrations,
    walk=walk,
    boxes=used,
    presets=presets_beside(__file__),
    paper=PaperColumn(
        start="14.6 ± 1.0 (SFT)",
        methods={"rloo": "22.8 ± 1.2", "grpo": "24.0 ± 1.1", "bpo": "29.8 ± 1.0 (M = 4, K = 4)"},
        head="paper: success, Qwen2.5-7B, SWE-bench Verified, 3 seeds, ± std (a different experiment)",
        tasks="the 500 issues of SWE-bench Verified in their repositories, and another limit than the paper's 25 tool calls",
        updates="5,000",
        others="PPO, VinePPO, SWE-bench itself, the second model",
    ),
    differences=differences,
)
