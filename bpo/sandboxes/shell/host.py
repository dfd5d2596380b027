"""What this host has for boxes: programs, system folders, and who may read what."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
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

GIT = "[user]\n\tname = agent\n\temail = agent@localhost\n[init]\n\tdefaultBranch = main\n"
# Where packages that do not come with Python are, in every Python's library.
PACKAGES = ("site-packages", "dist-packages")
# Links that the kernel follows on one way.
LINKS = 40


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


@dataclass(frozen=True)
class Shown:
    """Folders that boxes may read, and folders in them or in the system's that they see as empty.

    places  (the folder without links, where a box sees it): a folder that is reached through a link is seen at both paths,
            and a program in /tmp that is a link at the link's
    links   (where it is, what it says), on the way to programs
    """

    places: tuple[tuple[str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders themselves."""
        return tuple(dict.fromkeys(real for real, _ in self.places if os.path.isdir(real)))


def shown(paths: Sequence[str | os.PathLike], hidden: Sequence[str | os.PathLike] = ()) -> Shown:
    """What boxes see of these folders; of a program, the links that lead to it. BadInput for what is neither or too much."""
    places: list[tuple[str, str]] = []
    ways: dict[str, str] = {}
    for path in paths:
        if os.path.isfile(path):
            ways |= links(path)
            continue
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            raise BadInput(f"{os.fspath(path)!r} cannot be shown to a box: it is no folder")
        if real == "/" or real in ("/proc", "/dev", "/sys", "/root", "/home", "/tmp", "/etc"):
            raise BadInput(
                f"{os.fspath(path)!r} cannot be shown to a box: it holds more than the box may read; name a folder in it"
            )
        places += [(real, real), (real, os.path.abspath(path))]
    masked = tuple(dict.fromkeys(os.path.realpath(path) for path in hidden if os.path.isdir(path)))
    seen = [*(place for _, place in places), *SYSTEM]
    apart = {link: target for link, target in ways.items() if not any(link.startswith(one + os.sep) for one in seen)}
    # A link in /tmp would become a part of the state: there, the folder or program itself is seen under the link's name.
    kept = tuple((link, target) for link, target in apart.items() if not link.startswith("/tmp/"))
    places += [(os.path.realpath(link), link) for link in apart if link.startswith("/tmp/") and os.path.exists(link)]
    return Shown(tuple(dict.fromkeys(places)), masked, kept)


def doors(places: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Sockets and pipes of the host's in these places, and where boxes see them: whoever listens there could be spoken to.

    A read-only mount does not close them. Those that are made later are not found.
    """
    found = []
    for real, seen in places:
        waiting = [(real, seen)] if os.path.isdir(real) else []
        while waiting:
            folder, shown_as = waiting.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue  # nobody can look in, or it has gone
            for entry in entries:
                # By the kind that the folder tells: no file is looked at but those of another kind.
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, f"{shown_as}/{entry.name}"))
                elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                    found.append((entry.path, f"{shown_as}/{entry.name}"))
    return tuple(dict.fromkeys(found))


def parts(path: str, hidden: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """What of a folder is left without the hidden ones: (path, whether with all that is in it)."""
    if path in hidden:
        return
    if not any(one.startswith(path.rstrip("/") + "/") for one in hidden):
        yield path, True
        return
    yield path, False
    for name in os.listdir(path):
        each = os.path.join(path, name)
        if not os.path.islink(each):
            yield from parts(each, hidden)


def open_to(path: str | os.PathLike, user: int, group: int) -> bool:
    """Whether a user may search every folder on the way to `path` and read it itself."""
    real = Path(os.path.realpath(path))
    return all(_may(folder, user, group, stat.S_IXOTH) for folder in real.parents) and _may(real, user, group, stat.S_IROTH)


def _may(path: Path, user: int, group: int, right: int) -> bool:
    info = path.stat()
    shift = 6 if info.st_uid == user else 3 if info.st_gid == group else 0
    return bool(info.st_mode & (right << shift))


@dataclass(frozen=True)
class Interpreter:
    """A Python without anything that was installed into it: its program, the folders that it needs, and those to be hidden."""

    program: str
    folders: tuple[str, ...]
    hidden: tuple[str, ...]


def interpreter(program: str | os.PathLike | None = None) -> Interpreter:
    """The Python behind a program (this process's, where none is named), however many links and environments lead to it."""
    path = Path(os.path.realpath(program or sys.executable))
    config = Path(program or sys.executable).parent.parent / "pyvenv.cfg"
    if config.is_file() and (home := re.search(r"^home *= *(.*)$", config.read_text(), re.MULTILINE)):
        # An environment may hold a copy of the program, and not a link to it.
        names = (path.name, f"python{sys.version_info[0]}", "python")
        path = next((Path(home[1].strip(), name) for name in names if Path(home[1].strip(), name).exists()), path)
        path = Path(os.path.realpath(path))
    root = path.parent.parent
    folders = tuple(str(root / name) for name in ("bin", "lib", "lib64") if (root / name).is_dir() and not _of_system(root))
    return Interpreter(str(path), folders, installed(str(root)))


@cache
def installed(root: str) -> tuple[str, ...]:
    """Folders of packages that have been installed into the Pythons below a folder, and below the system's."""
    found = []
    for top in dict.fromkeys((root, *(path for path, link in system() if link is None))):
        for folder, names, _ in os.walk(top):
            here = [name for name in names if name in PACKAGES]
            found += [os.path.join(folder, name) for name in here]
            names[:] = [name for name in names if name not in PACKAGES]
    return tuple(dict.fromkeys(found))


def links(path: str | os.PathLike) -> dict[str, str]:
    """Every link on the way to a path, in the order of following: where it is, and what it says."""
    found: dict[str, str] = {}
    left, at = Path(os.path.abspath(path)).parts[1:], "/"
    while left and len(found) < LINKS:
        each, left = os.path.join(at, left[0]), left[1:]
        if not os.path.islink(each) or each in found:
            at = each
            continue
        found[each] = os.readlink(each)
        left, at = (*Path(os.path.normpath(os.path.join(at, found[each]))).parts[1:], *left), "/"
    return found


def identity(folder: Path) -> Path:
    """Write the settings by which git knows who commits in a box; what a tree or a command says of it counts more."""
    path = folder / "_gitconfig"
    path.write_text(GIT)
    return path


def _of_system(path: str | os.PathLike) -> bool:
    real = os.path.realpath(path)
    return any(real == one or real.startswith(one + os.sep) for one in map(os.path.realpath, SYSTEM))
