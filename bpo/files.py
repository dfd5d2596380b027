"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bpo.errors import BadInput


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
    """Write `path` so that another process sees the old file or the whole new one, never a part of it; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        _open_to_others(temporary, 0o666)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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
def published(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` (in place of what was there) when the block ends without an exception."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".tmp-"))
    try:
        yield temporary
        _open_to_others(temporary, 0o777)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextlib.contextmanager
def locked(path: Path, busy: str = "") -> Iterator[None]:
    """Hold `path` against other processes; a process that dies lets go of it.

    busy   what BadInput says at once where another process holds it; without it, this one waits
    """
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise BadInput(busy) from None
        yield
