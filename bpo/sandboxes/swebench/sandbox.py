"""SWE-bench as a sandbox: repair an issue of a real repository by bash commands, submit a patch, be judged by hidden tests."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bpo.errors import BadInput, choose, require_text, scalar
from bpo.files import expanded
from bpo.sandbox import Observation, Outcome
from bpo.sandboxes.shell import agent_format
from bpo.sandboxes.shell.boxed import Boxed
from bpo.sandboxes.shell.tiers import FOLDER
from bpo.sandboxes.swebench.environments import Prepared, prepare
from bpo.sandboxes.swebench.grading import TEST_SECONDS, SuiteReport, fits, grade, opened
from bpo.sandboxes.swebench.instances import Instance, load, named

SPLIT = "test"
# A session ends after so many turns in a row without exactly one command.
UNREADABLE = 3
TASK = """Repair this issue of the repository in {folder}:

{problem}

Do not change tests. To hand in, write what has changed in the files of the repair to a patch, like
`git diff -- FILES > /tmp/patch.txt`, look at it, then run exactly: echo {submit} && cat /tmp/patch.txt"""
TURNS = """

Each of your turns must hold exactly one bash command, in a block like this; it runs in a shell of its own:

```mswea_bash_command
ls
```"""


@dataclass(frozen=True)
class IssueState:
    """Where a session is: the text last read, steps, unreadable turns in a row, whether it is over, what was handed in."""

    text: str = ""
    steps: int = 0
    unreadable: int = 0
    done: bool = False
    submission: str | None = None


class _IssueSession:
    """One episode; its identity is what a snapshot belongs to."""

    def __init__(self, prepared: Prepared):
        self.prepared = prepared


class SweBench(Boxed):
    """Repair issues of SWE-bench, as mini-swe-agent does: one bash command a turn, each in a fresh shell, then a patch.

    rows       parquet or JSON-lines file of the instances
    repos      folder with a clone of each repository, named like flask, pallets__flask or pallets/flask
    instances  names of those to use; None: all whose clone is there
    fenced     actions are messages that hold one command in a fenced block (see `agent_format.commands`); else the command
    max_steps  step limit; seconds: of a command; test_seconds: of the tests
    tier       see `shell.open_workspace`; boxes must be of tier overlay

    The tree holds the base commit and no later one, nor the hidden tests. A session ends when a command prints
    "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" and then a patch, at the step limit, or after three turns in a row without exactly
    one command. The patch is applied to the untouched tree and graded (`grading.grade`). The reward, 1 where it resolves the
    issue, comes at the end. `info`: won, truncated, task_type (the repository), task, tier, at the end submission and status.
    """

    def __init__(
        self,
        rows: str | os.PathLike,
        repos: str | os.PathLike,
        instances: Sequence[str] | None = None,
        fenced: bool = True,
        max_steps: int = 250,
        seconds: float = 60.0,
        test_seconds: float = TEST_SECONDS,
        tier: str = "auto",
    ):
        if scalar(int, max_steps, "max_steps") < 1:
            raise BadInput(f"max_steps is {max_steps}, it must be at least 1")
        for name, value in (("seconds", seconds), ("test_seconds", test_seconds)):
            if scalar(float, value, name) <= 0:
                raise BadInput(f"{name} is {value}, it must be above 0")
        if isinstance(instances, str) or (instances is not None and not instances):
            raise BadInput(f"instances is {instances!r}; it must be a list of names, or None for all whose clone is there")
        fits(tier)
        self.fenced, self.max_steps = scalar(bool, fenced, "fenced"), max_steps
        self.seconds, self.test_seconds, self._tier = float(seconds), float(test_seconds), tier
        every, folder = load(rows), expanded(repos)
        names = list(every) if instances is None else [named(every, name).name for name in instances]
        clones = {repo: clone_of(repo, folder) for repo in {every[name].repo for name in names}}
        self._clones = {repo: clone for repo, clone in clones.items() if clone is not None}
        if instances is not None and len(self._clones) < len(clones):
            missing = sorted(clones.keys() - self._clones.keys())[0]
            raise BadInput(f"{folder} has no clone of {missing}: git clone https://github.com/{missing} there")
        self._instances = {name: every[name] for name in names if every[name].repo in self._clones}
        if not self._instances:
            raise BadInput(f"{folder} holds no clone of any repository of {os.fspath(rows)}")

    def tasks(self, split: str) -> tuple[str, ...]:
        """The instances in the order of the file; the benchmark has one split, "test"."""
        choose("split of swebench", split, (SPLIT,))
        return tuple(self._instances)

    def reset(self, task: str) -> Observation:
        """Begin an instance; its tree and environment are made the first time, which can take minutes."""
        self._open()
        if task not in self._instances:
            raise BadInput(f"unknown task {task!r}; ids look like {next(iter(self._instances))!r}")
        instance = self._instances[task]
        prepared = prepare(instance, self._clones[instance.repo])
        if self._workspace is not None:
            self._workspace.close()
        self._workspace = opened(prepared, self._tier)
        self._base, self._session, self._state = self._workspace.snapshot(), _IssueSession(prepared), IssueState()
        return self._observe()

    def step(self, action: str) -> Outcome:
        """Play one turn."""
        session, workspace = self._running(), self.workspace
        require_text("the action", action)
        if self._state.done:
            raise RuntimeError("this session is over; call reset or restore before the next step")
        found = agent_format.commands(action) if self.fenced else [action]
        submission, unreadable = None, 0
        if len(found) == 1:
            result = agent_format.played(workspace, found[0], self.seconds)
            text, submission = agent_format.shown(result), agent_format.submission(result)
        else:
            text = (
                f"A turn must hold exactly one command, in a block that begins with ```mswea_bash_command; found {len(found)}. "
                "A command that holds fences of its own needs a longer one around it."
            )
            unreadable = self._state.unreadable + 1
        steps = self._state.steps + 1
        done = submission is not None or steps >= self.max_steps or unreadable >= UNREADABLE
        self._state = IssueState(text, steps, unreadable, done, submission)
        report = self.report() if submission is not None else None
        info: dict[str, Any] = {
            "won": report is not None and report.resolved,
            "truncated": submission is None and steps >= self.max_steps,
            "task_type": session.prepared.instance.repo,
            "task": session.prepared.instance.name,
            "tier": workspace.tier.name,
        }
        if report is not None:
            info |= {"submission": submission, "status": report.status}
        return Outcome(self._observe(), float(info["won"]), done, MappingProxyType(info))

    def report(self) -> SuiteReport:
        """What the hidden tests say of the patch that was handed in; RuntimeError where none was."""
        session = self._running()
        if self._state.submission is None:
            raise RuntimeError("no patch has been handed in")
        (fork,) = self.workspace.fork()
        try:
            fork.restore(self._base)
            return grade(fork, session.prepared, self._state.submission, self.test_seconds)
        finally:
            fork.close()

    def state_key(self) -> Hashable:
        """Identity of the state: instance, what was read and done, and the digest of the tree and /tmp."""
        return (self._running().prepared.instance.name, self._state, self.workspace.digest())

    def _observe(self) -> Observation:
        instance: Instance = self._running().prepared.instance
        task = TASK.format(folder=FOLDER, problem=instance.problem, submit=agent_format.SUBMIT) + (TURNS if self.fenced else "")
        return Observation(self._state.text, None, task, self._state.steps)


def clone_of(repo: str, folder: Path) -> Path | None:
    """The clone of a repository below a folder, by the names that people give it; None where there is none."""
    owner, name = repo.split("/")
    candidates = (folder / f"{owner}__{name}", folder / owner / name, folder / name)
    return next((path for path in candidates if (path / ".git").exists() or (path / "HEAD").is_file()), None)
