"""Verdicts on programs, in boxes that are thrown away, each program judged once."""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bpo.sandboxes.codefix import judge, source
from bpo.sandboxes.codefix.problems import CodeProblem
from bpo.sandboxes.shell import Limits, Workspace, open_workspace
from bpo.sandboxes.shell.host import interpreter
from bpo.sandboxes.shell.launch import Failure

# CPU seconds that a program may take where its own are not known; afterwards ten times its own, at least half a second.
FIRST, LEAST, TIMES = 5.0, 0.5, 10
BATCH = 40
JUDGE = Path(judge.__file__).read_text()
# Wall-clock seconds for one program, a little more than the judge's own.
WALL = 40
LIMITS = Limits(seconds=300, memory=1024 * 2**20, disk=64 * 2**20, processes=32)


@dataclass(frozen=True)
class ProgramVerdict:
    """How a program does its tests: "pass", "fail" with the name of the exception, or "timeout"; CPU seconds."""

    verdict: str
    detail: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether all tests passed."""
        return self.verdict == "pass"


def workspace(tier: str, limits: Limits, allow_unsafe: bool) -> Workspace:
    """An empty tree in a box with this process's Python and its standard library, and nothing that was installed into any."""
    python = interpreter()
    paths = (str(Path(python.program).parent),)
    return open_workspace(None, python.folders, tier, limits, paths=paths, allow_unsafe=allow_unsafe, hidden=python.hidden)


class Grader:
    """Judges programs by a script that runs in forks of one empty box."""

    def __init__(self, tier: str = "auto", allow_unsafe: bool = False):
        self._workspace = workspace(tier, LIMITS, allow_unsafe)
        self._known: dict[str, ProgramVerdict] = {}

    def grade(
        self, program: str | bytes, problem: CodeProblem, seconds: float = FIRST, box: Workspace | None = None
    ) -> ProgramVerdict:
        """The verdict on one program, as text or as its file, judged in an empty box or in a fork of the box that it lies in.

        A program can read what lies beside it, so that a verdict holds for this program in this tree.
        """
        try:
            text = source.decoded(source.encoded(program) if isinstance(program, str) else program)
        except SyntaxError as error:
            return ProgramVerdict("fail", type(error).__name__, 0.0)
        beside = box.digest() if box else ""
        key = hashlib.sha256(json.dumps([seconds, problem.tests, text, beside], allow_nan=False).encode()).hexdigest()
        if key not in self._known:
            self._known[key] = self._run([_case(text, problem, seconds)], box)[0]
        return self._known[key]

    def grade_all(
        self, cases: Sequence[tuple[str, CodeProblem, float]], progress: Callable[[int], None] | None = None
    ) -> list[ProgramVerdict]:
        """Verdicts on many (program, problem, seconds), on all CPUs."""
        batches = [cases[i : i + BATCH] for i in range(0, len(cases), BATCH)]
        found: list[ProgramVerdict] = []
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for verdicts in pool.map(lambda batch: self._run([_case(*case) for case in batch]), batches):
                found += verdicts
                if progress:
                    progress(len(found))
        return found

    def _run(self, cases: list[dict], box: Workspace | None = None) -> list[ProgramVerdict]:
        command = (interpreter().program, "-I", "-S", "-c", JUDGE)
        seconds = min(LIMITS.seconds, WALL * len(cases))
        told = json.dumps(cases, allow_nan=False).encode()
        result = (box or self._workspace).judge(command, stdin=told, seconds=seconds)
        try:
            return [ProgramVerdict(*row) for row in json.loads(result.output)]
        except (ValueError, TypeError):
            if len(cases) == 1:
                return [ProgramVerdict("fail", result.note or "the tests could not be run", result.seconds)]
            if result.ended == "exit":
                raise Failure(f"programs could not be judged: {result.output[:300]}") from None
            return [self._run([case])[0] for case in cases]


_SHARED: weakref.WeakValueDictionary[tuple, Grader] = weakref.WeakValueDictionary()


def shared(tier: str, allow_unsafe: bool) -> Grader:
    """The grader of this process for a kind of box: sandboxes share its verdicts. It goes when the last of them does."""
    grader = _SHARED.get((tier, allow_unsafe)) or Grader(tier, allow_unsafe)
    return _SHARED.setdefault((tier, allow_unsafe), grader)


def allowed(reference: ProgramVerdict) -> float:
    """CPU seconds for programs that stand in for one that took as long as this."""
    return max(LEAST, round(TIMES * reference.seconds, 1))


def _case(program: str, problem: CodeProblem, seconds: float) -> dict:
    return {"program": program.removeprefix("\ufeff"), "tests": problem.tests, "seconds": seconds}
