"""The shell as a sandbox: a working tree, one bash command a step."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from bpo.errors import BadInput, choose, require_text, scalar
from bpo.sandbox import Observation, Outcome
from bpo.sandboxes.shell import agent_format, demo_tree
from bpo.sandboxes.shell.boxed import Boxed
from bpo.sandboxes.shell.limits import Limits
from bpo.sandboxes.shell.store import LayerStore
from bpo.sandboxes.shell.tiers import open_workspace

TASK = "tree"


class _ShellSession:
    """One episode; its identity is what a snapshot belongs to."""


@dataclass(frozen=True)
class ShellState:
    """Where a session is: the text last read, steps, whether it is over."""

    text: str = ""
    steps: int = 0
    done: bool = False


class Shell(Boxed):
    """A working tree in a box that forks: run commands, then submit.

    tree          the folder to work in; None: a small one made for trying (`demo_tree`)
    instruction   what the agent is asked to do
    check         a bash command whose exit status 0, in a throw-away fork at the end, is success; None: no reward. It sees the
                  tree, and of the session nothing else: a fresh shell, an empty /tmp and home
    commands      actions that are listed, for policies that choose; None: none, for free writing. Any command is played
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
        for name, value in (("instruction", instruction), ("check", check)):
            if value is not None:
                scalar(str, value, name)
        for name, flag in (("stateful", stateful), ("allow_unsafe", allow_unsafe)):
            scalar(bool, flag, name)
        if commands is not None and (isinstance(commands, str) or not all(isinstance(one, str) for one in commands)):
            raise BadInput(f"commands is {commands!r}; it must be a list of commands")
        if tree is not None and not os.fspath(tree):
            raise BadInput("tree is ''; it must be the name of a folder, or None for a small one made for trying")
        for name in limits or {}:
            choose("limit", name, [field.name for field in fields(Limits)])
        # A folder that is known for a dead process's, should this one be killed.
        self._made = LayerStore() if tree is None else None
        if self._made:
            tree = demo_tree.make(self._made.folder / "tree")
            instruction, check = instruction or demo_tree.INSTRUCTION, check or demo_tree.CHECK
            commands = demo_tree.COMMANDS if commands is None else commands
        self.instruction, self.check, self.max_steps = instruction or "", check, max_steps
        self.commands = None if commands is None else tuple(commands)
        options = {"tier": tier, "stateful": stateful, "allow_unsafe": allow_unsafe, "image": image}
        self._workspace = open_workspace(tree, readable, limits=Limits(**(limits or {})), **options)
        self._start = self._workspace.snapshot()

    def tasks(self, split: str) -> tuple[str, ...]:
        """The tree is the only task, in every split."""
        return (TASK,)

    def reset(self, task: str) -> Observation:
        """Go back to the tree as it was given; snapshots of the former session become invalid."""
        self._open()
        if task != TASK:
            raise BadInput(f"unknown task {task!r}: the only one is {TASK!r}")
        self._workspace.restore(self._start)
        self._session, self._state = _ShellSession(), ShellState()
        return self._observe()

    def step(self, action: str) -> Outcome:
        """Run one command."""
        self._running()
        require_text("the action", action)
        if self._state.done:
            raise RuntimeError("this session is over; call reset or restore before the next step")
        result = agent_format.played(self._workspace, action)
        handed_in, steps = agent_format.submission(result), self._state.steps + 1
        truncated = handed_in is None and steps >= self.max_steps
        done = handed_in is not None or truncated
        self._state = ShellState(agent_format.shown(result), steps, done)
        won = done and self._checked()
        info: dict[str, Any] = {"won": won, "truncated": truncated, "task_type": "shell", "tier": self._workspace.tier.name}
        if handed_in is not None:
            info["submission"] = handed_in
        return Outcome(self._observe(), float(won), done, MappingProxyType(info))

    def state_key(self) -> Hashable:
        """Identity of the state: what was read and done, and the digest of the tree and /tmp."""
        self._running()
        return (self._state, self._workspace.digest())

    def _checked(self) -> bool:
        """Whether the check succeeds on the tree, with nothing else of the session's."""
        return self.check is not None and self._workspace.judge(("bash", "-c", self.check)).code == 0

    def _observe(self) -> Observation:
        actions = () if self._state.done and self.commands is not None else self.commands
        return Observation(self._state.text, actions, self.instruction, self._state.steps)
