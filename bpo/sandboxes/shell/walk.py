"""Trees that somebody else has made, and may still be changing: walked by descriptors, however deep they are.

No name is followed through a link, and no path is put together, so that neither a folder swapped for a link nor a path that is
longer than the kernel takes leads anywhere else.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Folders that are held open on the way down; below them, the way up is the folder's own "..".
HELD = 48


class Moved(OSError):
    """A folder was moved while the walk was in it."""


class Walk:
    """A place in a tree. Rights that a folder lacks for its owner are given while the walk is in it, then taken back."""

    def __init__(self, root: str | os.PathLike):
        self._fds: list[int] = []
        # Device, inode, and the mode to give back, of every folder on the way.
        self._marks: list[tuple[int, int, int | None]] = []
        self._down(os.fspath(root), None)

    @property
    def fd(self) -> int:
        """A descriptor of the folder that the walk is in."""
        return self._fds[-1]

    @property
    def depth(self) -> int:
        """Folders between the root and here."""
        return len(self._marks) - 1

    @property
    def mode(self) -> int:
        """Permissions of the folder, as they were before the walk gave any."""
        mode = self._marks[-1][2]
        return stat.S_IMODE(os.fstat(self.fd).st_mode) if mode is None else mode

    @mode.setter
    def mode(self, mode: int) -> None:
        """Permissions that the folder has when the walk has left it."""
        self._marks[-1] = (*self._marks[-1][:2], mode)

    def names(self) -> list[str]:
        """What the folder holds, sorted."""
        return sorted(os.listdir(self.fd))

    def stat(self, name: str) -> os.stat_result:
        """What is known of a name, itself if it is a link."""
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def enter(self, name: str) -> None:
        """Go into a folder; OSError where it is none."""
        self._down(name, self.fd)

    def leave(self) -> None:
        """Go back up; Moved where that leads elsewhere, and then the walk is at the deepest folder that it still holds."""
        _, _, mode = self._marks.pop()
        self._give_back(self.fd, mode)
        if len(self._marks) < HELD:
            os.close(self._fds.pop())
            return
        above = os.open("..", FOLDER, dir_fd=self.fd)
        info = os.fstat(above)
        os.close(self._fds.pop())
        self._fds.append(above)
        if (info.st_dev, info.st_ino) != self._marks[-1][:2]:
            os.close(self._fds.pop())
            del self._marks[len(self._fds) :]
            raise Moved("a folder was moved while it was walked")

    def close(self) -> None:
        """Let go of all folders."""
        with contextlib.suppress(OSError):
            while len(self._marks) > 1:
                self.leave()
        for fd, (_, _, mode) in zip(self._fds, self._marks, strict=False):
            self._give_back(fd, mode)
        for fd in self._fds:
            os.close(fd)
        self._fds, self._marks = [], []

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _down(self, name: str, above: int | None) -> None:
        fd, mode = opened(name, above)
        info = os.fstat(fd)
        if len(self._marks) >= HELD:
            os.close(self._fds.pop())
        self._fds.append(fd)
        self._marks.append((info.st_dev, info.st_ino, mode))

    @staticmethod
    def _give_back(fd: int, mode: int | None) -> None:
        if mode is not None:
            with contextlib.suppress(OSError):
                os.fchmod(fd, mode)


def opened(name: str, above: int | None) -> tuple[int, int | None]:
    """A descriptor of a folder that can be searched, and the mode that it had where rights had to be given."""
    need = stat.S_IRUSR | stat.S_IXUSR
    try:
        fd = os.open(name, FOLDER, dir_fd=above)
    except PermissionError:
        fd = None
    if fd is not None:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & need == need or os.geteuid() == 0:
            return fd, None
        os.close(fd)
    # A descriptor of the folder itself: what stands under its name may change meanwhile.
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        os.chmod(f"/proc/self/fd/{handle}", mode | stat.S_IRWXU)
        return os.open(f"/proc/self/fd/{handle}", FOLDER & ~os.O_NOFOLLOW), mode
    finally:
        os.close(handle)


def content(name: str, above: int) -> int:
    """A descriptor to read a file by, whatever its mode says; OSError for anything but a file."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(f"{name!r} is no file")
        path = f"/proc/self/fd/{handle}"
        try:
            return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError:
            os.chmod(path, stat.S_IMODE(info.st_mode) | stat.S_IRUSR)
            try:
                return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            finally:
                os.chmod(path, stat.S_IMODE(info.st_mode))
    finally:
        os.close(handle)


def size(folder: str | os.PathLike, most: float = math.inf) -> float:
    """Bytes on disk below `folder`, at least a page for everything that has a name; links are not followed.

    The walk ends where it has seen more than `most`. Infinite where a deep folder is moved to and fro meanwhile, which hides
    what is in it.
    """
    total = 0.0
    try:
        with Walk(folder) as walk:
            pending = [walk.names()]
            while pending and total <= most:
                if not pending[-1]:
                    pending.pop()
                    if pending:
                        walk.leave()
                    continue
                name = pending[-1].pop()
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                    info = walk.stat(name)
                    total += max(4096, 512 * info.st_blocks)
                    if stat.S_ISDIR(info.st_mode):
                        walk.enter(name)
                        pending.append([])
                        pending[-1] = walk.names()
    except Moved:
        return math.inf
    except FileNotFoundError:
        pass
    return total


def remove(folder: str | os.PathLike) -> None:
    """Remove a folder with all that is in it, whatever its permissions and depth; OSError where something stays."""
    path = Path(folder)
    with Walk(path) as walk:
        pending = [walk.names()]
        entered: list[str] = []
        while pending:
            if pending[-1]:
                name = pending[-1].pop()
                if stat.S_ISDIR(walk.stat(name).st_mode):
                    walk.enter(name)
                    entered.append(name)
                    _writable(walk.fd)
                    pending.append(walk.names())
                else:
                    _writable(walk.fd)
                    os.unlink(name, dir_fd=walk.fd)
                continue
            pending.pop()
            if pending:
                walk.leave()
                _writable(walk.fd)
                os.rmdir(entered.pop(), dir_fd=walk.fd)
    os.rmdir(path)


def _writable(fd: int) -> None:
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(fd, mode | stat.S_IRWXU)
