"""Whether a patch repairs an instance: its tests are run in a box that is thrown away, and what their runner tells is read.

What a runner tells has the form of what it prints, so that names are those of SWE-bench's harness, but goes by a channel that
nothing else writes to (see `witness`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bpo.errors import BadInput
from bpo.reading import from_json, typed
from bpo.sandboxes.shell import Limits, Workspace, open_workspace
from bpo.sandboxes.shell.limits import MiB, Result
from bpo.sandboxes.shell.tiers import FOLDER, chosen
from bpo.sandboxes.swebench import logs, witness
from bpo.sandboxes.swebench.environments import Prepared
from bpo.sandboxes.swebench.hidden import FILE, LINK, PROGRAM, SUBMODULE, Entry, place
from bpo.sandboxes.swebench.instances import Instance, touched

LIMITS = Limits(seconds=60, memory=4096 * MiB, disk=2048 * MiB, processes=128, output=64 * MiB)
TEST_SECONDS = 1800.0
# Where a patch is put while it is applied; outside the tree.
PATCH = "/tmp/submission.patch"
# The program that a box is given.
WITNESS = Path(witness.__file__).read_text()
# Files that say how tests are run, by name and by path. Those of a patch do not count, unless the row's own repair has them.
RUNS_BY_NAME = ("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "sitecustomize.py")
RUNS_BY_PATH = (
    "bin/get_sympy.py",
    "bin/test",
    "sympy/testing/runtests.py",
    "sympy/utilities/runtests.py",
    "tests/runtests.py",
)
# Tried in this order, as SWE-bench's harness does.
WAYS = (
    f"git apply --verbose {PATCH}",
    f"git apply --verbose --reject {PATCH}",
    f"patch --batch --fuzz=5 -p1 -i {PATCH}",
)


@dataclass(frozen=True)
class SuiteReport:
    """What the tests of an instance said of a patch.

    applied       whether the patch fits the tree; False also for an empty one
    fail_to_pass  status of each test that the repair must mend, "MISSING" where it was not seen; pass_to_pass: of those that
                  it must not break
    problem       why the run does not count, empty where it does
    log           what was printed, which no verdict depends on
    """

    applied: bool
    fail_to_pass: Mapping[str, str]
    pass_to_pass: Mapping[str, str]
    problem: str = ""
    log: str = ""

    @property
    def mended(self) -> int:
        """Tests of `fail_to_pass` that pass; one that is skipped does not."""
        return sum(status in (logs.PASSED, logs.XFAIL) for status in self.fail_to_pass.values())

    @property
    def kept(self) -> int:
        """Tests of `pass_to_pass` that pass, or are skipped."""
        return sum(status in (logs.PASSED, logs.XFAIL, logs.SKIPPED) for status in self.pass_to_pass.values())

    @property
    def resolved(self) -> bool:
        """Whether all tests of both lists pass: SWE-bench's measure of success."""
        return not self.problem and self.mended == len(self.fail_to_pass) and self.kept == len(self.pass_to_pass)

    @property
    def status(self) -> str:
        """SWE-bench's word: "full", "partial" (nothing is broken, some tests are mended) or "no"."""
        if self.resolved:
            return "full"
        return "partial" if not self.problem and self.mended and self.kept == len(self.pass_to_pass) else "no"


def opened(prepared: Prepared, tier: str = "auto") -> Workspace:
    """The tree of an instance in boxes, with its environment first on the search path."""
    fits(tier)
    environment = prepared.environment
    return open_workspace(
        prepared.tree,
        prepared.readable,
        tier,
        LIMITS,
        {"VIRTUAL_ENV": str(environment), **prepared.recipe.variables},
        (str(environment / "bin"),),
    )


def fits(tier: str) -> None:
    """BadInput where boxes of this tier, or the ones that "auto" means here, cannot hold an instance."""
    name = chosen(tier)
    if name != "overlay":
        raise BadInput(
            f"SWE-bench needs boxes of tier overlay, here they are of tier {name}: the repository is installed as it lies at "
            f"{FOLDER}, and a copy lies elsewhere (`bpo sandbox doctor` says what is missing)"
        )


