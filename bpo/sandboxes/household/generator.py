"""Makes games of all six task types from the files that the alfworld package ships: no download, any number, all solvable.

A task id such as `small/train/000123` is its own recipe: the same id is the same game in every process. Types take turns, so
every split has equal shares. Training and held-out games never coincide: a game belongs to one side by the hash of its content.

    train         100,000 games on the layouts of training
    panel         1,000 fresh games of the same distribution, for learning curves and any tuning
    valid_seen    1,000 further games on those layouts
    valid_unseen  1,000 games on layouts that training never shows
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from functools import lru_cache

from bpo.errors import BadInput, choose
from bpo.sandboxes.household import assets
from bpo.sandboxes.household.games import TASK_TYPES, Game, GameText
from bpo.sandboxes.household.layouts import (
    DIFFICULTIES,
    LAMP_HOLDERS,
    ROOMS,
    VIA,
    Difficulty,
    Layout,
    choices,
    layouts,
    receptacle_ids,
    rooms_for,
)
from bpo.sandboxes.household.scene import Item, Receptacle, Scene

SPLITS = {"train": 100_000, "panel": 1_000, "valid_seen": 1_000, "valid_unseen": 1_000}
_HELD_OUT = 16  # one game in so many belongs to the held-out splits


class TaskIds(Sequence[str]):
    """The ids of a split, made when asked for; behaves like a tuple of strings."""

    def __init__(self, prefix: str, count: int):
        self._prefix, self._numbers = prefix, range(count)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return tuple(f"{self._prefix}/{number:06d}" for number in self._numbers[index])
        return f"{self._prefix}/{self._numbers[index]:06d}"

    def __contains__(self, task: object) -> bool:
        head, _, number = str(task).rpartition("/")
        return head == self._prefix and len(number) == 6 and number.isdigit() and int(number) in self._numbers

    def __repr__(self) -> str:
        return f"TaskIds({self._prefix!r}, {len(self)})"


def task_ids(difficulty: str, split: str) -> TaskIds:
    """The fixed, ordered ids of a split."""
    choose("difficulty", difficulty, DIFFICULTIES)
    return TaskIds(f"{difficulty}/{split}", SPLITS[choose("split", split, SPLITS)])


@lru_cache(maxsize=256)
def generate(task: str) -> Game:
    """The game of a task id; BadInput if there is no such id."""
    parts = task.split("/")
    if len(parts) != 3 or parts[0] not in DIFFICULTIES or parts[1] not in SPLITS or task not in task_ids(*parts[:2]):
        raise BadInput(f"unknown task {task!r}: ids look like 'small/train/000123' (splits: {', '.join(SPLITS)})")
    difficulty, split, number = parts
    task_type = list(TASK_TYPES)[int(number) % len(TASK_TYPES)]
    rng = random.Random(f"household/{task}")
    for _ in range(10_000):
        room = rng.choice(rooms_for(task_type))
        layout = rng.choice(layouts(difficulty, room)[split == "valid_unseen"])
        scene = _scene(rng, DIFFICULTIES[difficulty], room, layout, task_type)
        text = _text(scene)
        if _fits(scene, DIFFICULTIES[difficulty]) and _is_held_out(text) == (split != "train"):
            return Game(task, task_type, text, scene)
    raise RuntimeError(f"no game found for {task!r}")  # the layouts are drawn so that this does not happen


def _scene(rng: random.Random, size: Difficulty, room: str, layout: Layout, task_type: str) -> Scene:
    constants = assets.constants()
    holds, openable = constants.VAL_RECEPTACLE_OBJECTS, constants.OPENABLE_CLASS_SET
    places = [Receptacle(kind, name, kind in openable) for kind, name in receptacle_ids(layout)]
    options = choices(layout, room, task_type)
    target = rng.choice(sorted(options))
    wanted = rng.choice(options[target])
    items: list[Item] = []

    def put(kind: str, fits) -> None:
        number = sum(item.kind == kind for item in items) + 1
        items.append(Item(kind, f"{kind}_bar__plus_{number:02d}_dot_00", rng.choice([p.id for p in places if fits(p.kind)])))

    away = (
        (lambda kind: wanted in holds[kind]) if task_type == "look" else (lambda kind: kind != target and wanted in holds[kind])
    )
    for _ in range(2 if task_type == "pick2" else rng.randint(1, 2) if size.copies > 1 else 1):
        put(wanted, away)
    if task_type == "look":
        put("DeskLamp", lambda kind: kind == target and kind in LAMP_HOLDERS)
    pool = [kind for kind in ROOMS[room].objects if kind != wanted and any(kind in holds[place] for place in layout)]
    for kind in rng.sample(pool, min(size.distractors, len(pool))):
        for _ in range(rng.randint(1, size.copies)):
            put(kind, lambda place, kind=kind: kind in holds[place])
    sentence = rng.choice(assets.goals()[TASK_TYPES[task_type]]["templates"])
    sentence = sentence.format(obj=wanted.lower(), recep=target.lower(), toggle="desklamp", mrecep="")
    return Scene(task_type, room, sentence, wanted, target, VIA.get(task_type), tuple(places), tuple(items))


def _text(scene: Scene) -> GameText:
    constants = assets.constants()
    tables = (constants.VAL_RECEPTACLE_OBJECTS, constants.VAL_ACTION_OBJECTS, constants.MOVABLE_RECEPTACLES_SET)
    return GameText(assets.domain(), assets.grammar(scene.sentence), scene.problem(assets.goals(), *tables))


def _fits(scene: Scene, size: Difficulty) -> bool:
    from bpo.sandboxes.household.demos import plan

    return len(plan(scene)) + size.slack <= size.max_steps


def _is_held_out(text: GameText) -> bool:
    content = hashlib.blake2b(f"{text.problem}\0{text.grammar}".encode(), digest_size=8).digest()
    return int.from_bytes(content) % _HELD_OUT == 0
