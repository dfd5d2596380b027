"""The household sandbox: ALFWorld's games with their real engine, forkable at the price of a reference."""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from bpo.errors import BadInput, at_least, counted, require, require_text, scalar, shown
from bpo.sandbox import Observation, Outcome, SnapshotError
from bpo.sandboxes.household import engines
from bpo.sandboxes.household.engine import Engine, EngineState
from bpo.sandboxes.household.games import Game, GameFolder, layout_hash
from bpo.sandboxes.household.generator import generate, task_ids
from bpo.sandboxes.household.layouts import preset

DATA_STEPS = 50  # the field's step limit on the official games

_BANNER = "-= Welcome to TextWorld, ALFRED! =-"
_TASK = "Your task is to: "


@dataclass(frozen=True)
class PortableHousehold:
    """A state for another instance or another process: the task and the actions that lead there. Plain values only."""

    task: str
    actions: tuple[str, ...]


class _Episode:
    """One episode of one sandbox; its identity is what a snapshot belongs to."""

    def __init__(self, game: Game, engine: Engine):
        self.game, self.engine = game, engine


@dataclass(frozen=True)
class HouseholdSnapshot:
    """A reached state of one episode: restorable any number of times, in any order, until the next reset or close."""

    episode: _Episode
    node: EngineState
    raw: str
    actions: tuple[str, ...]
    done: bool

    @property
    def size_bytes(self) -> int:
        """Estimate of the memory this snapshot keeps alive on its own."""
        return self.node.size_bytes + sys.getsizeof(self.raw) + sys.getsizeof(self.actions) + 64

    def portable(self) -> PortableHousehold:
        """The same state as plain values; `Household.resume` returns to it."""
        return PortableHousehold(self.episode.game.task, self.actions)


def split_intro(raw: str) -> tuple[str, str]:
    """Split the engine's first text into what the agent sees and its task sentence."""
    text, _, task = raw.partition(_TASK)
    return text.removeprefix(_BANNER).strip(), task.strip()


def facts(game: Game, won: bool, done: bool) -> MappingProxyType:
    """The `info` of an outcome: won, truncated (over because of the step limit), task_type, task."""
    return MappingProxyType({"won": won, "truncated": done and not won, "task_type": game.task_type, "task": game.task})


