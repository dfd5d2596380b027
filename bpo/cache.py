"""Where derived files that may be deleted at any time are kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_dir(*parts: str) -> Path:
    """Return the folder `parts` of the cache, made if absent: under $BPO_CACHE, else under ~/.cache/bpo."""
    root = os.environ.get("BPO_CACHE") or Path.home() / ".cache" / "bpo"
    folder = Path(root).expanduser().joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that another process sees the old file or the whole new one, never a part of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
