"""The record of the SWE-bench sandbox."""

from __future__ import annotations

from pathlib import Path

from bpo.param import REQUIRED, Param
from bpo.sandbox import Sandbox
from bpo.sandboxes.record import SandboxSpec
from bpo.sandboxes.shell.tiers import used
from bpo.sandboxes.swebench.grading import TEST_SECONDS
from bpo.sandboxes.swebench.sandbox import SweBench

# No command takes longer, in seconds.
WEEK = 7.0 * 24 * 3600


def make(**options) -> Sandbox:
    """Issues in boxes."""
    return SweBench(**options)


# No `walk`: a walk at random would need a language that it draws commands from, and its forks are those of shell.
swebench = SandboxSpec(
    summary="SWE-bench Verified: issues of real repositories, judged by their hidden tests",
    make=make,
    options={
        "rows": Param(REQUIRED, "parquet or JSON-lines file of the instances", kind=Path),
        "repos": Param(REQUIRED, "folder with a clone of each repository", kind=Path),
        "instances": Param(None, "names of those to use; unset: all whose clone is there", kind=list[str]),
        "fenced": Param(True, "actions are messages that hold one command in a fenced block; else the command"),
        "max_steps": Param(250, "step limit", low=1),
        "seconds": Param(60.0, "time limit of a command", low=0.0, high=WEEK),
        "test_seconds": Param(TEST_SECONDS, "time limit of the tests", low=0.0, high=WEEK, kind=float),
        "tier": Param("auto", "the kind of box (bpo sandbox doctor)"),
    },
    tasks=lambda options: "issues of SWE-bench Verified",
    needs_writing=lambda options: "swebench lists no actions",
    boxes=used,
)
