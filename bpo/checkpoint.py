"""Checkpoints: written whole or not at all with a digest, the last two are kept, a damaged one is one clear error."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpo.cache import contents_of
from bpo.config import RunConfig
from bpo.errors import BadInput, choose, shown
from bpo.provenance import code_fingerprint, versions
from bpo.reading import from_yaml, read_text
from bpo.sealed import Damaged, read_sealed, write_sealed

KEEP = 2
CONFIG = "config.yaml"


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
    """What a checkpoint must say of its run: code, configuration with seed and all parameters, versions, files of data."""
    parameters = json.loads(json.dumps(dict(config.recipe().parameters), allow_nan=False))
    return {
        "code": code_fingerprint(config),
        "hash": config.hash,
        "config": {**config.plain(), "parameters": parameters},
        "versions": versions(),
        "data": contents_of({**config.sandbox_options, "model": config.policy.model}),
    }


def require_same(folder: Path, state: Mapping[str, Any], config: RunConfig) -> None:
    """Raise BadInput, naming what differs, unless `state` was taken by this configuration, seed and code, with these versions
    of packages and these data."""
    begun, asked = state.get("origin", {}), origin(config)
    if begun == asked:
        return
    advice = "go on with what it was begun with, delete it, or name another --out folder"
    # The configuration first: code that another method reaches is another code.
    found = _difference(begun.get("config", asked["config"]), asked["config"])
    if found:
        name, before, now = found
        raise BadInput(f"{folder} was begun with {name} {before!r}, not {now!r}: {advice}")
    if begun.get("code") != asked["code"]:
        raise BadInput(f"{folder} was begun by other code ({begun.get('code', 'unknown')}, now {asked['code']}): {advice}")
    # Checkpoints of earlier versions do not say these.
    if found := _difference(begun.get("versions", asked["versions"]), asked["versions"]):
        name, before, now = found
        raise BadInput(f"{folder} was begun with {name} {before or '(none)'}, not {now or '(none)'}: {advice}")
    if found := _difference(begun.get("data", asked["data"]), asked["data"]):
        raise BadInput(f"{folder} was begun with other files in {found[0]} than are there now: {advice}")


def require_own(folder: Path, config: RunConfig) -> None:
    """Raise BadInput where the config.yaml of a run's folder is not this configuration's, or cannot be read."""
    path = folder / CONFIG
    if not path.exists():
        return
    ways_out = "put the right one back, or delete it: a checkpoint knows its own configuration"
    try:
        told = from_yaml(read_text(path, "the configuration of a run"), str(path))
    except BadInput as error:
        raise BadInput(f"{error}; {ways_out}") from None
    begun = told.get("config") if isinstance(told, Mapping) else None
    if found := _difference(begun, config.plain()):
        name, before, now = found
        raise BadInput(f"{path} is of another run: {name or 'config'} is {shown(before)} there, not {shown(now)}; {ways_out}")


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
