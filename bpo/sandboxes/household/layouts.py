"""Rooms: which receptacles they may have, and the fixed pools of layouts that training and unseen evaluation draw from."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from bpo.errors import choose
from bpo.sandboxes.household import assets
from bpo.sandboxes.household.games import TASK_TYPES, hash_receptacles

TRAIN_LAYOUTS, UNSEEN_LAYOUTS = 20, 5  # of each room and difficulty

VIA = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
ABILITY = {"clean": "Cleanable", "heat": "Heatable", "cool": "Coolable"}
LAMP_HOLDERS = ("Desk", "SideTable", "Dresser", "CoffeeTable")


@dataclass(frozen=True)
class Difficulty:
    """How large a game is.

    receptacles  least and most receptacles of a room
    distractors  kinds of object besides the goal's
    copies       most objects of one distractor kind
    max_steps    step limit of an episode
    slack        steps that every game leaves beyond its shortest demonstration, for searching wrong receptacles
    """

    receptacles: tuple[int, int]
    distractors: int
    copies: int
    max_steps: int
    slack: int


DIFFICULTIES = {
    "tiny": Difficulty((4, 5), 2, 1, 10, 2),
    "small": Difficulty((4, 5), 3, 1, 12, 3),
    "medium": Difficulty((8, 10), 6, 2, 24, 4),
    "full": Difficulty((18, 24), 14, 3, 50, 4),
}


@dataclass(frozen=True)
class Room:
    """A kind of room: receptacles it always has, the most of each further kind, and the objects that belong there."""

    always: tuple[str, ...]
    most: dict[str, int]
    objects: tuple[str, ...]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def _counts(text: str) -> dict[str, int]:
    return {kind: int(most) for kind, most in map(str.split, text.split(", "))}


ROOMS = {
    "Kitchen": Room(
        ("Fridge", "Microwave", "SinkBasin"),
        _counts(
            "Cabinet 8, CoffeeMachine 1, CounterTop 3, DiningTable 1, Drawer 6, GarbageCan 1, Shelf 3, SideTable 1, "
            "StoveBurner 4"
        ),
        _names(
            "Apple, Bowl, Bread, ButterKnife, Cup, DishSponge, Egg, Fork, Glassbottle, Kettle, Knife, Ladle, Lettuce, "
            "Mug, Pan, PepperShaker, Plate, Pot, Potato, SaltShaker, SoapBottle, Spatula, Spoon, Tomato, WineBottle"
        ),
    ),
    "Bathroom": Room(
        ("SinkBasin",),
        _counts(
            "BathtubBasin 1, Cabinet 5, CounterTop 2, Drawer 6, GarbageCan 1, HandTowelHolder 2, Shelf 3, SideTable "
            "1, Toilet 1, ToiletPaperHanger 1"
        ),
        _names(
            "Candle, Cloth, DishSponge, HandTowel, Plunger, SoapBar, SoapBottle, SprayBottle, TissueBox, ToiletPaper, "
            "ToiletPaperRoll"
        ),
    ),
    "Bedroom": Room(
        ("Bed",),
        _counts("ArmChair 1, Desk 2, Drawer 8, Dresser 1, GarbageCan 1, LaundryHamper 1, Safe 1, Shelf 6, SideTable 2"),
        _names(
            "AlarmClock, BaseballBat, BasketBall, Book, Bowl, CD, CellPhone, Cloth, CreditCard, KeyChain, Laptop, "
            "Mug, Pen, Pencil, Pillow, Statue, TennisRacket, TissueBox, Watch"
        ),
    ),
    "LivingRoom": Room(
        ("Sofa",),
        _counts(
            "ArmChair 2, Cabinet 4, CoffeeTable 2, DiningTable 1, Drawer 6, Dresser 1, GarbageCan 1, Safe 1, Shelf 4, "
            "SideTable 3"
        ),
        _names(
            "Book, Bowl, Candle, CellPhone, CreditCard, KeyChain, Laptop, Newspaper, Pen, Pencil, Pillow, Plate, "
            "RemoteControl, Statue, TissueBox, Vase, Watch, WateringCan"
        ),
    ),
}

# A layout is the sorted tuple of a room's receptacle kinds. The engine lists receptacles by kind and number, so two layouts
# that differ only in order would look the same; hence there is one order.
Layout = tuple[str, ...]


def rooms_for(task_type: str) -> list[str]:
    """Rooms where ALFRED has tasks of this type, sorted."""
    return sorted(assets.constants().GOALS_VALID[TASK_TYPES[task_type]])


def receptacle_ids(layout: Layout) -> list[tuple[str, str]]:
    """(kind, id) of every receptacle. Basins carry their parent's id, or the engine would show `sinkbasinbasin`."""
    ids = []
    for place, kind in enumerate(layout):
        number = layout[: place + 1].count(kind)
        tail = f"_bar_{kind}" if kind.endswith("Basin") else ""
        ids.append((kind, f"{kind.removesuffix('Basin')}_bar__plus_{number:02d}_dot_00{tail}"))
    return ids


