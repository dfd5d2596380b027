"""A working tree in boxes: run commands, read and write files, take snapshots, fork."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Protocol

from bpo.errors import BadInput, counted
from bpo.sandbox import SnapshotError
from bpo.sandboxes.shell import host, layers, shells
from bpo.sandboxes.shell.launch import Failure
from bpo.sandboxes.shell.layers import Entry
from bpo.sandboxes.shell.limits import ARGUMENT, Limits, Result
from bpo.sandboxes.shell.store import Layer, LayerStore
from bpo.sandboxes.shell.walk import size

NOTHING: Mapping[str, bytes] = MappingProxyType({})
NOTHING_MORE: Mapping[str, str] = MappingProxyType({})
# Variables of whatever judges: Python takes no packages from the home, and no options from elsewhere.
JUDGED = MappingProxyType({"PYTHONNOUSERSITE": "1", "BASH_ENV": "", "ENV": ""})
# Names that a message spells out, and characters of a reason.
SEVERAL, LONGEST = 3, 300


class Tier(Protocol):
    """How the boxes of one base are kept and run.

    name     "overlay" (in namespaces), "landlock" (confined copies), "copy" (unconfined) or "container"
    origin   which program or kernel feature does it; network: what of the network a command reaches, in words
    folder   where a command sees the tree
    """

    name: str
    origin: str
    network: str
    folder: str
    store: LayerStore

    def open(self, below: Layer | None, scratch: bool = True) -> Layer: ...
    def changed(self, layer: Layer) -> bool: ...
    def execute(
        self, layer: Layer, command: Sequence[str], limits: Limits, variables: Mapping[str, str], stdin: bytes
    ) -> Result: ...
    def changes(self, layer: Layer | None) -> dict[str, Entry | None]: ...
    def scratch(self, layer: Layer | None) -> dict[str, Entry | None]: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class WorkspaceSnapshot:
    """A state of a tree: its topmost layer, and files that have been written but that no command has seen yet."""

    tier: Tier = field(repr=False)
    layer: Layer | None
    pending: Mapping[str, bytes]

    @property
    def size_bytes(self) -> int:
        """Bytes on disk of the topmost layer, and of the pending files in memory."""
        return sum(map(len, self.pending.values())) + (int(size(self.layer.folder)) if self.layer else 0)


@dataclass(frozen=True)
class Habits:
    """How commands are run: limits, variables, and whether the shell's own state is carried from one to the next."""

    limits: Limits = field(default_factory=Limits)
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(host.environment(None, ())))
    stateful: bool = False


