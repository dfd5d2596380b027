"""Checkpoints: written whole or not at all, the last two are kept, a damaged one is one clear error."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

from bpo.errors import BadInput, choose

KEEP = 2


def paths(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted(folder.glob("checkpoint-*.pt"))


def save(folder: Path, update: int, state: dict[str, Any]) -> Path:
    """Write the state after `update` updates atomically and remove all but the newest two."""
    import torch

    path = folder / f"checkpoint-{update:06d}.pt"
    temporary = path.with_suffix(f".tmp{os.getpid()}")
    with temporary.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    for old in paths(folder)[:-KEEP]:
        old.unlink()
    return path


def find(folder: Path, which: str) -> Path | None:
    """The "latest" or the "previous" checkpoint of a run; None where there is none yet."""
    choose("checkpoint", which, ("latest", "previous"))
    found = paths(folder)
    index = {"latest": -1, "previous": -2}[which]
    if len(found) < -index:
        if which == "previous":
            raise BadInput(f"{folder} has no previous checkpoint ({len(found)} in all)")
        return None
    return found[index]


def load(folder: Path, which: str) -> dict[str, Any] | None:
    """The state in the "latest" or the "previous" checkpoint; None where there is none yet. BadInput for a damaged one."""
    path = find(folder, which)
    return None if path is None else read(path)


def read(path: Path) -> dict[str, Any]:
    """The state in one checkpoint file; BadInput where it cannot be read whole."""
    import torch

    try:
        return torch.load(path, weights_only=True)
    except (RuntimeError, EOFError, OSError, KeyError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile):
        advice = "resume from the one before it with --checkpoint previous, or delete it"
        raise BadInput(f"{path} is damaged and cannot be read ({path.stat().st_size} bytes); {advice}") from None
