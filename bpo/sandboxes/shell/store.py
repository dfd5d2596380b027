"""Folders that hold the layers of boxes, and what becomes of them when their process is gone."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import stat
import tempfile
import weakref
from pathlib import Path

from bpo.sandboxes.shell import walk

PREFIX = "bpo-"
OWNER = "owner"
# Where the host is root, every store has a user of its own, so that boxes have nothing to do with each other nor with the
# system's users: numbers from OWN on, by process, and this many of each. Where those do not exist: "nobody".
OWN, EACH = 1_000_000_000, 64
NOBODY = 65534


class Layer:
    """A folder with a part of a box's state; what lies under it is kept for as long as it is. Gone when nobody refers to it.

    `depth` counts the layers below, itself included. Once another layer or a snapshot stands on it, it is never written to.
    Without `scratch` a layer stands on the tree alone: its /tmp begins empty.
    """

    def __init__(self, folder: Path, below: Layer | None, scratch: bool = True):
        self.folder, self.below, self.scratch = folder, below, scratch
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
        self.user, self.group = _user()
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


def may_change_user() -> bool:
    """Whether this process is root where there are others; a user namespace of one user has none, and its root is a mask."""
    return os.geteuid() == 0 and _exists(NOBODY)


def _user() -> tuple[int, int]:
    """User and group of the boxes of a new store."""
    if not may_change_user():
        return os.geteuid(), os.getegid()
    own = OWN + os.getpid() * EACH + next(_STORES) % EACH
    return (own, own) if _exists(own) else (NOBODY, NOBODY)


def _exists(number: int) -> bool:
    """Whether a user and a group of this number can be had here."""
    found = []
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}") as file:
            ranges = [tuple(map(int, line.split())) for line in file]
        found.append(any(first <= number < first + count for first, _, count in ranges))
    return all(found)


_STORES = itertools.count()


def _short(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return digits[number] if number < 36 else _short(number // 36) + digits[number % 36]


def _close(folder: Path, lock, pid: int) -> None:
    # A child that was forked from the owner inherits this, and must leave the folder alone.
    if os.getpid() == pid:
        remove(folder)
        lock.close()


def remove(folder: Path) -> bool:
    """Remove a folder with all that is in it, as far as it goes; whether nothing has stayed."""
    try:
        walk.remove(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def leftovers(parent: Path | None = None) -> list[Path]:
    """Folders of stores whose process is gone; `remove` clears one away."""
    return [folder for folder in sorted(Path(parent or tempfile.gettempdir()).glob(f"{PREFIX}*")) if _left(folder)]


def _left(folder: Path) -> bool:
    """Whether a folder is a store of this user's whose process is gone; a pipe under the owner's name is not waited for."""
    try:
        with contextlib.closing(_Opened(folder / OWNER)) as lock:
            if not stat.S_ISREG(os.fstat(lock.fd).st_mode) or os.geteuid() not in (0, os.fstat(lock.fd).st_uid):
                return False
            fcntl.flock(lock.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:
        # Not a store, another user's, or its process is alive.
        return False


class _Opened:
    def __init__(self, path: Path):
        self.fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.fd)
