"""Exact noise of a gradient estimate: signal, spread, direction and length over all trees, before and after clipping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpo.credit import CreditRule
from bpo.errors import BadInput
from bpo.exact.moments import parts
from bpo.exact.problem import Problem
from bpo.exact.realise import LIMIT, Budget
from bpo.rollout import Growth


@dataclass(frozen=True)
class ExactDirections:
    """What `bpo.noise.directions` estimates, without sampling error, for the gradient of one task's trees.

    signal           |E g|^2;  spread: trace(Cov g);  zero: probability of a gradient that is exactly zero
    cosine           mean cosine of two independent gradients that are not zero (theory.md, M3)
    cosine_to_truth  mean cosine of one such gradient to grad J
    norm_noise       Var|g| / (E|g|)^2, which is not noise (theory.md, M2)
    """

    signal: float
    spread: float
    zero: float
    cosine: float
    cosine_to_truth: float
    norm_noise: float

    @property
    def noise(self) -> float:
        """spread / signal (theory.md, M1)."""
        return self.spread / self.signal


def exact_directions(
    problem: Problem, growth: Growth, rule: CreditRule, *, bound: float = float("inf"), limit: int = LIMIT
) -> ExactDirections:
    """Directions over all trees, each gradient shortened to the norm `bound` where it is longer.

    Errors: BadInput where there are more than `limit` realisations.
    """
    exact, found = parts(problem, growth, rule, Budget(limit=limit))
    if not exact:
        raise BadInput(f"more than {limit:,} trees: directions are enumerated; take a smaller problem or fewer branch points")
    kept = [(part.chance, part.estimate.reshape(len(part.chance), -1)) for part in found]
    chance, gradient = np.concatenate([c for c, _ in kept]), np.concatenate([g for _, g in kept])
    norm = np.linalg.norm(gradient, axis=1)
    gradient = gradient * np.where(norm > bound, bound / np.where(norm > 0, norm, 1.0), 1.0)[:, None]
    norm = np.minimum(norm, bound)
    mean, alive = chance @ gradient, norm > 0
    unit = (chance[alive, None] * gradient[alive] / norm[alive, None]).sum(axis=0) / chance[alive].sum()
    truth = problem.gradient.ravel() / np.linalg.norm(problem.gradient)
    signal = float(mean @ mean)
    return ExactDirections(
        signal=signal,
        spread=float(chance @ norm**2) - signal,
        zero=float(chance[~alive].sum()),
        cosine=float(unit @ unit),
        cosine_to_truth=float(unit @ truth),
        norm_noise=float(chance @ norm**2 / (chance @ norm) ** 2 - 1),
    )
