"""One training run in a family, J exact after every update, and what it says at equal returns, steps and cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpo import finite
from bpo.config import Settings
from bpo.lab.dynamic import expected_return, log_softmax, optimum
from bpo.lab.family import Family
from bpo.lab.policies import FeaturePolicy
from bpo.lab.sandbox import MOST_TASKS, FamilySandbox
from bpo.methods import BuiltMethod
from bpo.rollout import grow
from bpo.tree import ROOT, Tree

# Independent rollouts of a tree, and trees of an update, that budgets are counted in.
RETURNS, TREES = 13, 2
# Updates are cut off at so many times those of the budget; a method that has not spent it by then cannot be compared.
PATIENCE = 12
# The learner's settings in every run. The bound of the gradient's norm is never met: Adam's step does not depend on the scale,
# and clipping would bend means.
LEARNER: Mapping[str, Any] = {
    "epochs": 1,
    "mini_batches": 1,
    "schedule": "constant",
    "beta": 0.0,
    "clip": 0.2,
    "max_grad_norm": 1e9,
}
# Sums of prices are off by this share at most.
ROUNDING = 1e-9
# First integers of the keys of the streams that a run spawns.
TASKS, ROLLOUT = 1, 2
AXES = ("returns", "steps", "cost")


@dataclass(frozen=True)
class Budget:
    """What every run of a comparison spends at least, on each axis: areas are cut there.

    updates        of RETURNS independent rollouts in TREES trees, which is where the other three come from
    returns, steps finished episodes and actions
    cost           prices of the actions and of the forks below the root
    """

    updates: int
    returns: float
    steps: float
    cost: float

    @classmethod
    def of(cls, family: Family, updates: int) -> Budget:
        """What so many updates by independent rollouts cost, all of which begin at the root."""
        returns = float(updates * RETURNS * TREES)
        layers = [layer.start for layer in family.layers]
        return cls(updates, returns, returns * family.horizon, returns * float(family.price[layers].sum()))


@dataclass(frozen=True)
class Curve:
    """A run: entry k is after k updates; entry 0 is the start.

    value  float64 [n + 1], J
    spent  axis -> float64 [n + 1], in all
    forks  float64 [n + 1], paths that began below the root
    """

    value: np.ndarray
    spent: Mapping[str, np.ndarray]
    forks: np.ndarray


def train(
    family: Family,
    kind: str,
    method: BuiltMethod,
    lr: float,
    seed: int,
    done: Callable[[int, Mapping[str, float], float], bool],
) -> Curve:
    """Train by the library's own growth, credit and learner until `done(updates, spent, J)`.

    kind  policy, see `bpo.lab.policies`
    """
    settings = Settings(lr=lr, **LEARNER)
    policy = FeaturePolicy(family, kind)
    memory = method.memory()
    learner = method.learner(policy, memory, method, settings, seed)
    boxes = [FamilySandbox(family) for _ in range(TREES * method.growth.trees)]
    totals = {"returns": 0.0, "steps": 0.0, "cost": 0.0}
    rows = [(expected_return(family, policy.probabilities()), *totals.values(), 0.0)]
    forks, number = 0, 0
    while not done(number, totals, rows[-1][0]):
        tasks = tasks_of(seed, number)
        trees, ledger = grow(tasks, boxes, policy, method.growth, (ROLLOUT, seed, number), memory=memory, spare=iter(()))
        credits = method.credit(trees, memory)
        finite.require_batch(number + 1, trees, credits)
        learner.learn(number, trees, credits)
        memory.observe(trees)
        number += 1
        began = sum(map(forks_below_root, trees))
        forks += began
        totals["returns"] += ledger.returns
        totals["steps"] += ledger.env_steps
        totals["cost"] += sum(box.take_spent() for box in boxes) + family.fork * began
        rows.append((expected_return(family, policy.probabilities()), *totals.values(), float(forks)))
    value, *spent, forked = np.array(rows).T
    return Curve(value, dict(zip(AXES, spent, strict=True)), forked)


def tasks_of(seed: int, number: int) -> list[str]:
    """The tasks of an update, draws of chance: the same for all methods at equal seed."""
    picks = np.random.default_rng([TASKS, seed, number]).choice(MOST_TASKS, size=TREES, replace=False)
    return [f"draw-{int(pick)}" for pick in picks]


def forks_below_root(tree: Tree) -> int:
    """Paths of a tree that began in a stored state below the root, auxiliary rollouts included."""
    above = np.maximum(tree.parent, ROOT)
    first = (tree.sibling_index > 0) | (tree.auxiliary & ~tree.auxiliary[above])
    return int((first & (above != ROOT)).sum())


def spends(budget: Budget) -> Callable[[int, Mapping[str, float], float], bool]:
    """Whether a run has spent the budget on every axis, or has run out of patience."""

    def done(updates: int, spent: Mapping[str, float], value: float) -> bool:
        return updates >= PATIENCE * budget.updates or all(_reached(spent[axis], getattr(budget, axis)) for axis in AXES)

    return done


def area(value: Sequence[float], spent: Sequence[float], budget: float) -> float:
    """Mean of J over [0, budget], where J is what the policy had while it was spent; nan where less was spent.

    value, spent  float [n + 1] as in `Curve`: an update's rollouts are drawn by the policy before it
    """
    value, spent = np.asarray(value, float), np.asarray(spent, float)
    if not _reached(spent[-1], budget):
        return float("nan")
    return float(value[:-1] @ np.diff(np.minimum(spent, budget)) / budget)


def _reached(spent: float, budget: float) -> bool:
    return spent >= budget * (1 - ROUNDING)


def share(family: Family, value: np.ndarray | float) -> np.ndarray | float:
    """J as a share of the way from the start policy to the optimum: 0 at the start, 1 at the best policy."""
    start = expected_return(family, np.exp(log_softmax(family.start)))
    return (value - start) / (optimum(family) - start)


def measured(family: Family, curve: Curve, budget: Budget) -> dict[str, float]:
    """What a table takes from a run: per axis the area of J's share and J's share when the budget was spent; what was spent."""
    value = np.asarray(share(family, curve.value))
    found: dict[str, float] = {}
    for axis in AXES:
        limit, spent = getattr(budget, axis), curve.spent[axis]
        found[f"area_{axis}"] = area(value, spent, limit)
        found[f"final_{axis}"] = float(value[np.searchsorted(spent, limit * (1 + ROUNDING), side="right") - 1])
    found |= {axis: float(curve.spent[axis][-1]) for axis in AXES}
    return {**found, "forks": float(curve.forks[-1]), "updates": float(len(curve.value) - 1), "last": float(value[-1])}


def timed(run: Callable[[], Curve]) -> tuple[Curve, float]:
    """A run and its CPU seconds."""
    start = time.process_time()
    return run(), time.process_time() - start
