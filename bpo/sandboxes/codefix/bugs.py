"""Broken programs to repair: made by mutation and seen to fail, or taken from a collection; what is kept in the cache."""

from __future__ import annotations

import platform
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.progress import Progress

from bpo.cache import cache_dir, key_of
from bpo.errors import BadInput, choose
from bpo.files import locked
from bpo.provenance import code_of
from bpo.sandboxes.codefix.edits import between
from bpo.sandboxes.codefix.grader import Grader, allowed
from bpo.sandboxes.codefix.judge import judged
from bpo.sandboxes.codefix.mutate import KINDS, Mutant, mutants
from bpo.sandboxes.codefix.problems import CodeProblem, bare
from bpo.sandboxes.shell import open_workspace
from bpo.sealed import Damaged, read_record, write_record

# Kinds of change, how many at once, and how many lines the function may have, by difficulty.
DIFFICULTIES = {
    "easy": (("operator", "comparison", "constant"), 1, 12),
    "normal": (KINDS, 1, 30),
    "hard": (KINDS, 2, 60),
}
# Mutants of one problem that are tried; of those that fail their tests, tasks are made.
TRIED = 16
# Of the problems, the share whose bugs are for `valid_unseen` alone; of the bugs of the others, those for panel and valid_seen.
UNSEEN, PANEL, SEEN = 0.2, 0.1, 0.15


@dataclass(frozen=True)
class Bug:
    """A broken program: a task.

    `kinds` of its changes; `seconds` of CPU time that a repair may take.
    """

    problem: str
    kinds: tuple[str, ...]
    program: str
    seconds: float

    @property
    def task_type(self) -> str:
        """The kind of the change, or "two changes"."""
        return self.kinds[0] if len(self.kinds) == 1 else "two changes"


def generated(problems: Sequence[CodeProblem], difficulty: str, grader: Grader) -> list[Bug]:
    """Bugs of a difficulty in these problems, each of which fails its tests while the program that it was made from passes.

    Made once and kept in the cache. Mutants that do not come to an end are left out, since every run of their tests would take
    all its time.
    """
    choose("difficulty", difficulty, DIFFICULTIES)
    path = cache_dir("codefix") / f"{_identity(problems, difficulty)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock")):
        try:
            rows = read_record(path)["bugs"]
        except (OSError, Damaged):
            rows = [asdict(bug) for bug in _made(problems, difficulty, grader)]
            write_record(path, {"bugs": rows})
    return [Bug(**{**row, "kinds": tuple(row["kinds"])}) for row in rows]


def _identity(problems: Sequence[CodeProblem], difficulty: str) -> str:
    """A key of what the bugs depend on: problems, difficulty, all code that makes and judges them, and the Python they run in.

    The seconds that a repair may take are measured, so that the kind of machine counts too.
    """
    python = [platform.python_implementation(), platform.python_version(), platform.machine()]
    return key_of([asdict(problem) for problem in problems], difficulty, python, code_of(_made, Grader, judged, open_workspace))


def _made(problems: Sequence[CodeProblem], difficulty: str, grader: Grader) -> list[Bug]:
    kinds, changes, longest = DIFFICULTIES[difficulty]
    correct = {problem.name: bare(problem.program) for problem in problems}
    verdicts = grader.grade_all([(correct[problem.name], problem, 5.0) for problem in problems])
    wrong = [problem.name for problem, verdict in zip(problems, verdicts, strict=True) if not verdict.passed]
    if wrong:
        raise BadInput(f"the correct program of {wrong[0]} does not pass its own tests here")
    tried: list[tuple[Bug, CodeProblem]] = []
    seen: set[str] = set()
    for problem, verdict in zip(problems, verdicts, strict=True):
        if correct[problem.name].count("\n") <= longest:
            rng = random.Random(f"codefix/{difficulty}/{problem.name}")
            for path in _sampled(correct[problem.name], problem.entry, kinds, changes, rng):
                last = path[-1].program
                repair = between(last, correct[problem.name])
                # A task whose repair can be offered as edits, one for each change.
                if last in seen or repair is None or len(repair) != changes:
                    continue
                seen.add(last)
                bug = Bug(problem.name, tuple(m.kind for m in path), last, allowed(verdict))
                tried.append((bug, problem))
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(f"running the tests of {len(tried)} mutants, once", total=len(tried))
        cases = [(bug.program, problem, bug.seconds) for bug, problem in tried]
        found = grader.grade_all(cases, lambda done: bars.update(bar, completed=done))
    return [bug for (bug, _), verdict in zip(tried, found, strict=True) if verdict.verdict == "fail"]


def _sampled(program: str, entry: str, kinds: Sequence[str], changes: int, rng: random.Random) -> list[list[Mutant]]:
    """Some ways to change a program so many times, kinds as evenly as they come."""
    by_kind = {kind: [m for m in mutants(program, entry) if m.kind == kind] for kind in kinds}
    for group in by_kind.values():
        rng.shuffle(group)
    found: list[list[Mutant]] = []
    while len(found) < TRIED and any(by_kind.values()):
        for group in by_kind.values():
            if group and len(found) < TRIED:
                path = [group.pop()]
                while len(path) < changes:
                    # Another line, so that each change is a repair of its own.
                    further = [m for m in mutants(path[-1].program, entry) if m.line != path[0].line and m.kind in kinds]
                    same = [m for m in further if m.program.count("\n") == path[-1].program.count("\n")]
                    if not same:
                        break
                    path.append(rng.choice(same))
                if len(path) == changes:
                    found.append(path)
    return found


def given(problems: Sequence[CodeProblem], seconds: float = 5.0) -> list[Bug]:
    """The broken programs that a collection brings along."""
    return [Bug(p.name, ("given",), p.broken, seconds) for p in problems if p.broken is not None]


def split(bugs: Sequence[Bug]) -> dict[str, list[int]]:
    """Positions of bugs by split.

    All bugs of a fifth of the problems are `valid_unseen`; `panel` and `valid_seen` hold other bugs of problems of `train`.
    """
    names = sorted({bug.problem for bug in bugs})
    random.Random("codefix/problems").shuffle(names)
    unseen = set(names[: round(UNSEEN * len(names))])
    found: dict[str, list[int]] = {"train": [], "panel": [], "valid_seen": [], "valid_unseen": []}
    for position, bug in enumerate(bugs):
        draw = random.Random(f"codefix/{bug.problem}/{bug.program}").random()
        if bug.problem in unseen:
            found["valid_unseen"].append(position)
        else:
            found["panel" if draw < PANEL else "valid_seen" if draw < PANEL + SEEN else "train"].append(position)
    for name, positions in found.items():
        random.Random(f"codefix/{name}").shuffle(positions)
    return found
