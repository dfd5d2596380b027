"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write `path` so that another process sees the old file or the whole new one, never a part of it; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        # mkstemp makes files for their owner alone; this one is like any other.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Mapping[str, Any] | list) -> None:
    """Write JSON with sorted keys, so that equal results are equal files."""
    write_atomically(path, json.dumps(value, indent=1, sort_keys=True) + "\n")
