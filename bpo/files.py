"""Files that are there whole or not at all, and what is said where a disk does not take them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bpo.errors import BadInput

# What the names of unfinished files and folders begin with. Each is locked by the process that writes it, so that what a killed
# process has left can be told from what is still being written.
UNFINISHED = ".tmp-"


def expanded(folder: str | os.PathLike) -> Path:
    """The folder with ~ and $VARIABLES put in; BadInput where a variable is not set or no folder is there."""
    if not isinstance(folder, str | os.PathLike):
        raise BadInput(f"the data directory is {folder!r}; it must be the path of a folder")
    path = os.path.expanduser(os.path.expandvars(os.fspath(folder)))
    if "$" in path:
        raise BadInput(f"the data directory {os.fspath(folder)!r} names an environment variable that is not set")
    if not os.path.isdir(path):
        raise BadInput(f"the data directory {path!r} {'is no folder' if os.path.exists(path) else 'does not exist'}")
    return Path(path)


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write `path` so that another process sees the old file or the whole new one, never a part of it; makes its folder.

    What a link leads to is written, and the link stays. BadInput names file and disk where the disk is full, and what is there
    where it is no file.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise BadInput(f"{str(path)!r} is a folder or a device; it must be the name of a file")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished_file(path.parent) as (handle, temporary):
            content = memoryview(data.encode() if isinstance(data, str) else data)
            while content:
                content = content[os.write(handle, content) :]
            # A disk may say that it is full only now; and a name must not be there before its content is.
            os.fsync(handle)
            _open_to_others(temporary, 0o666)
            os.replace(temporary, path)


def append(path: Path, text: str) -> None:
    """Add text to a file's end, all of it or nothing; BadInput names file and disk where the disk is full."""
    with writing(path), path.open("ab", buffering=0) as file:
        size, content = file.tell(), memoryview(text.encode())
        try:
            while content:
                content = content[file.write(content) :]
        except OSError:
            file.truncate(size)
            raise


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
    """Where `path` is written: a full disk is BadInput that names disk and file, any other failure names the file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BadInput(
                f"{os.fspath(path)} cannot be written: the disk {_disk(path)} is full; what was there before is kept: "
                "free space on it, or name a folder on another disk"
            ) from None
        # The name of what is unfinished says nothing to anybody.
        if error.filename is None or os.path.basename(os.fspath(error.filename)).startswith(UNFINISHED):
            raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from None
        raise


def _disk(path: str | os.PathLike) -> str:
    """Where the disk is mounted that `path` lies on."""
    place = Path(os.path.realpath(path))
    while not os.path.ismount(place) and place != place.parent:
        place = place.parent
    return str(place)


def lines(text: str) -> list[str]:
    """The lines of a text: what newlines end, and what is left after the last.

    Unlike `splitlines`, which also cuts at separators (U+2028, form feeds, ...) that JSON and programs hold inside their lines.
    """
    *ended, rest = text.split("\n")
    return [*ended, rest] if rest else ended


def write_json(path: Path, value: Mapping[str, Any] | list) -> None:
    """Write JSON (see `to_json`) with sorted keys, so that equal results are equal files."""
    write_atomically(path, to_json(value, indent=1, sort_keys=True) + "\n")


def to_json(value: Any, **layout: Any) -> str:
    """The value as JSON that every reader accepts: NaN, which says that there is no value, becomes null.

    layout  as of `json.dumps`

    BadInput names the field that is infinite.
    """
    try:
        return json.dumps(value, allow_nan=False, **layout)
    except ValueError:
        return json.dumps(_without_nan(value, ""), allow_nan=False, **layout)


def _without_nan(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(entry, f"{where}.{key}" if where else str(key)) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry, f"{where}[{number}]") for number, entry in enumerate(value)]
    if isinstance(value, float) and math.isinf(value):
        raise BadInput(f"{where or 'the value'} is {value}; JSON has no such number")
    return None if isinstance(value, float) and math.isnan(value) else value


def _open_to_others(path: str | Path, mode: int) -> None:
    """Give `path` the rights of any other file; tempfile makes its own for their owner alone."""
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, mode & ~umask)


@contextlib.contextmanager
def unfinished_file(folder: Path, suffix: str = "") -> Iterator[tuple[int, Path]]:
    """A new file in `folder`, open for writing, that is gone after the block unless it was renamed.

    What killed processes have left there is deleted on the way.
    """
    clean(folder)
    with _held(lambda: tempfile.mkstemp(dir=folder, prefix=UNFINISHED, suffix=suffix)) as (handle, path):
        try:
            yield handle, path
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def published(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` (in place of what was there) when the block ends without an exception.

    BadInput names folder and disk where the disk is full.
    """

    def made() -> tuple[int, str]:
        while True:
            path = tempfile.mkdtemp(dir=folder.parent, prefix=UNFINISHED)
            with contextlib.suppress(FileNotFoundError):  # another process has cleaned it away before it could be locked
                return os.open(path, os.O_RDONLY), path

    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        clean(folder.parent)
        with _held(made) as (_, temporary):
            try:
                yield temporary
                _open_to_others(temporary, 0o777)
                if folder.exists():
                    # Out of the way in one step: a folder half deleted must not be taken for a whole one.
                    old = tempfile.mkdtemp(dir=folder.parent, prefix=UNFINISHED)
                    os.replace(folder, old)
                    os.replace(temporary, folder)
                    shutil.rmtree(old, ignore_errors=True)
                else:
                    os.replace(temporary, folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _held(make: Callable[[], tuple[int, str]]) -> Iterator[tuple[int, Path]]:
    """What `make` makes (handle, path), locked; made again where another process has cleaned it away before it was locked."""
    while True:
        handle, path = make()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        except OSError:  # a file system without locks: nobody can clean it away either
            break
        if os.path.exists(path):
            break
        os.close(handle)
    try:
        yield handle, Path(path)
    finally:
        os.close(handle)


def clean(folder: Path) -> None:
    """Delete the unfinished files and folders in `folder` that no process writes any more."""
    with os.scandir(folder) as entries:
        left = [Path(entry.path) for entry in entries if entry.name.startswith(UNFINISHED)]
    for path in left:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(handle)


@contextlib.contextmanager
def locked(path: Path, busy: str = "") -> Iterator[None]:
    """Hold `path` against other processes; a process that dies lets go of it.

    busy   what BadInput says at once where another process holds it; without it, this one waits
    """
    with writing(path), open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise BadInput(busy) from None
        yield
