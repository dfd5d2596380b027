"""Gradient noise: how much one update's gradient varies at a frozen policy, for any method, before and after clipping.

The measures are stated and proved in docs/theory.md, section 9. Everything follows from the inner products of independent
gradients (their Gram matrix), so a few hundred numbers are all that has to be kept of a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bpo import update
from bpo.errors import BadInput
from bpo.finite import require_finite
from bpo.memory import Memory
from bpo.methods import BuiltMethod
from bpo.policy import Policy
from bpo.rollout import grow
from bpo.sandbox import Sandbox

# First integers of the keys: draws that are measured, and draws that only feed what a method learns from earlier iterations.
MEASURE, BURN_IN = 3, 4
# Draws that a method with such a memory sees before measuring starts.
BURN_IN_DRAWS = 2


@dataclass(frozen=True)
class Draw:
    """One gradient: its norm, and what it cost."""

    norm: float
    returns: int
    env_steps: int
    tokens: int


@dataclass(frozen=True)
class Directions:
    """What n independent gradients say about signal and noise (theory.md, M1; theory.md, M3).

    draws    n;  zero: how many of them are exactly zero
    signal   unbiased estimate of |E g|^2; it can be negative where there is little signal
    spread   unbiased estimate of trace(Cov g)
    noise    spread / signal: gradients to average until noise and signal are equally long; nan where signal <= 0
    cosine   mean cosine of two of the gradients that are not zero; nan where there are fewer than two
    noise_error, cosine_error   their standard errors (jackknife over the draws); nan where a leave-one-out value is
    """

    draws: int
    zero: int
    signal: float
    spread: float
    noise: float
    cosine: float
    noise_error: float
    cosine_error: float


def gradients(
    recipe: BuiltMethod, policy: Policy, sandboxes: Sequence[Sandbox], tasks: Sequence[Sequence[str]]
) -> Iterator[tuple[Draw, np.ndarray]]:
    """One gradient of the method's own loss per list of tasks, the policy held fixed: what it cost, and float [P], flat.

    At a frozen policy every ratio is 1 and the KL gradient is zero, so this is the gradient of the advantage term alone.
    Methods that are given the same policy and tasks can be compared. What a method learns from earlier iterations (the
    statistics of its selector, a running baseline) comes from draws of their own, before the first that is measured.
    """
    memory = _learn(recipe, policy, sandboxes, tasks)
    for number, batch_tasks in enumerate(tasks):
        trees, ledger = grow(batch_tasks, sandboxes, policy, recipe.growth, (MEASURE, number), memory=memory)
        batch = update.make_batch(trees, recipe.credit(trees, memory))
        update.zero_grad(policy)
        update.backward(policy, None, batch, recipe.objective, {})
        draw = Draw(update.grad_norm(policy.parameters()), ledger.returns, ledger.env_steps, ledger.computed)
        require_finite(f"gradient draw {number}", {"the norm": draw.norm})
        yield draw, update.flat_grad(policy)
    update.zero_grad(policy)


def gradient_draws(
    recipe: BuiltMethod,
    policy: Policy,
    sandboxes: Sequence[Sandbox],
    tasks: Sequence[Sequence[str]],
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Draw], np.ndarray]:
    """Norm and cost of one gradient per list of tasks (see `gradients`), and their Gram matrix, float64 [n, n]."""
    draws, vectors = [], []
    for draw, vector in gradients(recipe, policy, sandboxes, tasks):
        draws.append(draw)
        vectors.append(vector)
        if progress:
            progress(len(draws))
    return draws, gram(vectors)


def gram(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """float64 [n, n], inner products of gradients [P]; n P numbers are in memory while it is made."""
    rows = np.array(vectors, float)
    return rows @ rows.T


def clipped(products: np.ndarray, bound: float) -> np.ndarray:
    """Gram matrix of the same gradients after each was shortened to the norm `bound` where it is longer."""
    scale = _scale(products, bound)
    return products * scale[:, None] * scale[None, :]


def clipped_share(products: np.ndarray, bound: float) -> float:
    """Share of the gradients that are longer than `bound`."""
    return float((_scale(products, bound) < 1).mean())


def directions(products: np.ndarray) -> Directions:
    """Signal, spread, noise and cosine from a Gram matrix [n, n] of independent gradients; BadInput where n < 2.

    Clipping changes signal, spread and noise (give it `clipped(products, bound)`), and never a cosine.
    """
    n = len(products)
    if n < 2:
        raise BadInput(f"gradient noise is measured on pairs: {n} gradients were given, 2 or more are needed")
    squares = np.diag(products)
    lengths = np.sqrt(squares)
    alive = lengths > 0
    units = products / np.where(alive, lengths, 1.0)[:, None] / np.where(alive, lengths, 1.0)[None, :]
    signal, signals = _pair_mean(products, np.ones(n, bool))
    cosine, cosines = _pair_mean(units, alive)
    spread, spreads = squares.mean() - signal, (squares.sum() - squares) / (n - 1) - signals
    noises = np.append(spreads, spread) / np.where(np.append(signals, signal) > 0, np.append(signals, signal), np.nan)
    errors = _jackknife(noises[:-1]), _jackknife(cosines)
    return Directions(n, int((~alive).sum()), signal, float(spread), float(noises[-1]), cosine, *errors)


def summary(draws: Sequence[Draw]) -> dict[str, float]:
    """Variance of the norm, raw and divided by the squared mean (scale-free), with the mean cost of a draw.

    The variance of the norm is not the noise of the gradient (theory.md, M2): `directions` is.
    """
    norms = np.array([draw.norm for draw in draws])
    cost = {name: float(np.mean([asdict(draw)[name] for draw in draws])) for name in ("returns", "env_steps", "tokens")}
    return {"mean": float(norms.mean()), "raw": float(norms.var()), "scale_free": scale_free(norms), **cost}


def scale_free(norms: np.ndarray) -> float:
    """Var|g| / mean(|g|)^2 of gradient norms [n]."""
    return float(norms.var() / norms.mean() ** 2) if norms.mean() > 0 else float("nan")


def _learn(recipe: BuiltMethod, policy: Policy, sandboxes, tasks: Sequence[Sequence[str]]) -> Memory | None:
    """What a method remembers after some draws of their own; None for a method that learns nothing."""
    memory, selector = recipe.memory(), recipe.growth.selector
    if (selector is None or not selector.state_dict()) and recipe.parameters.get("root_baseline") != "running":
        return None
    for number in range(BURN_IN_DRAWS):
        trees, _ = grow(tasks[number % len(tasks)], sandboxes, policy, recipe.growth, (BURN_IN, number), memory=memory)
        memory.observe(trees)
    return memory


def _scale(products: np.ndarray, bound: float) -> np.ndarray:
    norms = np.sqrt(np.diag(products))
    return np.where(norms > bound, bound / np.where(norms > 0, norms, 1.0), 1.0)


def _pair_mean(values: np.ndarray, among: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean of values[i, j] over the pairs i != j of the members `among`, and the same without each member in turn [n]."""
    off = np.where(among[:, None] & among[None, :], values, 0.0)
    np.fill_diagonal(off, 0.0)
    total, rows, k = off.sum(), off.sum(axis=1), int(among.sum())
    left = k - among
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = np.float64(total) / (k * (k - 1))
        return float(whole), (total - 2 * rows) / (left * (left - 1))


def _jackknife(values: np.ndarray) -> float:
    """Standard error from the leave-one-out values [n]."""
    n = len(values)
    return float(np.sqrt((n - 1) / n * ((values - values.mean()) ** 2).sum()))
