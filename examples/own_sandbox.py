"""A sandbox in one class: five rooms, a door in the last. Its forks are checked, then a tree is grown in it."""

from collections import namedtuple
from copy import copy

from bpo import Growth, Observation, Outcome, TabularPolicy, Threshold, check_fork, grow, tree_lines
from bpo.sandbox import SnapshotError

State = namedtuple("State", "episode room step size_bytes", defaults=(2, 0, 32))


class Corridor:
    snapshot = state_key = lambda self: self.state  # a state never changes, so a reference to it is a snapshot

    def tasks(self, split):
        return ("find the door",)

    def reset(self, task):
        self.state = State(episode=object())
        return self.restore(self.state)

    def step(self, action):
        now = self.state._replace(room=self.state.room + (1 if action == "right" else -1), step=self.state.step + 1)
        return Outcome(self.restore(now), float(now.room == 4), now.room in (0, 4), {"won": now.room == 4})

    def restore(self, snapshot):
        if snapshot.episode is not self.state.episode:
            raise SnapshotError("this snapshot belongs to another episode")
        self.state = snapshot
        return Observation(f"room {snapshot.room}", ("left", "right"), "find the door", snapshot.step)

    def fork(self, n):
        return [copy(self) for _ in range(n)]

    def close(self): ...


print(check_fork(Corridor, ["find the door"] * 6, games=6, branches=3, steps=30, seed=0))
(tree,), _ = grow(["find the door"], [Corridor()], TabularPolicy(), Growth(Threshold(0.5), points=2, width=3), (0,))
print(*tree_lines(tree), sep="\n")
