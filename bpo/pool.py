"""Which tasks a run trains on: the whole training split, or a pool of its own; and the split `pool`, which names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bpo.boundary import tasks_of
from bpo.errors import BadInput
from bpo.sandbox import Sandbox

if TYPE_CHECKING:
    from bpo.config import Settings

# The split that holds the tasks a run trains on.
POOL = "pool"
# First integers of the keys of the streams that draw a pool, and evaluation tasks.
DRAW, EVALUATED = 8, 10


def training_tasks(sandbox: Sandbox, settings: Settings, seed: int) -> Sequence[str]:
    """The tasks that a run with this seed trains on.

    With `train_tasks: P` they are P tasks of the split train, drawn by the seed alone: equal seeds share their pool whatever
    the method, and another seed has another one, so that an interval over seeds holds another pool as well. BadInput where the
    split has fewer than P.
    """
    tasks, count = tasks_of(sandbox, "train"), settings.train_tasks
    if not count:
        return tasks
    if count > len(tasks):
        raise BadInput(f"train_tasks is {count}, but there are {len(tasks)} training tasks")
    picks = np.random.default_rng([DRAW, seed]).choice(len(tasks), size=count, replace=False)
    return [tasks[int(pick)] for pick in sorted(picks)]


def evaluation_tasks(sandbox: Sandbox, split: str, count: int, settings: Settings, seed: int) -> Sequence[str]:
    """The tasks of a split that a run with this seed is evaluated on, `count` or all where there are fewer.

    Of runs with a pool of their own, they are drawn by the seed as well; else they are the first, the same for all seeds.
    """
    tasks = split_tasks(sandbox, split, settings, seed)
    if split == POOL or not settings.train_tasks or count >= len(tasks):
        return tasks[:count]
    key = [EVALUATED, seed, *split.encode()]
    picks = np.random.default_rng(key).choice(len(tasks), size=count, replace=False)
    return [tasks[int(pick)] for pick in sorted(picks)]


def split_tasks(sandbox: Sandbox, split: str, settings: Settings, seed: int) -> Sequence[str]:
    """The tasks of a split, among them the split `pool`; all of them, in their order."""
    return training_tasks(sandbox, settings, seed) if split == POOL else tasks_of(sandbox, split)