def grade(base: Workspace, prepared: Prepared, patch: str, seconds: float = TEST_SECONDS) -> SuiteReport:
    """Apply a patch to a fork of the untouched tree, put the hidden tests into it, run them, read what their runner tells.

    An empty patch is graded too, for what the tests say without any, and cannot count as applied.
    """
    (fork,) = base.fork()
    with closing(fork):
        applied = _applied(fork, patch)
        if patch.strip() and not applied:
            return _report(prepared.instance, {}, False, "the patch does not apply")
        try:
            place(fork, *_runner_files(fork, prepared))
            place(fork, prepared.hidden, prepared.removed)
        except (BadInput, RuntimeError) as error:
            # The patch has put something else where the folder of a test is.
            return _report(prepared.instance, {}, applied, str(error))
        names = [name for name, entry in prepared.hidden.items() if entry.kind != SUBMODULE]
        command = prepared.recipe.command(prepared.instance, names)
        python = str(prepared.environment / "bin" / "python")
        told = (python, "-I", "-c", witness.BEGIN, WITNESS, prepared.recipe.runner, *command)
        result = fork.judge(told, seconds)
    found = _told(result)
    statuses = prepared.recipe.parser("\n".join(found.lines))
    problem = found.problem or _problem(found.code, statuses)
    return _report(prepared.instance, statuses, applied, problem, found.log)


@dataclass(frozen=True)
class Told:
    """What `witness` says of a test run: lines as the runner prints them, the log, the exit status, and what is wrong."""

    lines: tuple[str, ...]
    log: str
    code: int
    problem: str


def _told(result: Result) -> Told:
    if result.ended != "exit":
        return Told((), "", result.code, result.note)
    try:
        return typed(Told, from_json(result.output, "what the tests' runner says", halves=True), "what the tests' runner says")
    except BadInput as error:
        # Its process was ended by the tests', which may send signals.
        return Told((), "", result.code, f"{error} (exit status {result.code})")


def _runner_files(fork: Workspace, prepared: Prepared) -> tuple[dict[str, Entry], list[str]]:
    """The files of the base commit that say how tests are run, and the names of those that a patch has added."""
    own, base = {*touched(prepared.instance.patch)}, _runner_files_of(prepared.tree)
    kept = {name: entry for name, entry in base.items() if name not in own}
    by_name = " -o ".join(f"-name {name}" for name in RUNS_BY_NAME)
    found = fork.run(f"find . -path ./.git -prune -o '(' {by_name} ')' -print0 && printf '%s\\0' {' '.join(RUNS_BY_PATH)}")
    there = {name.removeprefix("./") for name in found.output.split("\0") if name}
    return kept, sorted(there - own - kept.keys())


@cache
def _runner_files_of(tree: Path) -> dict[str, Entry]:
    """The files of a tree that say how tests are run, by name."""
    found = {}
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(name for name in folders if name != ".git")
        for path in (Path(folder, name) for name in sorted(names)):
            name = str(path.relative_to(tree))
            if path.name not in RUNS_BY_NAME and name not in RUNS_BY_PATH:
                continue
            if path.is_symlink():
                found[name] = Entry(LINK, os.fsencode(os.readlink(path)))
            elif path.is_file():
                found[name] = Entry(PROGRAM if path.stat().st_mode & 0o100 else FILE, path.read_bytes())
    return found


def _applied(fork: Workspace, patch: str) -> bool:
    if not patch.strip():
        return False
    text = patch if patch.endswith("\n") else patch + "\n"
    fork.execute(("tee", PATCH), stdin=text.encode(errors="surrogateescape"))
    # What a failed way has left is taken back before the next one.
    undo = "git checkout --quiet -- . && git clean --quiet --force -d"
    return any(fork.run(way if number == 0 else f"{undo} && {way}").code == 0 for number, way in enumerate(WAYS))


def _problem(code: int, statuses: Mapping[str, str]) -> str:
    if not statuses:
        return f"no test was seen (exit status {code})"
    if code and not {logs.FAILED, logs.ERROR} & set(statuses.values()):
        # Tests that end the runner's process early would look like success.
        return f"the tests ended with exit status {code}, though none of them failed"
    return ""


def _report(instance: Instance, statuses: Mapping[str, str], applied: bool, problem: str, log: str = "") -> SuiteReport:
    def of(names: Sequence[str]) -> dict[str, str]:
        return {name: statuses.get(name, "MISSING") for name in names}

    return SuiteReport(applied, of(instance.fail_to_pass), of(instance.pass_to_pass), problem, log)
