"""Takes pins and upper bounds out of pyproject.toml, so that the newest dependencies are installed: for the weekly run."""

from __future__ import annotations

import re
from pathlib import Path

# Tools whose new versions change what they demand.
KEPT = ("ruff", "mypy")


def unpinned(text: str) -> str:
    """pyproject.toml with `a==1` as `a>=1` and `a>=1,<2` as `a>=1`, but for KEPT."""

    def looser(match: re.Match) -> str:
        name, extras, version, marker = match.groups(default="")
        return match[0] if name in KEPT else f'"{name}{extras}>={version}{marker}"'

    return re.sub(r'"([a-zA-Z0-9_.-]+)(\[[\w,]+\])?(?:==|>=)([\w.]+)(?:,<[\w.]+)?(;[^"]*)?"', looser, text)


if __name__ == "__main__":
    path = Path("pyproject.toml")
    path.write_text(unpinned(path.read_text()))
