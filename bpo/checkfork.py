"""Proves on random walks that a sandbox's fork is exact: interleaved branches against fresh replays, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bpo import boundary
from bpo.errors import BadInput, at_least, scalar
from bpo.sandbox import Observation, Outcome, Sandbox

JUMP = 0.08  # chance per turn that a branch goes on from an older snapshot instead of its newest
FORKED = 0.2  # share of the steps that a fork plays before the sandbox itself does
SHOWN = 5  # differences that a report describes


@dataclass(frozen=True)
class ForkReport:
    """Result of a check: steps compared with a replay, how many of them (or of the restored states) differed, and the first."""

    steps: int
    mismatches: int
    first_differences: tuple[str, ...]


@dataclass
class _Branch:
    """A path from the start: entry i of `seen` and `snapshots` belongs to the state after `actions[:i]`."""

    actions: list[str] = field(default_factory=list)
    seen: list[tuple] = field(default_factory=list)
    snapshots: list[Any] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    done: list[bool] = field(default_factory=list)

    def cut(self, length: int) -> _Branch:
        """A copy of the first `length` actions."""
        return _Branch(
            self.actions[:length], *(part[: length + 1] for part in (self.seen, self.snapshots, self.keys, self.done))
        )

    def add(self, seen: tuple, snapshot: Any, key: Any, done: bool) -> None:
        for part, value in ((self.seen, seen), (self.snapshots, snapshot), (self.keys, key), (self.done, done)):
            part.append(value)


def check_fork(
    make_sandbox: Callable[[], Sandbox],
    tasks: Sequence[str],
    *,
    games: int,
    branches: int,
    steps: int,
    seed: int,
    reference: Callable[[], Any] | None = None,
    propose: Callable[[Observation, np.random.Generator], str] | None = None,
) -> ForkReport:
    """Walk in `games` of the tasks, evenly spread, with `branches` interleaved branches of about `steps` steps each.

    At each turn a random branch is restored, its state compared with what that branch saw last, one action played and the new
    state snapshotted; now and then a branch goes on from an older snapshot, or a fork plays the action first, which must come
    to the same and leave the sandbox where it was. Afterwards every path is played again from a fresh
    reset of `reference()` (default: of `make_sandbox()`), which needs reset and step alone. Compared are the text, the
    admissible actions, reward and done, and `raw()` where both sandboxes have it. `propose` chooses actions (default:
    `by_verb`).

    Errors: BadInput where an argument or what a sandbox gives is of another kind than it must be.
    """
    for name, value in (("games", games), ("branches", branches), ("steps", steps)):
        at_least(name, scalar(int, value, name), 1)
    at_least("seed", scalar(int, seed, "seed"), 0)
    tasks = boundary.task_ids(tasks)
    rng, forks = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    sandbox = boundary.made("make_sandbox", make_sandbox)
    replay = boundary.made("reference", reference or make_sandbox, boundary.PLAYED)
    differences: list[str] = []
    compared = 0
    try:
        if len(tasks) < games:
            raise BadInput(f"games is {games}, but there are only {len(tasks)} tasks")
        for index in np.linspace(0, len(tasks) - 1, games).astype(int):
            task = tasks[int(index)]
            raw = hasattr(sandbox, "raw") and hasattr(replay, "raw")
            paths = _walk(sandbox, task, branches, steps, rng, forks, propose or by_verb, raw, differences)
            for path in paths:
                compared += _replay(replay, task, path, raw, differences)
    finally:
        sandbox.close()
        replay.close()
    return ForkReport(compared, len(differences), tuple(differences[:SHOWN]))


def by_verb(observation: Observation, rng: np.random.Generator) -> str:
    """A random action whose verb is drawn first, so that rare kinds of action are played as often as common ones.

    The verb is what stands before the first space or bracket.
    """
    if not observation.actions:
        raise BadInput("this sandbox lists no actions: give check_fork a `propose` function")
    verbs = sorted({_verb(action) for action in observation.actions})
    verb = verbs[rng.integers(len(verbs))]
    fitting = [action for action in observation.actions if _verb(action) == verb]
    return fitting[rng.integers(len(fitting))]


def _verb(action: str) -> str:
    return re.split(r"[\s\[]", action, maxsplit=1)[0]


def _walk(sandbox, task, branches, steps, rng, forks, propose, raw, differences) -> list[_Branch]:
    """Grow the branches on one sandbox; return every path walked."""
    root = _Branch()
    first = boundary.observation_of(sandbox, "reset", sandbox.reset(task))
    root.add(_view(Outcome(first, 0.0, False), sandbox, raw), sandbox.snapshot(), boundary.key_of_state(sandbox), False)
    grown = [root.cut(0) for _ in range(branches)]
    finished: list[_Branch] = []
    for _ in range(branches * steps):
        index = int(rng.integers(branches))
        branch = grown[index]
        if branch.done[-1] or rng.random() < JUMP:
            finished.append(branch)
            source = grown[int(rng.integers(branches))]
            alive = [i for i, done in enumerate(source.done) if not done]
            branch = grown[index] = source.cut(alive[int(rng.integers(len(alive)))])
        observation = boundary.observation_of(sandbox, "restore", sandbox.restore(branch.snapshots[-1]))
        where = f"{task}, branch {index}, after {branch.actions}"
        if _state(observation, sandbox, raw) != (*branch.seen[-1][:3], branch.keys[-1]):
            differences.append(f"{where}: the restored state is not the one that was left")
        action = propose(observation, rng)
        forked = _in_fork(sandbox, action, raw) if forks.random() < FORKED else None
        if forked and sandbox.state_key() != branch.keys[-1]:
            differences.append(f"{where}: a step in a fork moved the sandbox it came from")
        outcome = boundary.outcome_of(sandbox, action, sandbox.step(action))
        branch.actions.append(action)
        branch.add(_view(outcome, sandbox, raw), sandbox.snapshot(), sandbox.state_key(), outcome.done)
        if forked and forked != (branch.seen[-1], branch.keys[-1]):
            differences.append(f"{where}: {action!r} does something else in a fork")
    paths = finished + grown
    longer = {
        tuple(path.actions[:i]) for path in paths for i in range(len(path.actions))
    }  # a prefix is covered by its longer path
    return list({tuple(path.actions): path for path in paths if path.actions and tuple(path.actions) not in longer}.values())


def _in_fork(sandbox, action: str, raw: bool) -> tuple:
    """What an action does in a fork, and the state it leads to there."""
    (other,) = boundary.forks_of(sandbox, 1)
    try:
        return _view(boundary.outcome_of(other, action, other.step(action)), other, raw), other.state_key()
    finally:
        other.close()


def _replay(replay, task: str, path: _Branch, raw: bool, differences: list[str]) -> int:
    """Play a path on the reference and note every step that differs; return the number of steps."""
    first = boundary.observation_of(replay, "reset", replay.reset(task))
    seen = [_view(Outcome(first, 0.0, False), replay, raw)]
    for action in path.actions:
        seen.append(_view(boundary.outcome_of(replay, action, replay.step(action)), replay, raw))
    names = ("text", "actions", "raw text", "reward", "done")
    for number, (mine, theirs) in enumerate(zip(path.seen, seen, strict=True)):
        for name, a, b in zip(names, mine, theirs, strict=True):
            if a != b:
                differences.append(f"{task}, after {path.actions[:number]}: {name} is {a!r}, in the replay {b!r}")
                break
    return len(path.actions)


def _view(outcome: Outcome, sandbox, raw: bool) -> tuple:
    observation = outcome.observation
    text = sandbox.raw() if raw else None
    return observation.text, observation.actions, text, float(outcome.reward), bool(outcome.done)


def _state(observation: Observation, sandbox, raw: bool) -> tuple:
    return observation.text, observation.actions, sandbox.raw() if raw else None, sandbox.state_key()
