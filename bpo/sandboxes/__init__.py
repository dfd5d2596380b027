"""The sandboxes by name. Each has a folder, with a record of what the rest of the library knows about it in its `spec.py`.

Another package registers one by the entry points "bpo.sandboxes".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bpo.errors import BadInput, choose, require
from bpo.param import REQUIRED
from bpo.plugins import Folders, Registry
from bpo.sandbox import Sandbox
from bpo.sandboxes.record import Demonstrate, SandboxSpec, Walk

SANDBOXES: Registry[SandboxSpec] = Registry("sandbox", "bpo.sandboxes", SandboxSpec, lambda: Folders("bpo.sandboxes", "spec"))


def spec(name: str) -> SandboxSpec:
    """The record of a sandbox; BadInput names an unknown one."""
    return SANDBOXES[choose("sandbox", name, SANDBOXES)]


def factory(name: str, options: Mapping[str, Any] | None = None) -> Callable[[], Sandbox]:
    """A function that makes sandboxes `name` with these options; BadInput names an unknown sandbox or an unusable option."""
    found, options = spec(name), options or {}
    for key, value in options.items():
        found.options[choose(f"option of sandbox {name}", key, found.options)].checked(value, f"{name}.{key}")
    for key, option in found.options.items():
        if option.default is REQUIRED and key not in options:
            raise BadInput(f"the sandbox {name!r} needs the option {key}: {option.meaning}")
    found.check(options)
    return partial(_made, found, options)


def demonstration(name: str, options: Mapping[str, Any] | None = None) -> Demonstrate:
    """What plays a sandbox for a warm start: (game, seed) -> winning actions; BadInput where nothing does."""
    found = spec(name)
    if found.demonstrations is None:
        raise BadInput(f"the sandbox {name!r} has no demonstrations, so its policy cannot be warm-started")
    play = found.demonstrations(options or {})
    if play is None:
        raise BadInput(
            f"{name} with these options cannot be demonstrated: leave warm_start out, and name a model that can "
            "write (policy: {kind: hf, model: ..., writing: free})"
        )
    return play


def fork_check(name: str, games: int, steps: int, data: str | None) -> Walk:
    """What `bpo check-fork` walks in; the step limit is raised so that random walks are not cut short."""
    if name in SANDBOXES:
        spec(name)  # says what is wrong with a package's own, where something is
    found = SANDBOXES[choose("sandbox to walk in", name, [key for key, one in SANDBOXES.working().items() if one.walk])]
    if data is not None and "data" not in found.options:
        raise BadInput(f"--data {data!r}: the sandbox {name!r} reads no data")
    _have(found)
    assert found.walk is not None
    return found.walk(games, steps, data)


def _made(found: SandboxSpec, options: Mapping[str, Any]) -> Sandbox:
    _have(found)
    return found.make(**options)


def _have(found: SandboxSpec) -> None:
    for package, extra in found.packages.items():
        require(package, extra)
