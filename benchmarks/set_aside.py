"""Which finished runs a change of the code sets aside: python benchmarks/set_aside.py

Makes a copy of the package for every change below, carries the change out there, and compares the fingerprints of all methods
in all sandboxes that the preset `smoke` has with those of the package as it is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

import bpo

PACKAGE = Path(bpo.__file__).parent
ASK = """
import json
from bpo.config import load_preset
from bpo.methods import METHODS
from bpo.provenance import code_fingerprint
smoke = load_preset("smoke")
runs = [(method, sandbox) for method in METHODS for sandbox in smoke.sandboxes]
print(json.dumps({f"{method} in {sandbox}": code_fingerprint(smoke.run(method, sandbox, 0)) for method, sandbox in runs}))
"""
DUMMY = '''"""A row that nobody needs."""

from dataclasses import replace

from bpo.methods.independent import rloo

dummy = replace(rloo, summary="rloo by another name")
'''


SANDBOX = '''"""A sandbox that nobody needs."""

from bpo.sandboxes.record import SandboxSpec
from bpo.sandboxes.toy import ToyTree

dummy = SandboxSpec(summary="the toy by another name", make=ToyTree, options={}, tasks=lambda options: "none")
'''


def edit(package: Path, file: str, pattern: str, replacement: str) -> None:
    """Replace what `pattern` matches in a file; LookupError where it matches nothing."""
    path = package / file
    text, count = re.subn(pattern, replacement, path.read_text())
    if not count:
        raise LookupError(f"{path} holds nothing like {pattern!r}")
    path.write_text(text)


def add_method(package: Path) -> None:
    """A new file with a new row."""
    (package / "methods" / "dummy.py").write_text(DUMMY)


def add_sandbox(package: Path) -> None:
    """A new folder with a new record."""
    (package / "sandboxes" / "dummy").mkdir()
    (package / "sandboxes" / "dummy" / "__init__.py").write_text('"""Nothing."""\n')
    (package / "sandboxes" / "dummy" / "spec.py").write_text(SANDBOX)


def edit_record(package: Path) -> None:
    """Another figure of the paper, and another bound of an option, in the record of one sandbox."""
    edit(package, "sandboxes/household/spec.py", r"44\.6 ± 2\.1", "44.7 ± 2.1")
    edit(package, "sandboxes/household/spec.py", "low=1, kind=int", "low=2, kind=int")


def move_module(package: Path) -> None:
    """noise.py becomes measures/gradient_noise.py, and who imports it follows."""
    (package / "measures").mkdir()
    (package / "measures" / "__init__.py").write_text('"""What is measured."""\n')
    os.replace(package / "noise.py", package / "measures" / "gradient_noise.py")
    edit(package, "experiment.py", "from bpo import noise", "from bpo.measures import gradient_noise as noise")


def edit_comment(package: Path) -> None:
    """Other words in a docstring, and a comment more, in the code that every run goes through."""
    edit(package, "update.py", r'"""From trees to a gradient', '"""From trees to one gradient')
    edit(package, "rollout.py", r"\ndef grow\(", "\n# A comment.\ndef grow(")


def edit_rloo(package: Path) -> None:
    """Another number in one credit rule."""
    edit(package, "credit/rollouts.py", r"lambda g: leave_one_out\(g,", "lambda g: 2 * leave_one_out(g,")


def edit_household(package: Path) -> None:
    """Another number of idle engines in one sandbox."""
    edit(package, "sandboxes/household/engines.py", r"KEEP_IDLE = (\d+)", r"KEEP_IDLE = 1 + \1")


def edit_loop(package: Path) -> None:
    """Another window in the training loop."""
    edit(package, "train.py", r"\nWINDOW = 50", "\nWINDOW = 51")


CHANGES: dict[str, Callable[[Path], None]] = {
    "add a method": add_method,
    "add a sandbox": add_sandbox,
    "edit the record of a sandbox": edit_record,
    "move a module": move_module,
    "edit a docstring, add a comment": edit_comment,
    "edit the credit rule rloo": edit_rloo,
    "edit the household sandbox": edit_household,
    "edit the training loop": edit_loop,
}


def fingerprints(change: Callable[[Path], None] | None = None) -> dict[str, str]:
    """Run -> fingerprint, in a copy of the package with the change made."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "bpo")
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        if change:
            change(package)
        environment = {**os.environ, "PYTHONPATH": folder}
        command = [sys.executable, "-P", "-c", ASK]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def set_aside(before: dict[str, str], change: Callable[[Path], None]) -> list[str]:
    """The runs of `before` that a change sets aside."""
    after = fingerprints(change)
    return [run for run, code in before.items() if after[run] != code]


def main() -> None:
    """Print one line per change."""
    table = Table("change", "runs set aside", "which")
    before = fingerprints()
    for name, change in CHANGES.items():
        found = set_aside(before, change)
        which = "all" if len(found) == len(before) else ", ".join(found) or "none"
        table.add_row(name, f"{len(found)} of {len(before)}", which)
    Console().print(table)


if __name__ == "__main__":
    main()
