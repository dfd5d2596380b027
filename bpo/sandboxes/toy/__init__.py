"""A full decision tree as a sandbox: every state is known, so gradients and moments can be checked exactly.

The state is the sequence of actions so far; the reward comes at the end. It is the smallest sandbox that has everything the
protocol asks for, and the one on which the exact engine works (docs/theory.md, section 8).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bpo.errors import BadInput, at_least, choose, counted, scalar, shown
from bpo.sandbox import Observation, Outcome, SnapshotError

# Every task is the same tree; many ids, so that a batch can hold independent trees of different tasks.
TASKS = tuple(f"tree-{i:02d}" for i in range(64))
SPLITS = ("train", "panel", "valid_seen", "valid_unseen")


@dataclass(frozen=True)
class ToySnapshot:
    """A state of one episode of one ToyTree."""

    owner: int
    episode: int
    path: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return 8 * len(self.path)


class ToyTree:
    """Depth-`depth` tree with `width` actions ("0", "1", ...) in every state and `returns` at the leaves.

    returns: one float per leaf in lexicographic order of the leaves, width**depth in all.
    """

    def __init__(self, returns: Sequence[float], width: int = 2):
        at_least("width", scalar(int, width, "width"), 2)
        if not isinstance(returns, Sequence | np.ndarray) or isinstance(returns, str):
            raise BadInput(f"returns is {shown(returns)}; it must be a list with one number per leaf")
        values = returns.tolist() if isinstance(returns, np.ndarray) else returns
        returns = [scalar(float, value, f"returns[{leaf}]") for leaf, value in enumerate(values)]
        depth, leaves = 0, 1
        while leaves < len(returns):
            depth, leaves = depth + 1, leaves * width
        if leaves != len(returns) or depth == 0:
            raise BadInput(f"returns has {len(returns)} entries, which is not a power of the {width} actions")
        self.returns, self.width, self.depth = tuple(returns), width, depth
        self._path: tuple[int, ...] | None = None
        self._episode = 0

    def tasks(self, split: str) -> tuple[str, ...]:
        choose("split", split, SPLITS)
        return TASKS

    def reset(self, task: str) -> Observation:
        if task not in TASKS:
            raise BadInput(f"unknown task {task!r} of the toy sandbox (known: {TASKS[0]!r} to {TASKS[-1]!r})")
        self._episode += 1
        self._path = ()
        return self._observe()

    def step(self, action: str) -> Outcome:
        path = self._alive()
        if len(path) == self.depth:
            raise RuntimeError("the episode is over: reset or restore before the next step")
        if action not in self._names():
            raise BadInput(f"unknown action {action!r} (known: {', '.join(self._names())})")
        self._path = path = (*path, int(action))
        done = len(path) == self.depth
        reward = self.returns[self._leaf()] if done else 0.0
        return Outcome(self._observe(), reward, done, {"won": done and reward > 0, "truncated": False, "task_type": "toy"})

    def snapshot(self) -> ToySnapshot:
        return ToySnapshot(id(self), self._episode, self._alive())

    def restore(self, snapshot: ToySnapshot) -> Observation:
        self._alive()
        if not isinstance(snapshot, ToySnapshot):
            raise SnapshotError(f"a snapshot of a toy tree is needed, not {shown(snapshot)}")
        if snapshot.owner != id(self) or snapshot.episode != self._episode:
            raise SnapshotError("this snapshot belongs to another episode or to another sandbox")
        self._path = snapshot.path
        return self._observe()

    def fork(self, n: int) -> list[ToyTree]:
        forks = []
        for _ in range(counted("the number of forks", n)):
            fork = copy.copy(self)  # its leaves are checked already
            fork.reset(TASKS[0])
            fork._path = self._alive()
            forks.append(fork)
        return forks

    def state_key(self) -> tuple[int, ...]:
        return self._alive()

    def close(self) -> None:
        self._path = None

    def _alive(self) -> tuple[int, ...]:
        if self._path is None:
            raise SnapshotError("no episode is open: call reset first")
        return self._path

    def _names(self) -> tuple[str, ...]:
        return tuple(str(a) for a in range(self.width))

    def _leaf(self) -> int:
        index = 0
        for action in self._path or ():
            index = index * self.width + action
        return index

    def _observe(self) -> Observation:
        path = self._alive()
        actions = () if len(path) == self.depth else self._names()
        return Observation(text="".join(map(str, path)), actions=actions, task="find the best leaf", step=len(path))
