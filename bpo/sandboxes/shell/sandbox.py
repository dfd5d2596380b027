"""The shell as a sandbox: a working tree, one bash command a step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bpo.errors import BadInput, choose, scalar
from bpo.sandbox import Observation, Outcome, SnapshotError
from bpo.sandboxes.shell import chores, turns
from bpo.sandboxes.shell.limits import Limits
from bpo.sandboxes.shell.tiers import open_workspace
from bpo.sandboxes.shell.workspace import Workspace, WorkspaceSnapshot

TASK = "tree"


class _Session:
    """One episode; its identity is what a snapshot belongs to."""


@dataclass(frozen=True)
class ShellSnapshot:
    """A reached state of one session: restorable any number of times, in any order, until the next reset or close."""

    session: _Session
    tree: WorkspaceSnapshot
    text: str
    steps: int
    done: bool

    @property
    def size_bytes(self) -> int:
        """Bytes that the topmost layer takes on disk, and of the text."""
        return self.tree.size_bytes + len(self.text)


class Shell:
    """A working tree in a box that forks: run commands, then submit.

    tree          the folder to work in; None: a small one made for trying (`chores`)
    instruction   what the agent is asked to do
    check         a bash command whose exit status 0, in a throw-away fork at the end, is success; None: no reward
    commands      admissible actions; None: any command, free writing
    max_steps     step limit
    readable, tier, stateful, allow_unsafe, image   see `tiers.open_workspace`
    limits        fields of `Limits` by name

    A session ends when a command prints "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" as its first line and succeeds (the rest of its
    output is `info["submission"]`), or at the step limit. The reward, 0 or 1, comes at the end. `info`: won, truncated,
    task_type, tier. States are equal where names, permissions and contents are; times of files are not compared.
    """

    def __init__(
        self,
        tree: str | os.PathLike | None = None,
        instruction: str | None = None,
        check: str | None = None,
        commands: Sequence[str] | None = None,
        max_steps: int = 50,
        readable: Sequence[str] = (),
        tier: str = "auto",
        limits: Mapping[str, float] | None = None,
        stateful: bool = False,
        allow_unsafe: bool = False,
        image: str | None = None,
    ):
        if scalar(int, max_steps, "max_steps") < 1:
            raise BadInput(f"max_steps is {max_steps}, it must be at least 1")
        for name in limits or {}:
            choose("limit", name, [field.name for field in fields(Limits)])
        self._made = tempfile.TemporaryDirectory(prefix="bpo-tree-") if tree is None else None
        if self._made:
            tree = chores.make(Path(self._made.name))
            instruction, check = instruction or chores.INSTRUCTION, check or chores.CHECK
            commands = chores.COMMANDS if commands is None else commands
        self.instruction, self.check, self.max_steps = instruction or "", check, max_steps
        self.commands = None if commands is None else tuple(commands)
        options = {"tier": tier, "stateful": stateful, "allow_unsafe": allow_unsafe, "image": image}
        self._workspace = open_workspace(tree, readable, limits=Limits(**(limits or {})), **options)
        self._start = self._workspace.snapshot()
        self._session: _Session | None = None
        self._closed = False

    @property
    def workspace(self) -> Workspace:
        """The tree in its present state."""
        self._running()
        return self._workspace

    def tasks(self, split: str) -> tuple[str, ...]:
        """The tree is the only task, in every split."""
        return (TASK,)

    def reset(self, task: str) -> Observation:
        """Go back to the tree as it was given; snapshots of the former session become invalid."""
        if self._closed:
            raise RuntimeError("this sandbox is closed")
        if task != TASK:
            raise BadInput(f"unknown task {task!r}: the only one is {TASK!r}")
        self._workspace.restore(self._start)
        self._session, self._text, self._steps, self._done = _Session(), "", 0, False
        return self._observe()

    def step(self, action: str) -> Outcome:
        """Run one command."""
        self._running()
        if self._done:
            raise RuntimeError("this session is over; call reset or restore before the next step")
        result = self._workspace.run(action)
        self._text, self._steps = turns.shown(result), self._steps + 1
        handed_in = turns.submission(result)
        truncated = handed_in is None and self._steps >= self.max_steps
        self._done = handed_in is not None or truncated
        won = self._done and self._checked()
        info: dict[str, Any] = {"won": won, "truncated": truncated, "task_type": "shell", "tier": self._workspace.tier.name}
        if handed_in is not None:
            info["submission"] = handed_in
        return Outcome(self._observe(), float(won), self._done, MappingProxyType(info))

    def snapshot(self) -> ShellSnapshot:
        """A handle on the present state; nothing is copied."""
        session = self._running()
        return ShellSnapshot(session, self._workspace.snapshot(), self._text, self._steps, self._done)

    def restore(self, snapshot: ShellSnapshot) -> Observation:
        """Return to a snapshot of this session; SnapshotError for any other."""
        if self._closed:
            raise SnapshotError("this sandbox is closed, nothing can be restored in it")
        if not isinstance(snapshot, ShellSnapshot) or snapshot.session is not self._session:
            raise SnapshotError("the snapshot belongs to another sandbox or to a session before the last reset")
        self._workspace.restore(snapshot.tree)
        self._text, self._steps, self._done = snapshot.text, snapshot.steps, snapshot.done
        return self._observe()

    def fork(self, n: int) -> list[Shell]:
        """`n` independent sandboxes at the present state; their trees share all that is there."""
        self._running()
        forks = []
        for workspace in self._workspace.fork(n):
            other = object.__new__(Shell)
            other.__dict__.update(self.__dict__)
            other._workspace, other._session = workspace, _Session()
            forks.append(other)
        return forks

    def state_key(self) -> Hashable:
        """Identity of the state: steps, whether it is over, the last text, and the digest of the tree and /tmp."""
        self._running()
        return (self._steps, self._done, self._text, self._workspace.digest())

    def close(self) -> None:
        """End the session and let go of its files; may be called twice."""
        self._session, self._closed = None, True
        self._workspace.close()

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _checked(self) -> bool:
        """Whether the check succeeds, in a fork that is thrown away."""
        if self.check is None:
            return False
        (fork,) = self._workspace.fork()
        with closing(fork):
            return fork.run(self.check).code == 0

    def _running(self) -> _Session:
        if self._closed:
            raise RuntimeError("this sandbox is closed")
        if self._session is None:
            raise RuntimeError("no session has been started; call reset first")
        return self._session

    def _observe(self) -> Observation:
        actions = () if self._done and self.commands is not None else self.commands
        return Observation(self._text, actions, self.instruction, self._steps)
