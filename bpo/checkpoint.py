"""Checkpoints: written whole or not at all with a digest, the last two are kept, a damaged one is one clear error."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpo.config import RunConfig
from bpo.errors import BadInput, choose
from bpo.provenance import code_fingerprint
from bpo.sealed import Damaged, read_sealed, write_sealed

KEEP = 2


def paths(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted(folder.glob("checkpoint-*.pt"))


def save(folder: Path, update: int, state: dict[str, Any]) -> Path:
    """Write the state after `update` updates atomically and remove all but the newest two."""
    import torch

    path, data = folder / f"checkpoint-{update:06d}.pt", io.BytesIO()
    torch.save(state, data)
    write_sealed(path, data.getbuffer())
    for old in paths(folder)[:-KEEP]:
        old.unlink()
    return path


def origin(config: RunConfig) -> dict[str, Any]:
    """What a checkpoint must say of the run that it belongs to: code, seed, and the configuration with all parameters."""
    parameters = json.loads(json.dumps(dict(config.recipe().parameters), allow_nan=False))
    return {
        "code": code_fingerprint(config),
        "hash": config.hash,
        "config": {**config.plain(), "parameters": parameters},
    }


def require_same(folder: Path, state: Mapping[str, Any], config: RunConfig) -> None:
    """Raise BadInput, naming a field and both values, unless `state` was taken by this configuration, seed and code."""
    begun, asked = state.get("origin", {}), origin(config)
    if begun == asked:
        return
    advice = "go on with what it was begun with, delete it, or name another --out folder"
    # The configuration first: code that another method reaches is another code.
    found = _difference(begun.get("config", asked["config"]), asked["config"])
    if found:
        name, before, now = found
        raise BadInput(f"{folder} was begun with {name} {before!r}, not {now!r}: {advice}")
    raise BadInput(f"{folder} was begun by other code ({begun.get('code', 'unknown')}, now {asked['code']}): {advice}")


def _difference(one: Any, other: Any, where: str = "") -> tuple[str, Any, Any] | None:
    """The first field in which two configurations differ, and what it is in each."""
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return None if one == other else (where, one, other)
    # The method first: with it, parameters differ too.
    for key in sorted({*one, *other}, key=lambda key: (key != "method", key)):
        found = _difference(one.get(key), other.get(key), f"{where}.{key}" if where else key)
        if found:
            return found
    return None


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
        data = read_sealed(path)
    except Damaged as error:
        raise Damaged(f"{error}; resume from the one before it with --checkpoint previous, or delete it") from None
    return torch.load(io.BytesIO(data), weights_only=True)
