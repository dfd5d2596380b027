"""What a game is, and the loader of the official games that users download."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bpo.errors import BadInput, choose
from bpo.files import expanded
from bpo.reading import STRICT, read_json, typed

if TYPE_CHECKING:
    from bpo.sandboxes.household.scene import Scene

# Short names as result tables print them, with the names of the ALFRED data set.
TASK_TYPES = {
    "pick": "pick_and_place_simple",
    "look": "look_at_obj_in_light",
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
    "pick2": "pick_two_obj_and_place",
}
_SHORT = {long: short for short, long in TASK_TYPES.items()}
_PLACE = re.compile(r"\(\s*receptacleAtLocation\s+([^?\s]\S*)\s", re.IGNORECASE)  # facts, not the goal's variables


@dataclass(frozen=True)
class GameText:
    """The three texts that define a game; equal texts are the same game."""

    domain: str
    grammar: str
    problem: str


@dataclass(frozen=True)
class _GameFile:
    __pydantic_config__: ClassVar = {**STRICT, "extra": "ignore"}

    pddl_domain: str
    grammar: str
    pddl_problem: str
    walkthrough: list[str] | None = None


@dataclass(frozen=True)
class Game:
    """A game with its facts: `scene` where it was generated, `walkthrough` (a winning play) where the file has one."""

    task: str
    task_type: str
    text: GameText
    scene: Scene | None = None
    walkthrough: tuple[str, ...] | None = None


def layout_hash(problem: str) -> str:
    """Name the room of a PDDL problem: a hash of its receptacles' ids, which say kind, number and (in real games) position."""
    return hash_receptacles(_PLACE.findall(problem))


def hash_receptacles(ids: Iterable[str]) -> str:
    """The layout hash of a room with these receptacles, in any order."""
    return hashlib.blake2b("\n".join(sorted(name.lower() for name in ids)).encode(), digest_size=8).hexdigest()


class GameFolder:
    """The official games under a folder laid out like $ALFWORLD_DATA: json_2.1.1/<split>/**/game.tw-pddl.

    The folder given may be that of `json_2.1.1`, or it, or one that holds the splits. A task id is the path of the game's
    folder from there, `valid_seen/look_at.../trial_...`. As in ALFWorld, games with movable receptacles or slices and games
    marked unsolvable are left out. `panel` is `valid_train` where the data has it. Nothing is ever written there.
    """

    def __init__(self, folder: str | os.PathLike):
        told = expanded(folder)
        root = told / "json_2.1.1" if (told / "json_2.1.1").is_dir() else told
        self.root = root
        self.splits = sorted(child.name for child in root.iterdir() if child.is_dir() and _has_game(child))
        if not self.splits:
            raise BadInput(
                f"the data directory {str(told)!r} holds no games (json_2.1.1/<split>/**/game.tw-pddl; see alfworld-download)"
            )

    def tasks(self, split: str) -> tuple[str, ...]:
        """Ids of a split's games in sorted order."""
        if split == "panel" and "valid_train" in self.splits:
            split = "valid_train"
        return _list_games(self.root, choose(f"split of the games in {self.root}:", split, self.splits))

    def game(self, task: str) -> Game:
        """Read a game; BadInput where the file is missing, is not JSON or lacks a key."""
        path = self.root / task / "game.tw-pddl"
        if task.partition("/")[0] not in self.splits or ".." in task.split("/"):
            raise BadInput(f"unknown task {task!r}: it should begin with one of {', '.join(self.splits)}")
        if not path.is_file():
            raise BadInput(f"unknown task {task!r}: there is no game file {path}")
        try:
            data = read_json(path)
        except BadInput as error:
            raise BadInput(f"the game file {path} cannot be read: {error}") from error
        missing = [key for key in ("pddl_domain", "grammar", "pddl_problem") if not isinstance(data, dict) or key not in data]
        if missing:
            raise BadInput(f"the game file {path} lacks {', '.join(map(repr, missing))}")
        typed(_GameFile, data, f"the game file {path}")
        text = GameText(data["pddl_domain"], data["grammar"], data["pddl_problem"])
        walkthrough = data.get("walkthrough")
        return Game(task, self._task_type(task, path), text, None, tuple(walkthrough) if walkthrough else None)

    def _task_type(self, task: str, path: Path) -> str:
        parts = [part.split("-")[0] for part in task.split("/")]
        found = next((_SHORT[part] for part in parts if part in _SHORT), None)
        if found is None:
            raise BadInput(f"the path of the game file {path} names none of the task types {', '.join(_SHORT)}")
        return found


def _has_game(folder: Path) -> bool:
    return next(folder.rglob("game.tw-pddl"), None) is not None


@lru_cache(maxsize=32)
def _list_games(root: Path, split: str) -> tuple[str, ...]:
    found = []
    for path in (root / split).rglob("game.tw-pddl"):
        name = path.parent.relative_to(root).as_posix()
        if "movable" not in name and "Sliced" not in name and b'"solvable": false' not in path.read_bytes():
            found.append(name)
    return tuple(sorted(found))
