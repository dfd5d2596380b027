"""How good a policy is: fixed panels of tasks, actions sampled from common per-task streams, success by task type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bpo.finite import require_finite
from bpo.policy import Policy
from bpo.rollout import TRAJECTORY, Growth, Ledger, grow
from bpo.sandbox import Sandbox

# First integer of the key of every evaluation stream: the same for all methods and seeds, so that their episodes are paired.
EVALUATION = 7919


@dataclass(frozen=True)
class Episode:
    """One evaluated episode; `score` is in [0, 1], for sandboxes that have nothing but success it is that."""

    task: str
    sample: int
    task_type: str
    success: bool
    score: float
    total: float
    steps: int


def evaluate(
    policy: Policy,
    sandboxes: Sequence[Sandbox],
    tasks: Sequence[str],
    samples: int = 1,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Episode], Ledger]:
    """`samples` episodes of every task, actions drawn from the policy itself (no greedy decoding, no selection).

    The stream of an episode depends on its task and sample only, so two policies meet the same random numbers.
    """
    growth = Growth(**{**vars(TRAJECTORY), "trees": samples})
    trees, ledger = grow(tasks, sandboxes, policy, growth, (EVALUATION,), progress)
    episodes = []
    for tree in trees:
        require_finite(f"task {tree.task!r}", {"a return": tree.returns})
        last = tree.outcome[tree.leaves[0]]
        kind, won = str(last.get("task_type", "")), bool(last.get("won", False))
        score = float(last.get("score", won))
        steps = sum(step.decision.ended for step in tree.steps if step is not None)
        episodes.append(Episode(tree.task, tree.index, kind, won, score, float(tree.value[0]), steps))
    return episodes, ledger


def success(episodes: Sequence[Episode]) -> float:
    """Share of episodes that succeeded."""
    return float(np.mean([e.success for e in episodes])) if episodes else float("nan")


def by_type(episodes: Sequence[Episode]) -> dict[str, tuple[float, int]]:
    """(success, number of episodes) per task type."""
    groups: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        groups[episode.task_type].append(episode)
    return {kind: (success(groups[kind]), len(groups[kind])) for kind in sorted(groups)}


def plain(episodes: Sequence[Episode]) -> list[dict]:
    """Episodes as plain records for JSON."""
    return [asdict(episode) for episode in episodes]
