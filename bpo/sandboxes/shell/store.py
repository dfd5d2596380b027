"""Folders that hold the layers of boxes, and what becomes of them when their process is gone."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import weakref
from pathlib import Path

PREFIX = "bpo-"
OWNER = "owner"
# The user that boxes run as where the host is root: "nobody" everywhere.
NOBODY = 65534


class Layer:
    """A folder with a part of a box's state; what lies under it is kept for as long as it is. Gone when nobody refers to it.

    `depth` counts the layers below, itself included. Once another layer or a snapshot stands on it, it is never written to.
    """

    def __init__(self, folder: Path, below: Layer | None):
        self.folder, self.below = folder, below
        self.depth = 1 + (below.depth if below else 0)
        self.close = weakref.finalize(self, remove, folder)

    def stack(self) -> list[Layer]:
        """This layer and all below it, the topmost first."""
        found, layer = [], self
        while layer is not None:
            found.append(layer)
            layer = layer.below
        return found


class LayerStore:
    """A temporary folder of this process for the layers of boxes that stand on one base; removed on close and at exit.

    A lock on a file in it tells a living process from a dead one: see `leftovers`. Paths are short, since the kernel takes all
    layers of a mount in one page of text.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.user, self.group = (NOBODY, NOBODY) if may_become_nobody() else (os.geteuid(), os.getegid())
        lock = open(self.folder / OWNER, "w")  # noqa: SIM115 - it is held for as long as the store is
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.chown(self.folder, self.user, self.group)
        self._names = map(_short, itertools.count())
        self.close = weakref.finalize(self, _close, self.folder, lock, os.getpid())

    def make(self, *inside: str) -> Path:
        """A new folder that belongs to the boxes' user, with these folders in it."""
        folder = self.folder / next(self._names)
        for path in (folder, *(folder / name for name in inside)):
            os.mkdir(path, 0o755)
            os.chown(path, self.user, self.group)
        return folder


def may_become_nobody() -> bool:
    """Whether this process is root where there is a nobody; a user namespace of one user has none, and its root is a mask."""
    if os.geteuid() != 0:
        return False
    with open("/proc/self/uid_map") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    return any(first <= NOBODY < first + count for first, _, count in ranges)


def _short(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return digits[number] if number < 36 else _short(number // 36) + digits[number % 36]


def _close(folder: Path, lock, pid: int) -> None:
    # A child that was forked from the owner inherits this, and must leave the folder alone.
    if os.getpid() == pid:
        remove(folder)
        lock.close()


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, whatever its permissions; links are not followed."""

    def open_up(function, path, _):
        # A folder without rights for its owner (overlayfs makes such) hides what is in it.
        if os.path.islink(path):
            return
        for each in (os.path.dirname(path), path):
            try:
                os.chmod(each, 0o700)
            except OSError:
                continue
        try:
            if os.path.isdir(path) and function is not os.unlink:
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        except OSError:
            return

    shutil.rmtree(folder, onerror=open_up)


def leftovers(parent: Path | None = None) -> list[Path]:
    """Folders of stores whose process is gone; `remove` clears one away."""
    found = []
    for folder in sorted(Path(parent or tempfile.gettempdir()).glob(f"{PREFIX}*")):
        try:
            with open(folder / OWNER) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(folder)
        except OSError:
            # Not a store, another user's, or its process is alive.
            continue
    return found
