"""Where derived files that may be deleted at any time are kept, and what their names are made of (docs/caches.md)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Options of sandboxes and policies whose values are files or folders.
PLACES = ("data", "model", "repos", "rows", "tree")


def cache_dir(*parts: str) -> Path:
    """Return the folder `parts` of the cache, made if absent: under $BPO_CACHE, else under ~/.cache/bpo."""
    root = os.environ.get("BPO_CACHE") or Path.home() / ".cache" / "bpo"
    folder = Path(root).expanduser().joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


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
    named = {}
    for name in PLACES:
        value = options.get(name)
        if isinstance(value, str | os.PathLike):
            place = os.path.expanduser(os.path.expandvars(os.fspath(value)))
            if os.path.exists(place):
                named[name] = files_of(place)
    return key_of(named) if named else ""
