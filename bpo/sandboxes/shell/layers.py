"""What is in a stack of overlay layers, read from outside without a mount: merging, changes against the base, a digest.

An overlay layer holds changed files whole, a device file 0/0 where a name was removed (a whiteout), and the attribute
`user.overlay.opaque` on a folder that hides what lies below it. Links are never followed, and no tree is too deep.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bpo.sandboxes.shell import walk
from bpo.sandboxes.shell.walk import Walk

OPAQUE = "user.overlay.opaque"
# What lies deeper than so many folders is told by the digest of all of it, since the names alone would grow with the square.
DEEP = 40


@dataclass(frozen=True)
class Entry:
    """A name in a tree: its kind ("file", "folder", "link", "other"), permissions, digest of the content or link's target.

    A folder that lies as deep as DEEP has as its content the digest of all that is in it.
    """

    kind: str
    mode: int
    content: str


def merge(stack: Sequence[Path], into: Path) -> None:
    """Put a stack of layers, the topmost first, into one new layer that means the same on the same base.

    Files are linked, not copied: a layer that others stand on is never written to.
    """
    for layer in reversed(stack):
        with Walk(layer) as source, Walk(into) as target:
            _lay(source, target)


def _lay(source: Walk, target: Walk) -> None:
    pending, hiding = [source.names()], [False]
    while True:
        if not pending[-1]:
            # Times and attributes go along, the mark of an opaque folder among them.
            mode = source.mode
            shutil.copystat(source.fd, target.fd)
            if hiding.pop():
                os.setxattr(target.fd, OPAQUE, b"y")
            pending.pop()
            target.mode = mode
            if not pending:
                return
            source.leave()
            target.leave()
            continue
        name = pending[-1].pop()
        if not stat.S_ISDIR(source.stat(name).st_mode):
            _clear(target, name)
            os.link(name, name, src_dir_fd=source.fd, dst_dir_fd=target.fd, follow_symlinks=False)
            continue
        source.enter(name)
        there = _kind(target, name)
        hidden = there not in ("", "folder")
        if there and (hidden or _opaque(source.fd)):
            _clear(target, name)
            there = ""
        if not there:
            info = os.fstat(source.fd)
            os.mkdir(name, dir_fd=target.fd)
            os.chown(name, info.st_uid, info.st_gid, dir_fd=target.fd, follow_symlinks=False)
        target.enter(name)
        pending.append(source.names())
        hiding.append(hidden)


def _clear(target: Walk, name: str) -> None:
    kind = _kind(target, name)
    if kind == "folder":
        walk.remove(f"/proc/self/fd/{target.fd}/{name}")
    elif kind:
        os.unlink(name, dir_fd=target.fd)


def changes(layer: Path, base: Path) -> dict[str, Entry | None]:
    """What one layer changes in `base`: name -> what is there now, None where it was removed.

    A name that was written again with what the base has is no change. Of a removed folder only the folder itself is named.
    """
    return _compared(layer, base, whole=False)


def compared(tree: Path, base: Path | None) -> dict[str, Entry | None]:
    """What differs between a whole tree and `base`, in the same form; all that is in the tree where there is no base."""
    return _compared(tree, base, whole=True)


@dataclass
class _Level:
    """A folder that is being compared: names left, the base's names (None: no folder there), and how it is told.

    whole   whether the tree's version stands alone, so that what it lacks is removed
    prefix  of the names in it;  found  where they are told
    """

    left: list[str]
    here: set[str]
    below: set[str] | None
    whole: bool
    prefix: str
    found: dict[str, Entry | None] = field(default_factory=dict)


def _compared(tree: Path, base: Path | None, whole: bool) -> dict[str, Entry | None]:
    with ExitStack() as stack:
        here = stack.enter_context(Walk(tree))
        below = None if base is None else stack.enter_context(Walk(base))
        root: dict[str, Entry | None] = {}
        if below is not None and here.mode != below.mode:
            root["."] = Entry("folder", here.mode, "")
        levels = [_level(here, below, whole, "", root)]
        while True:
            level = levels[-1]
            if not level.left:
                levels.pop()
                if not levels:
                    return root
                here.leave()
                if level.below is not None:
                    below.leave()
                if level.found and level.found is not levels[-1].found:
                    name = level.prefix.removesuffix("/")
                    mode = entry_at(here, name).mode
                    levels[-1].found[f"{levels[-1].prefix}{name}"] = Entry("folder", mode, digest(level.found))
                continue
            _one(here, below, level, level.left.pop(), levels)


def _level(here: Walk, below: Walk | None, whole: bool, prefix: str, found: dict[str, Entry | None]) -> _Level:
    names = set(here.names())
    other = None if below is None else set(below.names())
    left = sorted(names | other if whole and other is not None else names, reverse=True)
    return _Level(left, names, other, whole, prefix, found)


def _one(here: Walk, below: Walk | None, level: _Level, name: str, levels: list[_Level]) -> None:
    """Compare one name, and go into it where it is a folder."""
    base = below if level.below is not None and name in level.below else None
    if name not in level.here or _whiteout(here, name):
        if base is not None:
            level.found[f"{level.prefix}{name}"] = None
        return
    now = entry_at(here, name)
    before = None if base is None else entry_at(base, name)
    if now != before:
        level.found[f"{level.prefix}{name}"] = now
    if now.kind != "folder":
        return
    here.enter(name)
    lower = base if before is not None and before.kind == "folder" else None
    if lower is not None:
        lower.enter(name)
    deep = len(levels) % DEEP == 0
    prefix, found = (f"{name}/", {}) if deep else (f"{level.prefix}{name}/", level.found)
    levels.append(_level(here, lower, level.whole or _opaque(here.fd), prefix, found))


def entry_at(place: Walk, name: str) -> Entry:
    """The entry of one name where a walk is."""
    info = place.stat(name)
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        return Entry("link", 0, os.readlink(name, dir_fd=place.fd))
    if stat.S_ISDIR(info.st_mode):
        return Entry("folder", mode, "")
    if stat.S_ISREG(info.st_mode):
        with open(walk.content(name, place.fd), "rb") as file:
            return Entry("file", mode, hashlib.file_digest(file, "sha256").hexdigest())
    return Entry("other", mode, str(stat.S_IFMT(info.st_mode)))


def digest(found: dict[str, Entry | None]) -> str:
    """Hex digits that are equal where the changes are."""
    lines = [f"{name!r} {found[name]}" for name in sorted(found)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _kind(place: Walk, name: str) -> str:
    """ "folder", "other", or nothing where there is no such name."""
    with contextlib.suppress(FileNotFoundError):
        return "folder" if stat.S_ISDIR(place.stat(name).st_mode) else "other"
    return ""


def _whiteout(place: Walk, name: str) -> bool:
    """Whether a name in a layer says that there is none."""
    info = place.stat(name)
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def _opaque(fd: int) -> bool:
    try:
        return os.getxattr(fd, OPAQUE) == b"y"
    except OSError:
        return False