class Household:
    """ALFWorld's text games: find an object, perhaps clean, heat or cool it, and put it somewhere.

    difficulty  size of generated games: tiny, small, medium or full
    data        folder of the official games (laid out like $ALFWORLD_DATA) instead of generated ones
    max_steps   step limit; default: the difficulty's, 50 for official games

    Reward 1.0 when won, else 0.0. An episode ends when won or at the step limit. An action that is not admissible does nothing,
    says so and costs a step. `info`: won, truncated, task_type, task.
    """

    def __init__(self, difficulty: str = "small", data: str | os.PathLike | None = None, max_steps: int | None = None):
        require("alfworld", "household")
        require("textworld", "household")
        self.difficulty = difficulty
        self.max_steps = max_steps if max_steps is not None else (preset(difficulty).max_steps if data is None else DATA_STEPS)
        at_least("max_steps", scalar(int, self.max_steps, "max_steps"), 1)
        preset(difficulty)
        self._folder = GameFolder(data) if data is not None else None
        self.data = str(self._folder.root) if self._folder else None
        self._episode: _Episode | None = None
        self._closed = False

    def tasks(self, split: str) -> Sequence[str]:
        """Ids of a split, fixed and ordered: train, panel, valid_seen or valid_unseen."""
        return self._folder.tasks(split) if self._folder else task_ids(self.difficulty, split)

    def game(self, task: str) -> Game:
        """The game behind a task id; BadInput if there is none."""
        if self._folder:
            return self._folder.game(task)
        if not (isinstance(task, str) and task.startswith(f"{self.difficulty}/")):
            raise BadInput(f"unknown task {shown(task)}: ids of this sandbox look like '{self.difficulty}/train/000123'")
        return generate(task)

    def layout_hash(self, task: str) -> str:
        """Name of the room of a task: equal where the room has the same receptacles."""
        return layout_hash(self.game(task).text.problem)

    def reset(self, task: str) -> Observation:
        """Start an episode; snapshots of the former one become invalid."""
        if self._closed:
            raise RuntimeError("this sandbox is closed")
        game = self.game(task)
        # Borrow before giving back, so that a repeated task finds its engine still loaded and its states still known.
        if self._episode is not None and self._episode.engine.nodes > engines.MOST_NODES:
            self._leave()
        engine = engines.borrow(game.text)
        self._leave()
        self._episode = _Episode(game, engine)
        self._sentence = split_intro(engine.intro)[1]
        self._move(engine.expand(engine.root), engine.intro, (), False)
        return self._observe()

    def step(self, action: str) -> Outcome:
        """Play one action."""
        episode = self._running()
        require_text("the action", action)
        if self._done:
            raise RuntimeError("this episode is over; call reset or restore before the next step")
        node, raw = episode.engine.step(self._node, action.strip())
        steps = len(self._actions) + 1
        self._move(node, raw, (*self._actions, action), node.won or steps >= self.max_steps)
        return Outcome(self._observe(), float(node.won), self._done, facts(episode.game, node.won, self._done))

    def raw(self) -> str:
        """The engine's own text for the present observation, byte for byte."""
        self._running()
        return self._raw

    def snapshot(self) -> HouseholdSnapshot:
        """A handle on the present state; costs a few references."""
        return HouseholdSnapshot(self._running(), self._node, self._raw, self._actions, self._done)

    def restore(self, snapshot: HouseholdSnapshot) -> Observation:
        """Return to a snapshot of this episode; SnapshotError for any other."""
        if self._closed:
            raise SnapshotError("this sandbox is closed, nothing can be restored in it")
        if not isinstance(snapshot, HouseholdSnapshot):
            raise SnapshotError(f"a household snapshot is needed, not {type(snapshot).__name__}")
        if snapshot.episode is not self._episode:
            raise SnapshotError(
                f"the snapshot (of task {snapshot.episode.game.task!r}) belongs to another sandbox or to an episode before the "
                "last reset; use portable() and resume() to carry a state over"
            )
        self._move(snapshot.node, snapshot.raw, snapshot.actions, snapshot.done)
        return self._observe()

    def resume(self, portable: PortableHousehold) -> Observation:
        """Start the episode of a portable state and go there; exact in any instance or process."""
        if not isinstance(portable, PortableHousehold):
            raise SnapshotError(f"a portable household state is needed, not {shown(portable)}")
        self.reset(portable.task)
        engine, node, raw = self._episode.engine, self._node, self._raw
        for action in portable.actions:
            node, raw = engine.step(node, action.strip())
        actions = tuple(portable.actions)
        self._move(node, raw, actions, node.won or len(actions) >= self.max_steps)
        return self._observe()

    def fork(self, n: int) -> list[Household]:
        """`n` independent sandboxes at the present state; they share the loaded game, not the episode."""
        episode = self._running()
        forks = []
        for _ in range(counted("the number of forks", n)):
            other = object.__new__(Household)
            other.__dict__.update(self.__dict__)
            other._episode = _Episode(episode.game, engines.borrow(episode.game.text))
            forks.append(other)
        return forks

    def state_key(self) -> Hashable:
        """Identity of the state, equal in every instance and process: task, steps done, digest of facts and planner state."""
        episode = self._running()
        return (episode.game.task, len(self._actions), episode.engine.digest(self._node))

    def close(self) -> None:
        """Give the engine back; may be called twice."""
        self._leave()
        self._closed = True

    def __enter__(self) -> Household:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        if self.__dict__.get("_episode") is not None and not sys.is_finalizing():
            engines.abandon(self._episode.game.text)

    def _running(self) -> _Episode:
        if self._closed:
            raise RuntimeError("this sandbox is closed")
        if self._episode is None:
            raise RuntimeError("no episode has been started; call reset first")
        return self._episode

    def _leave(self) -> None:
        if self._episode is not None:
            episode, self._episode = self._episode, None
            engines.give_back(episode.game.text)

    def _move(self, node: EngineState, raw: str, actions: tuple[str, ...], done: bool) -> None:
        self._node, self._raw, self._actions, self._done = node, raw, actions, done

    def _observe(self) -> Observation:
        text = split_intro(self._raw)[0] if not self._actions else self._raw.strip()
        actions = tuple(command for command in self._node.admissible if command != "help")
        return Observation(text, actions, self._sentence, len(self._actions))
