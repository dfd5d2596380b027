"""Snapshots for any deterministic sandbox that only has reset and step: the prefix of actions is played again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from bpo.errors import counted
from bpo.sandbox import Observation, Outcome, SnapshotError


@dataclass(frozen=True)
class ReplaySnapshot:
    """The path to a state: its task, actions, and what was seen along it, which a replay has to show again."""

    episode: object
    task: str
    actions: tuple[str, ...]
    first: Observation
    outcomes: tuple[Outcome, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the recorded texts and actions."""
        texts = [*self.actions, self.first.text, *(outcome.observation.text for outcome in self.outcomes)]
        return sum(map(sys.getsizeof, texts))


class ReplaySandbox:
    """A forkable sandbox around `make()`, an object with `reset(task) -> Observation` and `step(action) -> Outcome`.

    Restoring costs a reset and as many steps as the path has. Every replayed step is compared with the recorded one (text,
    actions, reward, done); a difference means that the simulator is not deterministic and raises SnapshotError.
    """

    def __init__(self, make: Callable[[], Any]):
        self._make, self._inner = make, make()
        self._path: ReplaySnapshot | None = None
        self._closed = False

    def tasks(self, split: str):
        """The wrapped sandbox's tasks."""
        return self._inner.tasks(split)

    def reset(self, task: str) -> Observation:
        """Start an episode; snapshots of the former one become invalid."""
        first = self._inner.reset(task)
        self._path = ReplaySnapshot(object(), task, (), first, ())
        return first

    def step(self, action: str) -> Outcome:
        """Play one action."""
        path = self._running()
        outcome = self._inner.step(action)
        self._path = ReplaySnapshot(path.episode, path.task, (*path.actions, action), path.first, (*path.outcomes, outcome))
        return outcome

    def snapshot(self) -> ReplaySnapshot:
        """The path so far."""
        return self._running()

    def restore(self, snapshot: ReplaySnapshot) -> Observation:
        """Play the snapshot's path again; SnapshotError if it is foreign or if the replay differs from the record."""
        if self._closed:
            raise SnapshotError("this sandbox is closed, nothing can be restored in it")
        if self._path is None or not isinstance(snapshot, ReplaySnapshot) or snapshot.episode is not self._path.episode:
            raise SnapshotError("the snapshot belongs to another sandbox or to an episode before the last reset")
        return self._replay(snapshot)

    def fork(self, n: int) -> list[ReplaySandbox]:
        """`n` fresh sandboxes brought to the present state."""
        path = self._running()
        forks = [ReplaySandbox(self._make) for _ in range(counted("the number of forks", n))]
        for fork in forks:
            fork._replay(ReplaySnapshot(object(), path.task, path.actions, path.first, path.outcomes))
        return forks

    def state_key(self) -> Hashable:
        """Task and actions: equal paths are equal states; equal states by other paths are not recognised."""
        path = self._running()
        return path.task, path.actions

    def close(self) -> None:
        """Close the wrapped sandbox, if it can be closed."""
        if not self._closed and hasattr(self._inner, "close"):
            self._inner.close()
        self._closed, self._path = True, None

    def _running(self) -> ReplaySnapshot:
        if self._path is None:
            raise RuntimeError("this sandbox is closed" if self._closed else "no episode has been started; call reset first")
        return self._path

    def _replay(self, path: ReplaySnapshot) -> Observation:
        self._path = path
        observation = self._inner.reset(path.task)
        _compare(path, 0, Outcome(path.first, 0.0, False), Outcome(observation, 0.0, False))
        for number, (action, recorded) in enumerate(zip(path.actions, path.outcomes, strict=True), 1):
            outcome = self._inner.step(action)
            _compare(path, number, recorded, outcome)
            observation = outcome.observation
        return observation


def _compare(path: ReplaySnapshot, number: int, recorded: Outcome, played: Outcome) -> None:
    for name, a, b in (
        ("text", recorded.observation.text, played.observation.text),
        ("actions", recorded.observation.actions, played.observation.actions),
        ("reward", recorded.reward, played.reward),
        ("done", recorded.done, played.done),
    ):
        if a != b:
            raise SnapshotError(
                f"the replay of task {path.task!r} diverged at step {number}: {name} was {a!r} and is now {b!r}; "
                "this simulator is not deterministic, so it cannot be forked by replay"
            )
