"""The sandbox protocol: a simulator that can be snapshotted, restored and forked.

A sandbox holds one episode at a time. Everything that decides its future (simulator, random state, step counter, step limit)
belongs to its snapshot; the agent's context and the policy's random generator do not: the rollout keeps those.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Observation:
    """What the agent sees: text, admissible actions (None where any text is allowed), the task sentence, the step index."""

    text: str
    actions: tuple[str, ...] | None
    task: str
    step: int


@dataclass(frozen=True)
class Outcome:
    """What one action did: the new observation, its reward, whether the episode is over, and extra facts.

    `info` holds plain values only, for instance `won` (bool), `truncated` (bool: over because of the step limit) and
    `task_type` (str).
    """

    observation: Observation
    reward: float
    done: bool
    info: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@runtime_checkable
class Snapshot(Protocol):
    """An opaque handle on a state: restorable any number of times and in any order by the sandbox that made it."""

    @property
    def size_bytes(self) -> int: ...


@runtime_checkable
class Sandbox(Protocol):
    """One forkable episode.

    `restore` accepts every snapshot taken since the last `reset`; a snapshot of another episode, of another sandbox or of a
    closed sandbox raises SnapshotError. `tasks(split)` is a fixed, ordered sequence of task ids. `state_key` identifies the
    state: equal keys mean equal futures under equal actions.
    """

    def reset(self, task: str) -> Observation: ...
    def step(self, action: str) -> Outcome: ...
    def snapshot(self) -> Snapshot: ...
    def restore(self, snapshot: Snapshot) -> Observation: ...
    def fork(self, n: int) -> list[Sandbox]: ...
    def tasks(self, split: str) -> tuple[str, ...] | Any: ...
    def state_key(self) -> Hashable: ...
    def close(self) -> None: ...


class SnapshotError(RuntimeError):
    """A snapshot that cannot be restored here: of another episode, of another sandbox, or of a closed one."""
