"""Is an estimator unbiased? Enumerated on a few decision trees that are chosen to catch the usual ways of breaking it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bpo.credit import CreditRule
from bpo.errors import BadInput, listed
from bpo.exact.moments import Moments, Sampling, check_arguments, moments
from bpo.exact.problem import Problem
from bpo.rollout import Growth

# Largest bias, relative to the norm of grad J, that counts as rounding.
ROUNDING = 1e-10

# Lopsided probabilities and graded returns, so that no two paths can stand in for each other; entropies on both sides of 0.6.
# In the last one the first action can end the episode: only there does the length of a path say what was drawn.
PROBLEMS = (
    Problem.from_spec({"p": [0.6, 0.3, 0.8, 0.5, 0.3, 0.55, 0.2], "r": [0.0, 0.1, 1.0, 0.0, 0.7, 0.0, 0.2, 1.0]}),
    Problem.from_spec(
        {
            "p": [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.05, 0.9, 0.05], [0.4, 0.3, 0.3]],
            "r": [0.0, 1.0, 0.3, 0.5, 0.2, 0.9, 0.1, 0.0, 1.0],
        }
    ),
    Problem.from_spec({"p": [0.6, 0.5, 0.35], "r": [0.0, 0.0, 0.1, 1.0], "ends": {"0": 0.3}}),
)
# Coins of the boundaries. A choice by coin is fixed given the coins, so that one set of them can hide what it looks at.
COINS = ((0,), (1,), (2,), (3,))


@dataclass(frozen=True)
class Verdict:
    """Result of a check: the moments on every problem (and set of coins), and the largest bias relative to |grad J|."""

    moments: tuple[Moments, ...]
    relative_bias: float

    @property
    def unbiased(self) -> bool:
        """Whether the bias is rounding on every problem."""
        return self.relative_bias < ROUNDING


def check_unbiased(
    growth: Growth, rule: CreditRule, *, problems: Sequence[Problem] = PROBLEMS, sampling: Sampling | None = None
) -> Verdict:
    """Compare the exact mean of an estimate with grad J on every problem; see `moments` for the arguments.

    An unbiased estimator passes on every problem; a biased one may pass on some, so passing is evidence, failing a proof.
    Problems with early ends are checked given several sets of coins; elsewhere a choice by coin cannot know anything.
    """
    problems = listed("problems", problems, "a list of problems")
    if not problems:
        raise BadInput("problems is []; one problem is needed at least")
    for problem in problems:
        check_arguments(problem, growth, rule)
    found = tuple(
        moments(problem, growth, rule, sampling=sampling, key=key)
        for problem in problems
        for key in (COINS if problem.ends else COINS[:1])
    )
    return Verdict(found, max(m.bias / float(np.linalg.norm(m.gradient)) for m in found))
