"""Gradient noise: how much one update's gradient varies at a frozen policy, before clipping, for any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bpo import update
from bpo.finite import require_finite
from bpo.methods import BuiltMethod
from bpo.policy import Policy
from bpo.rollout import grow
from bpo.sandbox import Sandbox

# First integers of the keys: draws that are measured, and draws that only feed the selector's statistics.
MEASURE, BURN_IN = 3, 4
# Draws that a selector with statistics sees before measuring starts.
BURN_IN_DRAWS = 2


@dataclass(frozen=True)
class Draw:
    """One gradient: its norm, and what it cost."""

    norm: float
    returns: int
    env_steps: int
    tokens: int


def gradient_draws(
    recipe: BuiltMethod,
    policy: Policy,
    sandboxes: Sequence[Sandbox],
    tasks: Sequence[Sequence[str]],
    progress: Callable[[int], None] | None = None,
) -> list[Draw]:
    """One gradient of the method's loss per list of tasks, the policy held fixed.

    At a frozen policy every ratio is 1 and the KL gradient is zero, so this is the gradient of the advantage term alone.
    Methods that are given the same policy and tasks can be compared.
    """
    for number in range(BURN_IN_DRAWS if recipe.growth.selector.state_dict() else 0):
        trees, _ = grow(tasks[number % len(tasks)], sandboxes, policy, recipe.growth, (BURN_IN, number))
        recipe.growth.selector.observe(trees)
    draws = []
    for number, batch_tasks in enumerate(tasks):
        trees, ledger = grow(batch_tasks, sandboxes, policy, recipe.growth, (MEASURE, number))
        batch = update.make_batch(trees, update.credits_by_task(trees, recipe.credit, None))
        update.zero_grad(policy)
        update.backward(policy, None, batch, "reinforce", {})
        norm = update.grad_norm(policy)
        require_finite(f"gradient draw {number}", {"the norm": norm})
        draws.append(Draw(norm, ledger.returns, ledger.env_steps, ledger.computed))
        if progress:
            progress(len(draws))
    update.zero_grad(policy)
    return draws


def summary(draws: Sequence[Draw]) -> dict[str, float]:
    """Variance of the norm, raw and divided by the squared mean (scale-free), with the mean cost of a draw."""
    norms = np.array([draw.norm for draw in draws])
    cost = {name: float(np.mean([asdict(draw)[name] for draw in draws])) for name in ("returns", "env_steps", "tokens")}
    return {"mean": float(norms.mean()), "raw": float(norms.var()), "scale_free": scale_free(norms), **cost}


def scale_free(norms: np.ndarray) -> float:
    """Var|g| / mean(|g|)^2 of gradient norms [n]."""
    return float(norms.var() / norms.mean() ** 2) if norms.mean() > 0 else float("nan")
