"""Where derived files that may be deleted at any time are kept, and what their names are made of (docs/caches.md)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bpo.errors import BadInput
from bpo.sealed import digest_of

ADVICE = "set the environment variable BPO_CACHE to a folder that can be written to"
# Options of sandboxes and policies whose values are files or folders.
PLACES = ("data", "model", "repos", "rows", "tree")


def cache_dir(*parts: str) -> Path:
    """Return the folder `parts` of the cache, made if absent: under $BPO_CACHE, else under ~/.cache/bpo."""
    folder = _root().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder {folder} cannot be made ({error.strerror}); {ADVICE}") from None
    return folder


def check_cache() -> None:
    """BadInput where the cache is no folder that can be written to; makes nothing."""
    folder = _root().absolute()
    there = next(parent for parent in (folder, *folder.parents) if os.path.lexists(parent))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BadInput(f"the cache {folder} cannot be used: {there} is no folder that can be written to; {ADVICE}")


def _root() -> Path:
    told = os.environ.get("BPO_CACHE")
    if told and "\0" in told:
        raise BadInput(f"the environment variable BPO_CACHE is {told!r}; it must name a folder")
    try:
        return Path(told).expanduser() if told else Path.home() / ".cache" / "bpo"
    except RuntimeError as error:  # no home is known
        raise BadInput(f"the cache has no place ({error}); {ADVICE}") from None


def key_of(*inputs: Any) -> str:
    """24 hex digits of everything that a kept value depends on: plain values, lists and objects of them."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, allow_nan=False).encode()).hexdigest()[:24]


def files_of(place: str | os.PathLike) -> list[list[Any]]:
    """[name, bytes, times of change] of a file, or of every file below a folder: equal where nothing has been written.

    The time of the last change to the entry itself is among them, which copying and unpacking do not set back.
    """
    root = Path(place).resolve()
    paths = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else [root]
    found = []
    for path in paths:
        facts = path.stat()
        found.append([str(path), facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns])
    return found


def data_of(options: Mapping[str, Any]) -> str:
    """A key of the files that options name (see `PLACES` and `files_of`), "" where they name none."""
    named = {name: files_of(place) for name, place in _places(options).items()}
    return key_of(named) if named else ""


def contents_of(options: Mapping[str, Any]) -> dict[str, str]:
    """24 hex digits of names and contents of the files that each option names, clones of repositories aside.

    Every file is read; a second time only where something has been written since.
    """
    return {name: _content(place, key_of(files_of(place))) for name, place in _places(options).items() if name != "repos"}


@cache
def _content(place: str, written: str) -> str:
    root = Path(place).resolve()
    return key_of([[os.path.relpath(path, root), digest_of(Path(path))] for path, *_ in files_of(place)])


def _places(options: Mapping[str, Any]) -> dict[str, str]:
    """The files and folders that options name, as far as they are there."""
    found = {}
    for name in PLACES:
        value = options.get(name)
        if value and isinstance(value, str | os.PathLike):
            place = os.path.expanduser(os.path.expandvars(os.fspath(value)))
            if os.path.exists(place):
                found[name] = place
    return found
