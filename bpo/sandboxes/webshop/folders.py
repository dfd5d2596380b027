"""Folders of arrays that say what they hold, and are mapped into memory instead of read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bpo.errors import BadInput
from bpo.files import write_json

HEAD = "head.json"


def write_head(folder: Path, kind: str, version: int, facts: Mapping[str, Any]) -> None:
    """Say what the folder holds, so that `mapped` knows it again."""
    write_json(folder / HEAD, {**facts, "kind": kind, "format": version})


def mapped(folder: Path, kind: str, version: int, names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts of a folder and its arrays by name, mapped read-only.

    BadInput where the folder is of another kind or format version, incomplete or damaged.
    """
    folder = Path(folder)
    try:
        head = json.loads((folder / HEAD).read_text())
        found = (head.get("kind"), head.get("format"))
    except (OSError, ValueError, AttributeError):
        raise BadInput(f"{folder} holds no {kind}") from None
    if found != (kind, version):
        raise BadInput(
            f"{folder} holds a {found[0]} of format {found[1]}; wanted is a {kind} of format {version}: build it again"
        )
    try:
        # A plain view, because slicing a numpy.memmap is ten times slower than slicing an array.
        return head, {name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in names}
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"the {kind} in {folder} is damaged ({error}): build it again") from None
