"""What this host has for boxes: programs, system folders, and who may read what."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from bpo.errors import BadInput

# Searched after the search path, which for ordinary users leaves a part of it out.
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# The part of /etc that programs need and that holds no secrets.
ETC = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/python3",
)
# Inside a box; the same in every box, so that siblings print the same.
PATH = "/usr/local/bin:/usr/bin:/bin"
ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LESS": "-R",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "PIP_PROGRESS_BAR": "off",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TERM": "dumb",
    "TMPDIR": "/tmp",
    "TQDM_DISABLE": "1",
    "USER": "agent",
}


def program(name: str) -> str | None:
    """The full path of a program, None where there is none."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def environment(extra: dict[str, str] | None, paths: Sequence[str]) -> dict[str, str]:
    """Variables of a command: ours, then the caller's; `paths` are searched for programs before the system's."""
    return {**ENVIRONMENT, "PATH": ":".join([*paths, PATH]), **(extra or {})}


def system() -> Iterable[tuple[str, str | None]]:
    """System folders that are there: (path, None), or (path, target) where it is a link, as /bin is on most systems."""
    for path in SYSTEM:
        if os.path.islink(path):
            yield path, os.readlink(path)
        elif os.path.isdir(path):
            yield path, None


def readable(paths: Sequence[str | os.PathLike]) -> tuple[str, ...]:
    """Folders that boxes may read, as absolute paths without links; BadInput for what is no folder or holds the system."""
    found = []
    for path in paths:
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            raise BadInput(f"{os.fspath(path)!r} cannot be shown to a box: it is no folder")
        if real == "/" or real in ("/proc", "/dev", "/sys", "/root", "/home", "/tmp", "/etc"):
            raise BadInput(
                f"{os.fspath(path)!r} cannot be shown to a box: it holds more than the box may read; name a folder in it"
            )
        found.append(real)
    return tuple(dict.fromkeys(found))


def open_to(path: str | os.PathLike, user: int, group: int) -> bool:
    """Whether a user may search every folder on the way to `path` and read it itself."""
    real = Path(os.path.realpath(path))
    return all(_may(folder, user, group, stat.S_IXOTH) for folder in real.parents) and _may(real, user, group, stat.S_IROTH)


def _may(path: Path, user: int, group: int, right: int) -> bool:
    info = path.stat()
    shift = 6 if info.st_uid == user else 3 if info.st_gid == group else 0
    return bool(info.st_mode & (right << shift))


def interpreter() -> tuple[str, ...]:
    """Folders of the running Python that lie outside the system's, for boxes whose commands are to run it."""
    import sys

    folders = dict.fromkeys(os.path.realpath(path) for path in (sys.prefix, sys.base_prefix))
    system = [os.path.realpath(path) for path in SYSTEM]
    return tuple(path for path in folders if not any(path == s or path.startswith(s + os.sep) for s in system))