class Workspace:
    """One state of a tree at a time, in a box; made by `tiers.open_workspace`.

    Commands see the tree at `folder`, and a /tmp of their own that belongs to the state. A snapshot refers to the state and
    costs nothing; whoever runs a command after it writes to a new layer. Not for use by two threads at once; forks are.
    """

    def __init__(self, tier: Tier, habits: Habits, family: set[int] | None = None):
        self._tier, self.habits = tier, habits
        self._below: Layer | None = None
        self._top: Layer | None = None
        self._pending = NOTHING
        self._family = set() if family is None else family
        self._number = next(_NUMBERS)
        self._family.add(self._number)

    @property
    def tier(self) -> Tier:
        """How boxes are kept and run here."""
        return self._tier

    @property
    def folder(self) -> str:
        """Where commands see the tree."""
        return self._tier.folder

    def run(self, command: str, seconds: float | None = None, stdin: bytes = b"") -> Result:
        """Run a bash command in the tree; `seconds` where the limit is not the usual one.

        Everything that the command has started is gone when this returns. Raises Failure if the box cannot be set up.
        """
        arguments = shells.carried(command) if self.habits.stateful else ("bash", "-c", command)
        return self.execute(arguments, seconds, stdin)

    def execute(self, arguments: Sequence[str], seconds: float | None = None, stdin: bytes = b"") -> Result:
        """Run a program with these arguments in the tree, without a shell.

        What no program can be given (a NUL, or an argument of more than 128 KiB) is answered as a shell would, by status 126.
        """
        self.settle()
        if problem := _ungivable(arguments):
            return Result(126, f"bash: {problem}\n", "exit", 0.0)
        limits = self.habits.limits if seconds is None else replace(self.habits.limits, seconds=seconds)
        return self._executed(arguments, limits, stdin)

    def judge(self, arguments: Sequence[str], seconds: float | None = None, stdin: bytes = b"") -> Result:
        """Run a program on the tree in a fork that is thrown away, with nothing of the session's but the tree.

        /tmp, which is the home, is empty, no shell state is carried, and Python takes no packages from the home. An answer that
        is longer than the limit on output is no answer, as for any command.
        """
        (fork,) = self.fork()
        try:
            fork.settle()
            fork.snapshot()
            fork._top = self._tier.open(fork._below, scratch=False)
            limits = self.habits.limits if seconds is None else replace(self.habits.limits, seconds=seconds)
            return fork._executed(arguments, limits, stdin, JUDGED)
        finally:
            fork.close()

    def write(self, path: str, content: bytes | str) -> None:
        """Write a file below the tree, with the folders above it, when the next command is run or `settle` is called."""
        self._open()
        data = content.encode(errors="surrogateescape") if isinstance(content, str) else bytes(content)
        self._pending = MappingProxyType({**self._pending, _inside(path): data})

    def read(self, path: str) -> bytes:
        """The content of a file below the tree; BadInput where there is none or it cannot be read."""
        self._open()
        name = _inside(path)
        if name in self._pending:
            return self._pending[name]
        # Read in a box: on the host, a link that a command has made could lead anywhere. A pipe would be waited for.
        self.settle()
        limits = replace(self.habits.limits, output=shells.encoded(self.habits.limits.disk))
        result = self._executed(("bash", "-c", shells.READ, "bash", name), limits, b"")
        if result.code:
            why = result.note or result.output.strip()
            raise BadInput(f"{path!r} cannot be read: {why[:LONGEST]}")
        return shells.decoded(result.output)

    def snapshot(self) -> WorkspaceSnapshot:
        """The present state; nothing is copied."""
        self._open()
        if self._top is not None and self._tier.changed(self._top):
            self._below, self._top = self._top, None
        return WorkspaceSnapshot(self._tier, self._below, self._pending)

    def restore(self, snapshot: WorkspaceSnapshot) -> None:
        """Go to a state of this workspace or of one that it was forked from or into; SnapshotError for any other."""
        self._open()
        if not isinstance(snapshot, WorkspaceSnapshot) or snapshot.tier is not self._tier:
            raise SnapshotError("this snapshot belongs to another workspace")
        self._below, self._top, self._pending = snapshot.layer, None, snapshot.pending

    def fork(self, n: int = 1) -> list[Workspace]:
        """`n` workspaces at the present state, independent of this one and of each other."""
        snapshot = self.snapshot()
        forks = [Workspace(self._tier, self.habits, self._family) for _ in range(counted("the number of forks", n))]
        for each in forks:
            each.restore(snapshot)
        return forks

    def changes(self) -> dict[str, Entry | None]:
        """What the state changes in the tree that it began with: name -> what is there now, None where it was removed."""
        self.settle()
        return self._tier.changes(self.snapshot().layer)

    def digest(self) -> str:
        """Identity of the state (tree and /tmp): names, kinds, permissions, contents, link targets; not times."""
        self.settle()
        layer = self.snapshot().layer
        return layers.digest(
            {f"/tmp/{name}": entry for name, entry in self._tier.scratch(layer).items()} | self._tier.changes(layer)
        )

    def close(self) -> None:
        """Let go of the state; with the last of its family the folder on disk goes. May be called twice."""
        self._below = self._top = None
        self._pending = NOTHING
        self._family.discard(self._number)
        if not self._family:
            self._tier.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        self._family.discard(self._number)

    def _open(self) -> None:
        if self._number not in self._family:
            raise SnapshotError("this workspace is closed")

    def _writable(self) -> Layer:
        self._open()
        if self._top is None:
            self._top = self._tier.open(self._below)
        return self._top

    def settle(self) -> None:
        """Let the box have the files that were written since the last command; BadInput where one cannot be written."""
        self._open()
        if not self._pending:
            return
        # Forgotten first, so that one that cannot be written is told once and does not stand in the way of what follows.
        pending, self._pending = self._pending, NOTHING
        for names in shells.batches(pending):
            arguments, stdin = shells.filled({name: pending[name] for name in names})
            result = self._executed(arguments, self.habits.limits, stdin)
            if result.code:
                more = f" or {len(names) - SEVERAL} more" if len(names) > SEVERAL else ""
                why = (result.note or result.output.strip())[:LONGEST]
                raise BadInput(f"{' or '.join(map(repr, names[:SEVERAL]))}{more} could not be written: {why}")

    def _executed(
        self, arguments: Sequence[str], limits: Limits, stdin: bytes, variables: Mapping[str, str] = NOTHING_MORE
    ) -> Result:
        """Run a program; where commands have brought the box into a state that none can be started in, that is the answer."""
        told = {**self.habits.variables, **variables}
        try:
            return self._tier.execute(self._writable(), arguments, limits, told, stdin)
        except (Failure, OSError) as error:
            # Whose fault it is, an untouched box tells.
            self._tier.execute(self._tier.open(None), ("true",), limits, told, b"")
            return Result(126, f"bash: {error}\n", "exit", 0.0)


_NUMBERS = itertools.count()


def _ungivable(arguments: Sequence[str]) -> str:
    """Why the kernel would not pass these arguments on; empty where it would."""
    if any("\0" in argument for argument in arguments):
        return "the command holds a NUL character"
    longest = max(len(argument.encode(errors="surrogateescape")) for argument in arguments)
    return f"Argument list too long ({longest} bytes in one command)" if longest >= ARGUMENT else ""


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
        raise BadInput(f"{path!r} must be the name of a file below the tree, without '..'")
    return str(Path(pure))
