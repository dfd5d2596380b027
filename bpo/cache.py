"""Where derived files that may be deleted at any time are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir(*parts: str) -> Path:
    """Return the folder `parts` of the cache, made if absent: under $BPO_CACHE, else under ~/.cache/bpo."""
    root = os.environ.get("BPO_CACHE") or Path.home() / ".cache" / "bpo"
    folder = Path(root).expanduser().joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
