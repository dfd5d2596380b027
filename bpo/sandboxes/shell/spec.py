"""The record of the shell sandbox."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bpo.param import Param
from bpo.sandbox import Sandbox
from bpo.sandboxes.record import Options, SandboxSpec, Walk, walk_limit
from bpo.sandboxes.shell.sandbox import TASK, Shell
from bpo.sandboxes.shell.tiers import used


def make(**options) -> Sandbox:
    """A working tree in a box."""
    return Shell(**options)


def needs_writing(options: Options) -> str:
    """Where no commands are listed; the small tree made for trying lists its own."""
    listed = options.get("commands") is not None or options.get("tree") is None
    return "" if listed else "shell with these options lists no actions"


def walk(games: int, steps: int, data: str | None) -> Walk:
    """One tree, walked in anew for every game."""
    again = partial(make, max_steps=walk_limit(steps))
    return Walk(again, again, [TASK] * games)


shell = SandboxSpec(
    summary="a working tree and bash, in boxes that fork",
    make=make,
    options={
        "tree": Param(None, "the folder to work in; unset: a small one made for trying", kind=Path),
        "instruction": Param(None, "what the agent is asked to do", kind=str),
        "check": Param(None, "a bash command whose exit status 0 at the end is success; unset: no reward", kind=str),
        "commands": Param(None, "actions that are listed; unset: the small tree's, or none, for free writing", kind=list[str]),
        "max_steps": Param(50, "step limit", low=1),
        "readable": Param((), "further folders that commands may read", kind=list[Path]),
        "tier": Param("auto", "the kind of box (bpo sandbox doctor)"),
        "limits": Param(None, "limits of a command by name", kind=dict),
        "stateful": Param(False, "carry the shell's folder, variables and functions from command to command"),
        "allow_unsafe": Param(False, "permit boxes without any confinement"),
        "image": Param(None, "image of a container", kind=str),
    },
    tasks=lambda options: "a working tree",
    needs_writing=needs_writing,
    walk=walk,
    boxes=used,
)
