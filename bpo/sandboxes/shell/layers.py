"""What is in a stack of overlay layers, read from outside without a mount: merging, changes against the base, a digest.

An overlay layer holds changed files whole, a device file 0/0 where a name was removed (a whiteout), and the attribute
`user.overlay.opaque` on a folder that hides what lies below it. Links are never followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

OPAQUE = "user.overlay.opaque"


@dataclass(frozen=True)
class Entry:
    """A name in a tree: its kind ("file", "folder", "link", "other"), permissions, digest of the content or link's target."""

    kind: str
    mode: int
    content: str


def merge(stack: Sequence[Path], into: Path) -> None:
    """Put a stack of layers, the topmost first, into one new layer that means the same on the same base.

    Files are linked, not copied: a layer that others stand on is never written to.
    """
    for layer in reversed(stack):
        _lay(layer, into)


def _lay(source: Path, target: Path) -> None:
    with _readable(source), os.scandir(source) as entries:
        for entry in entries:
            path = target / entry.name
            if entry.is_dir(follow_symlinks=False):
                hidden = os.path.lexists(path) and not _folder(path)
                if hidden or _opaque(entry.path):
                    _clear(path)
                if not os.path.lexists(path):
                    os.mkdir(path)
                    info = entry.stat(follow_symlinks=False)
                    os.chown(path, info.st_uid, info.st_gid)
                _lay(Path(entry.path), path)
                if hidden:
                    os.setxattr(path, OPAQUE, b"y")
            else:
                _clear(path)
                os.link(entry.path, path, follow_symlinks=False)
    # Times and attributes go along, the mark of an opaque folder among them.
    shutil.copystat(source, target, follow_symlinks=False)


def _clear(path: Path) -> None:
    if _folder(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def changes(layer: Path, base: Path) -> dict[str, Entry | None]:
    """What one layer changes in `base`: name -> what is there now, None where it was removed.

    A name that was written again with what the base has is no change. Of a removed folder only the folder itself is named.
    """
    found = _root(layer, base)
    _compare(layer, base, False, "", found)
    return found


def compared(tree: Path, base: Path | None) -> dict[str, Entry | None]:
    """What differs between a whole tree and `base`, in the same form; all that is in the tree where there is no base."""
    found = _root(tree, base)
    _compare(tree, base, True, "", found)
    return found


def _root(tree: Path, base: Path | None) -> dict[str, Entry | None]:
    """The folder itself, as ".", where its permissions have changed."""
    now = entry(tree)
    return {} if base is None or now == entry(base) else {".": now}


def _compare(layer: Path, base: Path | None, whole: bool, prefix: str, found: dict[str, Entry | None]) -> None:
    """Compare one folder; `whole` where the layer's version stands alone, so that what it lacks is removed."""
    below = set(os.listdir(base)) if base is not None else set()
    with _readable(layer):
        here = set(os.listdir(layer))
    for name in sorted(here | below if whole else here):
        path, lower = layer / name, base / name if base is not None and name in below else None
        if name not in here or _whiteout(path):
            if lower is not None:
                found[f"{prefix}{name}"] = None
            continue
        now = entry(path)
        if lower is None or now != entry(lower):
            found[f"{prefix}{name}"] = now
        if now.kind == "folder":
            lower = lower if lower is not None and _folder(lower) else None
            _compare(path, lower, whole or _opaque(path), f"{prefix}{name}/", found)


def entry(path: Path) -> Entry:
    """The entry of one name."""
    info = os.lstat(path)
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        return Entry("link", 0, os.readlink(path))
    if stat.S_ISDIR(info.st_mode):
        return Entry("folder", mode, "")
    if stat.S_ISREG(info.st_mode):
        with _readable(path), open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return Entry("file", mode, hashlib.file_digest(file, "sha256").hexdigest())
    return Entry("other", mode, str(stat.S_IFMT(info.st_mode)))


def digest(found: dict[str, Entry | None]) -> str:
    """Hex digits that are equal where the changes are."""
    lines = [f"{name!r} {found[name]}" for name in sorted(found)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Give the owner of a name the rights to read it for a moment, where a command has taken them away."""
    need = os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK
    if os.access(path, need):
        yield
        return
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    os.chmod(path, mode | stat.S_IRWXU)
    try:
        yield
    finally:
        os.chmod(path, mode)


def _folder(path: Path) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _whiteout(path: Path) -> bool:
    """Whether a name in a layer says that there is none."""
    info = os.lstat(path)
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def _opaque(path: str | Path) -> bool:
    try:
        return os.getxattr(path, OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False
