"""Program repair as a sandbox: a function that fails its tests, in a working tree that forks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType

from bpo.errors import BadInput, choose, require_text, scalar
from bpo.files import lines
from bpo.sandbox import Observation, Outcome
from bpo.sandboxes.codefix import edits as editing
from bpo.sandboxes.codefix import problems as collections
from bpo.sandboxes.codefix import source
from bpo.sandboxes.codefix.bugs import DIFFICULTIES, Bug, generated, given, split
from bpo.sandboxes.codefix.edits import Edit
from bpo.sandboxes.codefix.grader import shared, workspace
from bpo.sandboxes.codefix.problems import CodeProblem
from bpo.sandboxes.shell import Limits, agent_format
from bpo.sandboxes.shell.boxed import Boxed

FILE = "solution.py"
UNDO, RUN, SUBMIT = "undo", "run tests", "submit"
# Free writing: an action that begins with this writes the file anew, with what follows.
WRITE = f"write {FILE}\n"
LIMITS = Limits(seconds=30, memory=1024 * 2**20, disk=64 * 2**20, processes=32)


@dataclass(frozen=True)
class Repair:
    """A task with what a demonstrator must know: the program as given, the edits offered, those that repair it."""

    task: str
    given: str
    offered: tuple[Edit, ...]
    repair: tuple[Edit, ...]
    max_steps: int


@dataclass(frozen=True)
class RepairState:
    """Where a session is: the edits made (constrained), the text last read, steps, whether it is over and was won."""

    made: tuple[Edit, ...] = ()
    text: str = ""
    steps: int = 0
    done: bool = False
    won: bool = False


class _RepairSession:
    """One episode; its identity is what a snapshot belongs to."""

    def __init__(self, task: str, bug: Bug, problem: CodeProblem, repair: Repair | None):
        self.task, self.bug, self.problem, self.repair = task, bug, problem, repair


class CodeFix(Boxed):
    """Repair a function so that hidden tests pass.

    data         None: bugs made by mutation of HumanEval's programs; a HumanEvalFix JSONL file; a folder with QuixBugs
    difficulty   without data: "easy" (an operator, comparison or constant), "normal" (any one change), "hard" (two)
    actions      "constrained": edits of single lines to choose from, "undo", "run tests", "submit" (new here); "free": a bash
                 command, or "write solution.py" and the new text on the lines after it
    choices      constrained: edits to choose from, the repair among them; with data there is no such list, so actions are free
    visible      free: whether the tests lie in the tree, as tests.py
    max_steps    step limit
    tier, allow_unsafe   see `shell.open_workspace`

    Tests and program run in two processes: tests see plain data, and the program never sees the tests.
    Success is that all tests pass at the end; a session ends with "submit" (free: as in the shell sandbox) or at the step
    limit, and one that was not submitted has failed. Tests run in a fork that is thrown away, each program once. `info`: won,
    truncated, task_type (the kind of bug), task.
    """

    def __init__(
        self,
        data: str | os.PathLike | None = None,
        difficulty: str = "easy",
        actions: str | None = None,
        choices: int = 8,
        visible: bool = False,
        max_steps: int = 10,
        tier: str = "auto",
        allow_unsafe: bool = False,
    ):
        self.difficulty = choose("difficulty", difficulty, DIFFICULTIES)
        self.actions = choose("actions", actions or ("constrained" if data is None else "free"), ("constrained", "free"))
        if data is not None and self.actions == "constrained":
            raise BadInput(
                "actions 'constrained' choose from edits that are known for generated bugs alone; with data use 'free'"
            )
        for name, value, low in (("choices", choices, 1), ("max_steps", max_steps, 1)):
            if scalar(int, value, name) < low:
                raise BadInput(f"{name} is {value}, it must be at least {low}")
        self.choices, self.visible, self.max_steps = choices, scalar(bool, visible, "visible"), max_steps
        problems = self._problems(data)
        self._by_name = {problem.name: problem for problem in problems}
        self._grader = shared(tier, allow_unsafe)
        self._bugs = generated(problems, difficulty, self._grader) if data is None else given(problems)
        self._workspace = workspace(tier, LIMITS, allow_unsafe)
        self._empty = self._workspace.snapshot()
        self._splits = split(self._bugs)
        self._ids = [f"{bug.problem}/{_short(bug.program)}" for bug in self._bugs]
        self._positions = {task: position for position, task in enumerate(self._ids)}

    @staticmethod
    def _problems(data: str | os.PathLike | None) -> Sequence[CodeProblem]:
        if data is None:
            return collections.human_eval()
        if not isinstance(data, str | os.PathLike):
            raise BadInput(f"data is {data!r}; it must be the path of a file of problems or of a folder with QuixBugs")
        path = os.path.expanduser(os.path.expandvars(os.fspath(data)))
        return collections.quix_bugs(path) if os.path.isdir(path) else collections.human_eval_fix(path)

    @property
    def tier(self) -> str:
        """The tier of the boxes."""
        return self._workspace.tier.name

    def tasks(self, split: str) -> Sequence[str]:
        """Ids of a split, fixed and ordered."""
        return [self._ids[i] for i in self._splits[choose("split", split, self._splits)]]

    def game(self, task: str) -> Repair:
        """The task with its repair, for demonstrations; BadInput where edits are not known."""
        repair = self._start(task).repair
        if repair is None:
            raise BadInput("demonstrations need actions 'constrained'")
        return repair

    def reset(self, task: str) -> Observation:
        """Start a session; snapshots of the former one become invalid."""
        self._open()
        self._session = session = self._start(task)
        self._workspace.restore(self._empty)
        self._workspace.write(FILE, source.encoded(session.bug.program))
        if self.visible:
            self._workspace.write("tests.py", f"from solution import *\n{session.problem.tests}")
        self._state = RepairState(
            text=numbered(session.bug.program) if session.repair else f"The file is {FILE}:\n{session.bug.program}"
        )
        return self._observe()

    def step(self, action: str) -> Outcome:
        """Play one action; one that means nothing here changes nothing and costs a step."""
        session, state = self._running(), self._state
        require_text("the action", action)
        if state.done:
            raise RuntimeError("this session is over; call reset or restore before the next step")
        submitted = self._constrained(action) if session.repair else self._free(action)
        steps = state.steps + 1
        done = submitted or steps >= self.max_steps
        won = submitted and self._passes()
        text = ("The tests pass." if won else "The tests fail.") if submitted else self._state.text
        self._state = replace(self._state, text=text, steps=steps, done=done, won=won)
        info = {"won": won, "truncated": done and not submitted, "task_type": session.bug.task_type, "task": session.task}
        return Outcome(self._observe(), float(won), done, MappingProxyType(info))

    def _constrained(self, action: str) -> bool:
        """Play an action of the list; True where it submits."""
        session, made = self._session, self._state.made
        assert session.repair is not None
        edit = next((edit for edit in session.repair.offered if edit.action == action), None)
        if action == RUN:
            verdict = self._verdict()
            text = "The tests pass." if verdict.passed else f"The tests fail: {verdict.detail or verdict.verdict}."
        elif action == UNDO and made:
            made, text = made[:-1], "Undone."
        elif edit is not None and edit not in made:
            made, text = (*made, edit), "Done."
        else:
            text = "Nothing happens."
        if made != self._state.made:
            self._workspace.write(FILE, editing.applied(session.bug.program, made))
        self._state = replace(self._state, made=made, text=text)
        return action == SUBMIT

    def _free(self, action: str) -> bool:
        """Play a bash command or write the file; True where it submits."""
        if action.startswith(WRITE):
            self._workspace.write(FILE, source.encoded(action.removeprefix(WRITE)))
            try:
                self._workspace.settle()
                text = f"{FILE} is written."
            except BadInput as error:
                text = str(error)  # commands have put something else there
            self._state = replace(self._state, text=text)
            return False
        result = agent_format.played(self._workspace, action)
        self._state = replace(self._state, text=agent_format.shown(result))
        return agent_format.submission(result) is not None

    def _verdict(self):
        session = self._session
        if session.repair:
            # Nothing but the program is in its box.
            program = editing.applied(session.bug.program, self._state.made)
            return self._grader.grade(program, session.problem, session.bug.seconds)
        # Read by a fork, so that looking changes nothing.
        (fork,) = self._workspace.fork()
        with closing(fork):
            content = fork.read(FILE)
        return self._grader.grade(content, session.problem, session.bug.seconds, self._workspace)

    def _passes(self) -> bool:
        try:
            return self._verdict().passed
        except BadInput:
            return False  # the file is gone

    def state_key(self) -> Hashable:
        """Identity of the state: task, what was read and done, and with free actions the digest of the tree."""
        session = self._running()
        return (session.task, self._state, None if session.repair else self._workspace.digest())

    def close(self) -> None:
        """End the session and let go of its files; may be called twice."""
        # The last sandbox that lets go of the shared grader ends it, and the folder of its box.
        self._grader = None
        super().close()

    def _start(self, task: str) -> _RepairSession:
        if task not in self._positions:
            raise BadInput(f"unknown task {task!r}; ids look like {next(iter(self._positions))!r}")
        bug = self._bugs[self._positions[task]]
        problem = self._by_name[bug.problem]
        return _RepairSession(task, bug, problem, self._repair(task, bug, problem) if self.actions == "constrained" else None)

    def _repair(self, task: str, bug: Bug, problem: CodeProblem) -> Repair:
        repair = editing.between(bug.program, collections.bare(problem.program))
        if repair is None:
            raise BadInput(f"the bug of task {task!r} is not repaired by edits of single lines")
        offered = editing.candidates(bug.program, problem.entry, tuple(repair), self.choices, task)
        return Repair(task, bug.program, offered, tuple(repair), self.max_steps)

    def _observe(self) -> Observation:
        session, state = self._session, self._state
        task = f"Repair {session.problem.entry}: {session.problem.text}"
        return Observation(state.text, self._listed(), task, state.steps)

    def _listed(self) -> tuple[str, ...] | None:
        session, state = self._session, self._state
        if session.repair is None:
            return None
        if state.done:
            return ()
        open_edits = (edit.action for edit in session.repair.offered if edit not in state.made)
        return (*open_edits, *((UNDO,) if state.made else ()), RUN, SUBMIT)


def numbered(program: str) -> str:
    """A program with the numbers of its lines, as edits name them."""
    return "\n".join(f"{number} {line}" for number, line in enumerate(lines(program), start=1))


def _short(program: str) -> str:
    return hashlib.sha256(program.encode(errors="surrogatepass")).hexdigest()[:8]