def choices(layout: Layout, room: str, task_type: str) -> dict[str, list[str]]:
    """Target receptacle kind -> objects that a task of this type can ask for in this layout.

    An object qualifies if it may stand in the target and in a receptacle of another kind, where it will be found.
    """
    holds, able = assets.constants().VAL_RECEPTACLE_OBJECTS, assets.constants().VAL_ACTION_OBJECTS
    via = VIA.get(task_type)
    if (via and via not in layout) or room not in rooms_for(task_type):
        return {}
    objects = [name for name in ROOMS[room].objects if not via or name in able[ABILITY[task_type]]]
    kinds = sorted(set(layout))
    if task_type == "look":
        held = [name for name in objects if any(name in holds[kind] for kind in kinds)]
        return {kind: held for kind in kinds if kind in LAMP_HOLDERS and held}
    found = {}
    for target in kinds:
        fit = [n for n in objects if n in holds[target] and any(n in holds[kind] for kind in kinds if kind != target)]
        if fit and target != via:
            found[target] = fit
    return found


@cache
def layouts(difficulty: str, room: str) -> tuple[tuple[Layout, ...], tuple[Layout, ...]]:
    """The layouts that training shows and those it never shows; which is which follows from the layout's hash alone."""
    train: list[Layout] = []
    unseen: list[Layout] = []
    for candidate in range(5000):
        layout = _draw(difficulty, room, candidate)
        if layout is None or layout in train or layout in unseen:
            continue
        side, most = (unseen, UNSEEN_LAYOUTS) if _is_unseen(layout) else (train, TRAIN_LAYOUTS)
        if len(side) < most:
            side.append(layout)
        if len(train) == TRAIN_LAYOUTS and len(unseen) == UNSEEN_LAYOUTS:
            break
    return tuple(train), tuple(unseen)


def preset(difficulty: str) -> Difficulty:
    """The difficulty of this name; BadInput if there is none."""
    return DIFFICULTIES[choose("difficulty", difficulty, DIFFICULTIES)]


def _is_unseen(layout: Layout) -> bool:
    return int(hash_receptacles(name for _, name in receptacle_ids(layout)), 16) % 5 == 0


def _draw(difficulty: str, room: str, candidate: int) -> Layout | None:
    """A random layout where every task type of the room can be set, or None."""
    rng = random.Random(f"household/{difficulty}/{room}/layout/{candidate}")
    kinds = list(ROOMS[room].always)
    size = rng.randint(*DIFFICULTIES[difficulty].receptacles)
    while len(kinds) < size:
        kinds.append(rng.choice([kind for kind, most in ROOMS[room].most.items() if kinds.count(kind) < most]))
    layout = tuple(sorted(kinds))
    wanted = [task_type for task_type in TASK_TYPES if room in rooms_for(task_type)]
    return layout if all(choices(layout, room, task_type) for task_type in wanted) else None
