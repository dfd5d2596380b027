"""A family as a sandbox: states are numbers, and chance is drawn once per task, so that forks are exact."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

import numpy as np

from bpo.errors import BadInput, shown
from bpo.lab.family import OVER, Family
from bpo.sandbox import Observation, Outcome, SnapshotError

# Number of tasks; a task is a draw of chance and nothing else.
MOST_TASKS = 2**32
TASK = re.compile(r"draw-(\d{1,10})")


class Draws(Sequence[str]):
    """The task ids "draw-0", "draw-1", ...: so many that no list of them is made."""

    def __len__(self) -> int:
        return MOST_TASKS

    def __getitem__(self, index):
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        return f"draw-{range(MOST_TASKS)[index]}"


class StateSnapshot:
    """A state of one episode of one FamilySandbox."""

    __slots__ = ("episode", "owner", "state")

    def __init__(self, owner: object, episode: int, state: int):
        self.owner, self.episode, self.state = owner, episode, state

    @property
    def size_bytes(self) -> int:
        return 8


class FamilySandbox:
    """Episodes of a family.

    Which outcome of chance follows an action in a state is a function of the task: equal tasks, states and actions have equal
    futures, as the protocol asks, and over tasks the outcomes have the family's probabilities. No state comes twice in an
    episode, so nothing is drawn twice.
    """

    def __init__(self, family: Family):
        self.family = family
        self._actions = tuple(str(a) for a in range(family.width))
        self._number = {name: a for a, name in enumerate(self._actions)}
        task = family.meaning
        self._observations = [
            Observation(name, self._actions, task, int(t)) for name, t in zip(family.names, family.depth, strict=True)
        ]
        self._price = family.price.tolist()
        self._spent = 0.0
        self._best = float(family.reward.max())
        self._state: int | None = None
        self._over = False
        self._episode = 0

    def tasks(self, split: str) -> Draws:
        return Draws()

    def reset(self, task: str) -> Observation:
        match = TASK.fullmatch(task)
        if match is None or int(match[1]) >= MOST_TASKS:
            raise BadInput(f"unknown task {shown(task)} of the laboratory (known: 'draw-0' to 'draw-{MOST_TASKS - 1}')")
        self._following, self._reward = (drawn.tolist() for drawn in outcomes(self.family, int(match[1])))
        self._episode += 1
        self._state, self._over = 0, False
        return self._observations[0]

    def step(self, action: str) -> Outcome:
        state = self._alive()
        if self._over:
            raise RuntimeError("the episode is over: reset or restore before the next step")
        if action not in self._number:
            raise BadInput(f"unknown action {shown(action)} (known: {', '.join(self._actions)})")
        number = self._number[action]
        self._spent += self._price[state]
        reward, after = self._reward[state][number], self._following[state][number]
        if after == OVER:
            self._over = True
            end = Observation("", (), self.family.meaning, self._observations[state].step + 1)
            return Outcome(end, reward, True, {"won": reward >= self._best, "truncated": False, "task_type": self.family.name})
        self._state = after
        return Outcome(self._observations[after], reward, False)

    def snapshot(self) -> StateSnapshot:
        state = self._alive()
        return StateSnapshot(self, self._episode, OVER if self._over else state)

    def restore(self, snapshot: StateSnapshot) -> Observation:
        self._alive()
        if snapshot.owner is not self or snapshot.episode != self._episode:
            raise SnapshotError("this snapshot belongs to another episode or to another sandbox")
        self._over = snapshot.state == OVER
        if self._over:
            return Observation("", (), self.family.meaning, self.family.horizon)
        self._state = snapshot.state
        return self._observations[self._state]

    def fork(self, n: int) -> list[FamilySandbox]:
        forks = []
        for _ in range(n):
            fork = FamilySandbox(self.family)
            fork._following, fork._reward = self._following, self._reward
            fork._state, fork._over, fork._episode = self._alive(), self._over, 1
            forks.append(fork)
        return forks

    def state_key(self) -> Hashable:
        state = self._alive()
        return OVER if self._over else state

    def take_spent(self) -> float:
        """The price of all actions since this was last asked."""
        spent, self._spent = self._spent, 0.0
        return spent

    def close(self) -> None:
        self._state = None

    def _alive(self) -> int:
        if self._state is None:
            raise SnapshotError("no episode is open: call reset first")
        return self._state


def outcomes(family: Family, task: int) -> tuple[np.ndarray, np.ndarray]:
    """(int64 [S, A], the state that follows; float64 [S, A], the reward) in this task's draw of chance."""
    uniform = np.random.default_rng(task).random(family.start.shape)
    which = (uniform[:, :, None] >= family.chance.cumsum(axis=2)[:, :, :-1]).sum(axis=2)[:, :, None]
    following, reward = (np.take_along_axis(of, which, axis=2)[:, :, 0] for of in (family.following, family.reward))
    return following, reward
