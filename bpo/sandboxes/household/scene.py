"""A generated room with everything in it: what the generator knows and the agent has to find out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bpo.sandboxes.household.games import TASK_TYPES
from bpo.sandboxes.household.names import display_names


@dataclass(frozen=True)
class Receptacle:
    """A place: its kind, id, and whether it has to be opened (all are closed at first)."""

    kind: str
    id: str
    openable: bool


@dataclass(frozen=True)
class Item:
    """An object and the id of the receptacle it starts in."""

    kind: str
    id: str
    place: str


@dataclass(frozen=True)
class Scene:
    """A generated game.

    task_type  one of TASK_TYPES
    room       kind of room
    sentence   the task as the agent reads it, without a full stop
    wanted     kind of object the task asks for
    target     kind of receptacle it goes to; for `look` the kind that holds the lamp
    via        receptacle kind of clean, heat and cool, else None
    """

    task_type: str
    room: str
    sentence: str
    wanted: str
    target: str
    via: str | None
    receptacles: tuple[Receptacle, ...]
    items: tuple[Item, ...]

    @cached_property
    def names(self) -> dict[str, str]:
        """Id -> the name that the engine shows."""
        ids = {thing.id.lower(): thing.id for thing in (*self.receptacles, *self.items)}
        return {ids[low]: entity.name for low, entity in display_names(ids).items()}

    @property
    def goal_items(self) -> tuple[Item, ...]:
        """Every object of the kind the task asks for."""
        return tuple(item for item in self.items if item.kind == self.wanted)

    def problem(self, goals: dict[str, dict], holds: dict, able: dict, movable: set[str]) -> str:
        """The PDDL problem. `goals`, `holds`, `able` and `movable` are the tables of the alfworld package."""
        location = {place.id: f"loc_bar_{i}_bar_0_bar_0_bar_30" for i, place in enumerate(self.receptacles)}
        start = "loc_bar__minus_9_bar_9_bar_0_bar_30"
        kinds = sorted({item.kind for item in self.items})
        places = sorted({place.kind for place in self.receptacles})
        objects = ["agent1 - agent", *(f"{kind}Type - otype" for kind in kinds), *(f"{kind}Type - rtype" for kind in places)]
        objects += [f"{item.id} - object" for item in self.items]
        objects += [f"{place.id} - receptacle" for place in self.receptacles]
        objects += [f"{name} - location" for name in (*location.values(), start)]
        facts = [f"atLocation agent1 {start}", "= (total-cost) 0"]
        for place in self.receptacles:
            facts += [f"receptacleType {place.id} {place.kind}Type", f"receptacleAtLocation {place.id} {location[place.id]}"]
            facts += [f"openable {place.id}"] if place.openable else []
        facts += [f"canContain {place}Type {kind}Type" for place in places for kind in kinds if kind in holds[place]]
        abilities = {"cleanable": "Cleanable", "heatable": "Heatable", "coolable": "Coolable", "sliceable": "Sliceable"}
        for item in self.items:
            facts += [f"objectType {item.id} {item.kind}Type", f"inReceptacle {item.id} {item.place}"]
            facts += [f"objectAtLocation {item.id} {location[item.place]}"]
            facts += [f"toggleable {item.id}" if item.kind == "DeskLamp" else f"pickupable {item.id}"]
            facts += [f"isReceptacleObject {item.id}"] if item.kind in movable else []
            facts += [f"{name} {item.id}" for name, table in abilities.items() if item.kind in able[table]]
        goal = goals[TASK_TYPES[self.task_type]]["pddl"].replace("#", "-")
        goal = goal.format(obj=self.wanted, recep=self.target, toggle="DeskLamp", mrecep="")
        lines = ["(define (problem household)", "(:domain alfred)", "(:objects", *objects, ")", "(:init"]
        return "\n".join([*lines, *(f"({fact})" for fact in facts), ")", goal])
