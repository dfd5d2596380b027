"""Expert demonstrations: winning plays for imitation, with the search that an agent without the map has to do.

A planner that knows where everything is walks straight to the object. Imitating it teaches nothing about looking for things,
so a demonstration visits a random number of plausible wrong places first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from bpo.errors import BadInput
from bpo.sandbox import Observation, Outcome, Sandbox
from bpo.sandboxes.household.games import Game
from bpo.sandboxes.household.generator import generate
from bpo.sandboxes.household.layouts import preset
from bpo.sandboxes.household.scene import Item, Receptacle, Scene


def demonstration(task: str | Game, seed: int, search: tuple[int, int] = (0, 2), max_steps: int | None = None) -> list[str]:
    """A winning list of actions for a task id of a generated game, or for a Game.

    `search` bounds how many plausible wrong receptacles are visited (and opened) before the objects are found; the number is
    drawn from `seed`, and lowered until the demonstration fits into `max_steps` (default: the difficulty's). A real game's
    stored walkthrough is returned as it is, BadInput where the file has none.
    """
    game = generate(task) if isinstance(task, str) else task
    if game.scene is None:
        if game.walkthrough is None:
            raise BadInput(f"the game {game.task!r} has no stored walkthrough to demonstrate")
        return list(game.walkthrough)
    limit = max_steps if max_steps is not None else preset(game.task.partition("/")[0]).max_steps
    wrong = random.Random(f"household/{game.task}/demonstration/{seed}").randint(*search)
    for visits in range(wrong, -1, -1):
        actions = _Guide(game.scene, random.Random(f"household/{game.task}/demonstration/{seed}/{visits}")).play(visits)
        if len(actions) <= limit:
            return actions
    raise BadInput(f"the game {game.task!r} cannot be won within {limit} steps")


def plan(scene: Scene) -> list[str]:
    """A winning play that knows where everything is."""
    return _Guide(scene, random.Random(0)).play(0)


def play(sandbox: Sandbox, task: str, actions: Sequence[str]) -> tuple[list[tuple[Observation, str]], Outcome]:
    """Play `actions` from the start of `task`; return (what was seen, action) per step and the last outcome."""
    observation = sandbox.reset(task)
    seen: list[tuple[Observation, str]] = []
    outcome = Outcome(observation, 0.0, False)
    for action in actions:
        seen.append((observation, action))
        outcome = sandbox.step(action)
        observation = outcome.observation
    return seen, outcome


class _Guide:
    """Walks through a scene and writes down the actions; knows where it stands and what it has opened."""

    def __init__(self, scene: Scene, rng: random.Random):
        self._scene, self._rng = scene, rng
        self._places = {place.id: place for place in scene.receptacles}
        self._here: str | None = None
        self._seen: set[str] = set()
        self.actions: list[str] = []

    def play(self, visits: int) -> list[str]:
        """The whole demonstration with `visits` wrong places, fewer where the room has fewer."""
        scene = self._scene
        items = list(scene.goal_items)
        self._rng.shuffle(items)
        if scene.task_type == "look":
            self._fetch(items[0], visits)
            self._go(next(self._places[item.place] for item in scene.items if item.kind == "DeskLamp"))
            lamp = next(item for item in scene.items if item.kind == "DeskLamp")
            self.actions.append(f"use {scene.names[lamp.id]}")
            return self.actions
        target = self._rng.choice([place for place in scene.receptacles if place.kind == scene.target])
        if scene.task_type != "pick2":
            self._deliver(items[0], target, visits)
            return self.actions
        first = self._rng.randint(0, visits)
        self._deliver(items[0], target, first)
        self._deliver(items[1], target, visits - first)
        return self.actions

    def _deliver(self, item: Item, target: Receptacle, visits: int) -> None:
        names = self._scene.names
        self._fetch(item, visits)
        if self._scene.via is not None:
            via = self._rng.choice([place for place in self._scene.receptacles if place.kind == self._scene.via])
            self._go(via)
            self.actions.append(f"{self._scene.task_type} {names[item.id]} with {names[via.id]}")
        self._visit(target)
        self.actions.append(f"move {names[item.id]} to {names[target.id]}")

    def _fetch(self, item: Item, visits: int) -> None:
        for place in self._wrong_places(visits):
            self._visit(place)
        self._visit(self._places[item.place])
        self.actions.append(f"take {self._scene.names[item.id]} from {self._scene.names[item.place]}")

    def _wrong_places(self, visits: int) -> list[Receptacle]:
        """Unvisited places where an object of the wanted kind could be, but is not."""
        from bpo.sandboxes.household import assets

        holds = assets.constants().VAL_RECEPTACLE_OBJECTS
        full = {item.place for item in self._scene.goal_items}
        places = [p for p in self._scene.receptacles if self._scene.wanted in holds[p.kind] and p.id not in full | self._seen]
        return self._rng.sample(places, min(visits, len(places)))

    def _go(self, place: Receptacle) -> None:
        if self._here != place.id:
            self.actions.append(f"go to {self._scene.names[place.id]}")
            self._here = place.id

    def _visit(self, place: Receptacle) -> None:
        self._go(place)
        if place.openable and place.id not in self._seen:
            self.actions.append(f"open {self._scene.names[place.id]}")
        self._seen.add(place.id)
