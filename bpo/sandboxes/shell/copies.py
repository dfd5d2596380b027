"""The tiers "landlock" and "copy": every box that runs is a copy of the whole tree, confined by Landlock or by nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bpo.sandboxes.shell import host, landlock_runner, syscalls, walk
from bpo.sandboxes.shell.bubblewrap import LIMITED
from bpo.sandboxes.shell.launch import Failure, Process
from bpo.sandboxes.shell.layers import Entry, compared
from bpo.sandboxes.shell.limits import ARGUMENT, Limits, Result
from bpo.sandboxes.shell.store import Layer, LayerStore, may_change_user
from bpo.sandboxes.shell.walk import Walk, size

TREE, TMP = "u", "s"
CHUNK = 2**20
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class CopyTier:
    """How boxes of one base are kept and run as copies; see `workspace.Tier`.

    A confined command has no sockets but pairs of its own, and no /proc. A box's tree lies at the path of its copy, and its
    /tmp is $TMPDIR beside it; in what a command prints, both are written as in the other tiers.
    """

    def __init__(self, store: LayerStore, base: Path, shown: host.Shown, folder: str, confined: bool):
        self.store, self.base, self.folder, self.confined = store, base, folder, confined
        self.name = "landlock" if confined else "copy"
        number = landlock_runner.version()
        self.origin = f"Landlock {number}" if confined else "no confinement"
        self.network = "none" if confined else "open"
        self.filter = syscalls.compiled(self.name) if confined else None
        self._empty = store.make()
        self._identity = host.identity(store.folder)
        folders = [*(path for path, _ in host.system()), *host.ETC, *shown.folders, str(self._identity)]
        seen = [part for path in folders for part in host.parts(path, shown.hidden)]
        self._readable, self._listed = ([path for path, whole in seen if whole is kind] for kind in (True, False))

    def open(self, below: Layer | None, scratch: bool = True) -> Layer:
        """A copy of what is below, to write in; nothing stands on anything else."""
        layer = Layer(self.store.make(), None)
        sources = (self.base, self._empty) if below is None else (below.folder / TREE, below.folder / TMP)
        sources = sources if scratch else (sources[0], self._empty)
        for source, part in zip(sources, (TREE, TMP), strict=True):
            copy(source, layer.folder / part, self.store)
        return layer

    def changed(self, layer: Layer) -> bool:
        """A copy that has been run in may differ in anything."""
        return True

    def execute(
        self, layer: Layer, command: Sequence[str], limits: Limits, variables: Mapping[str, str], stdin: bytes
    ) -> Result:
        """Run a command in a copy that nothing was made from."""
        tree, tmp = layer.folder / TREE, layer.folder / TMP
        before = size(layer.folder)
        reading, writing = os.pipe()
        try:
            orders = {
                "command": list(command),
                "confined": self.confined,
                "folder": str(tree),
                "group": self.store.group,
                "limits": self._rlimits(limits),
                "asked": syscalls.asked() if self.filter else {},
                "filter": (self.filter or b"").hex(),
                "listed": self._listed,
                "readable": self._readable,
                "status": writing,
                "user": self.store.user,
                "variables": {
                    **variables,
                    "GIT_CONFIG_SYSTEM": str(self._identity),
                    "HOME": str(tmp),
                    "TMPDIR": str(tmp),
                },
                "writable": [str(tree), str(tmp), *DEVICES],
            }
            told = json.dumps(orders)
            if len(told) >= ARGUMENT:  # the command fits, what is told of it beside does not
                return Result(126, f"bash: Argument list too long ({len(told)} bytes)\n", "exit", 0.0)
            arguments = [sys.executable, "-I", "-S", landlock_runner.__file__, told]
            process = Process(arguments, stdin, (writing,), end=_end)
            written = lambda most: size(layer.folder, before + most) - before  # noqa: E731 - read while the command runs
            result = process.run(limits, written, layer.folder)
            os.set_blocking(reading, False)
            with contextlib.suppress(BlockingIOError):
                if problem := os.read(reading, 4096).decode(errors="replace"):
                    raise Failure(f"the box could not be set up: {problem}")
        finally:
            os.close(reading)
            os.close(writing)
        raw = (result.raw or b"").replace(os.fsencode(tree), self.folder.encode()).replace(os.fsencode(tmp), b"/tmp")
        return Result(result.code, raw.decode(errors="replace"), result.ended, result.seconds, raw)

    def _rlimits(self, limits: Limits) -> dict[str, int]:
        # The kernel counts all processes of the user here, not only the box's.
        others = sum(_owned(pid, self.store.user) for pid in os.listdir("/proc") if pid.isdecimal())
        return {
            "RLIMIT_NPROC": others + limits.processes,
            "RLIMIT_AS": int(limits.memory),
            "RLIMIT_FSIZE": int(limits.disk),
            **{f"RLIMIT_{name.upper()}": value for name, value in LIMITED.items()},
        }

    def changes(self, layer: Layer | None) -> dict[str, Entry | None]:
        """What differs between a copy and the base."""
        return {} if layer is None else compared(layer.folder / TREE, self.base)

    def scratch(self, layer: Layer | None) -> dict[str, Entry | None]:
        """What lies in the folder that stands for /tmp."""
        return {} if layer is None else compared(layer.folder / TMP, self._empty)

    def close(self) -> None:
        """Remove all that lies on disk."""
        self.store.close()


def copy(source: Path, target: Path, store: LayerStore) -> None:
    """Copy a tree with everything but its owner, who is the boxes' user; shares blocks where the file system can."""
    arguments = ["cp", "-a", "--reflink=auto", "-T", "--", str(source), str(target)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    owner = f"{store.user}:{store.group}"
    changed = not done.returncode and may_change_user()
    if changed:
        done = subprocess.run(["chown", "-R", "-h", owner, str(target)], capture_output=True, text=True, check=False)
    if done.returncode:
        # Folders without rights, or so deep that no path names them.
        if target.is_dir():
            walk.remove(target)
        os.mkdir(target)
        os.chown(target, store.user, store.group)
        with Walk(source) as here, Walk(target) as there:
            _copied(here, there, store)


def _copied(here: Walk, there: Walk, store: LayerStore) -> None:
    """Copy a tree by descriptors; a file with two names becomes two."""
    pending = [here.names()]
    while pending:
        if not pending[-1]:
            pending.pop()
            there.mode = here.mode
            if pending:
                here.leave()
                there.leave()
            continue
        name = pending[-1].pop()
        info = here.stat(name)
        if stat.S_ISDIR(info.st_mode):
            os.mkdir(name, dir_fd=there.fd)
            here.enter(name)
            there.enter(name)
            pending.append(here.names())
        elif stat.S_ISLNK(info.st_mode):
            os.symlink(os.readlink(name, dir_fd=here.fd), name, dir_fd=there.fd)
        elif stat.S_ISREG(info.st_mode):
            with (
                open(walk.content(name, here.fd), "rb") as reading,
                open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=there.fd), "wb") as writing,
            ):
                while chunk := reading.read(CHUNK):
                    writing.write(chunk)
                os.fchmod(writing.fileno(), stat.S_IMODE(info.st_mode))
        elif stat.S_ISFIFO(info.st_mode):
            os.mkfifo(name, stat.S_IMODE(info.st_mode), dir_fd=there.fd)
        else:
            continue
        if stat.S_ISDIR(info.st_mode):
            os.fchown(there.fd, store.user, store.group)
        else:
            os.chown(name, store.user, store.group, dir_fd=there.fd, follow_symlinks=False)


def _end(pid: int) -> None:
    """Ask the runner to end all that it watches, itself last."""
    os.kill(pid, signal.SIGTERM)


def _owned(pid: str, user: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == user
    except OSError:
        return False
