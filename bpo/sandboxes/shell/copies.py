"""Tiers B and C: every box that runs is a copy of the whole tree; B confines its commands by Landlock, C does not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bpo.sandboxes.shell import host, landlock_runner
from bpo.sandboxes.shell.launch import Failure, Process, size
from bpo.sandboxes.shell.layers import Entry, compared
from bpo.sandboxes.shell.limits import ARGUMENT, Limits, Result
from bpo.sandboxes.shell.store import Layer, LayerStore, may_become_nobody

TREE, TMP = "u", "s"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class CopyTier:
    """How boxes of one base are kept and run as copies; see `workspace.Tier`.

    Other processes can be seen, UDP is not blocked (TCP is, from Landlock 4 on). A box's tree lies at the path of its copy, and
    its /tmp is $TMPDIR beside it; in what a command prints, both are written as in the other tiers.
    """

    def __init__(self, store: LayerStore, base: Path, readable: Sequence[str], folder: str, confined: bool):
        self.store, self.base, self.readable, self.folder, self.confined = store, base, tuple(readable), folder, confined
        self.name = "B" if confined else "C"
        number = landlock_runner.version()
        self.origin = f"Landlock {number}" if confined else "no confinement"
        self.network = ("no TCP; UDP is open" if number >= 4 else "open") if confined else "open"
        self._empty = store.make()

    def open(self, below: Layer | None) -> Layer:
        """A copy of what is below, to write in; nothing stands on anything else."""
        layer = Layer(self.store.make(), None)
        sources = (self.base, self._empty) if below is None else (below.folder / TREE, below.folder / TMP)
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
                "readable": [*(path for path, _ in host.system()), *host.ETC, *self.readable],
                "status": writing,
                "user": self.store.user,
                "variables": {**variables, "HOME": str(tmp), "TMPDIR": str(tmp)},
                "writable": [str(tree), str(tmp), *DEVICES],
            }
            told = json.dumps(orders)
            if len(told) >= ARGUMENT:  # the command fits, what is told of it beside does not
                return Result(126, f"bash: Argument list too long ({len(told)} bytes)\n", "exit", 0.0)
            arguments = [sys.executable, "-I", "-S", landlock_runner.__file__, told]
            process = Process(arguments, stdin, (writing,), end=_end)
            written = lambda: size(layer.folder) - before  # noqa: E731 - read while the command runs
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
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": 1024,
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
    if done.returncode:
        raise Failure(f"{source} could not be copied: {done.stderr.strip()}")
    if may_become_nobody():
        subprocess.run(["chown", "-R", "-h", f"{store.user}:{store.group}", str(target)], check=True)


def _end(pid: int) -> None:
    """Ask the runner to end all that it watches, itself last."""
    os.kill(pid, signal.SIGTERM)


def _owned(pid: str, user: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == user
    except OSError:
        return False
