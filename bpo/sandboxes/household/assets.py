"""The files that the alfworld package ships: domain, grammar, goal sentences and which object belongs where.

They are read without importing alfworld, whose import makes a folder in the user's home and sets $ALFWORLD_DATA.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

from bpo.errors import require


def domain() -> str:
    """The PDDL domain."""
    return _text("data/alfred.pddl")


def grammar(goal: str) -> str:
    """The text grammar with `goal` as the task sentence, without a full stop."""
    return _text("data/alfred.twl2").replace("UNKNOWN GOAL", goal)


@cache
def constants() -> ModuleType:
    """Constants of the game generator: what holds what, what can be heated, what opens."""
    return _module("gen/constants.py")


@cache
def goals() -> dict[str, dict]:
    """Long task type -> its goal in PDDL (`pddl`) and its sentences (`templates`)."""
    return _module("gen/goal_library.py").gdict


@cache
def _text(name: str) -> str:
    return (_folder() / name).read_text()


def _folder() -> Path:
    require("alfworld", "household")
    return Path(importlib.util.find_spec("alfworld").submodule_search_locations[0])


def _module(name: str) -> ModuleType:
    path = _folder() / name
    spec = importlib.util.spec_from_file_location(f"_bpo_alfworld_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
