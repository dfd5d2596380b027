"""Verdicts on paired runs: differences with t intervals over seeds, and Holm's correction over all pairs that a table shows.

A run's number (an area under a curve, a final success) is one value per seed. Methods at equal seed share tasks and warm start,
so differences are taken seed by seed. The seeds are then the only source of error, and the t interval covers it: how well, on
runs whose truth is known, is in docs/lab.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Key = TypeVar("Key", bound=Hashable)

# Nominal share of intervals that miss, and the chance of any false verdict in a family of comparisons.
ALPHA = 0.05
# Differences below this share of the values are rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Difference:
    """A mean over seeds with the ends of its 95 % interval.

    p      two-sided p value of the mean being 0
    seeds  how many values it is the mean of
    """

    value: float
    low: float
    high: float
    p: float
    seeds: int


@dataclass(frozen=True)
class Verdict:
    """A difference as one of a family of comparisons.

    adjusted  Holm's p value: the least level at which the family as a whole rejects this comparison
    sign      1 or -1 where `adjusted` is at most ALPHA, and 0 where nothing can be said
    """

    difference: Difference
    adjusted: float
    sign: int


def mean(values: Any) -> Difference:
    """Mean of one value per seed with its t interval; `values` is float [seeds].

    Exact for normal values; for others as good as the mean of so many is normal. ValueError for fewer than two seeds, of which
    no variation can be seen, and for values that are not finite.
    """
    values = np.asarray(values, float)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"values have shape {values.shape}; one value per seed is needed, of at least two seeds")
    if not np.isfinite(values).all():
        raise ValueError(f"value {int(np.flatnonzero(~np.isfinite(values))[0])} is not finite")
    return Difference(*(float(one[0]) for one in _means(values[None])), len(values))


def _means(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(mean, low, high, p) of every row of float [n, seeds], float [n] each."""
    from scipy.special import stdtr, stdtrit

    count, centre = values.shape[1], values.mean(axis=1)
    error = values.std(axis=1, ddof=1) / np.sqrt(count)
    rounding = ROUNDING * np.abs(values).max(axis=1)
    same = error <= rounding  # every seed says the same
    half = np.where(same, 0.0, stdtrit(count - 1, 1 - ALPHA / 2) * error)
    p = 2 * stdtr(count - 1, -np.abs(centre) / np.where(same, 1.0, error))
    return centre, centre - half, centre + half, np.where(same, np.abs(centre) <= rounding, p)


def paired(method: Any, other: Any) -> Difference:
    """`method` minus `other`, both float [seeds] with the same seeds in the same order; see `mean`."""
    method, other = np.asarray(method, float), np.asarray(other, float)
    if method.shape != other.shape:
        raise ValueError(f"{method.shape} and {other.shape} values; pairs need the same seeds")
    scale = np.maximum(np.abs(method), np.abs(other))
    # What two equal runs differ by is rounding, not a verdict.
    return mean(np.where(np.abs(method - other) <= ROUNDING * scale, 0.0, method - other))


def holm(p: Sequence[float]) -> np.ndarray:
    """Holm's adjusted p values, float [n]: rejecting those <= ALPHA keeps the chance of any false rejection below it.

    Valid whatever the dependence (Holm 1979, Scand. J. Statist. 6). The smallest p is multiplied by n, the next by n - 1, ...;
    none is smaller than one before it.
    """
    values = np.asarray(p, float)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return adjusted


def verdicts(family: Mapping[Key, Difference]) -> dict[Key, Verdict]:
    """The verdicts of comparisons that are read together: every pair of a table, for instance."""
    adjusted = holm([one.p for one in family.values()])
    return {
        key: Verdict(one, float(p), int(np.sign(one.value)) if p <= ALPHA else 0)
        for (key, one), p in zip(family.items(), adjusted, strict=True)
    }


def all_pairs(values: Mapping[str, Any]) -> dict[tuple[str, str], Verdict]:
    """Every method against every other, (first, second) -> first minus second; `values` maps a name to float [seeds]."""
    return verdicts({(a, b): paired(values[a], values[b]) for a, b in itertools.combinations(values, 2)})


def coverage(values: Any, seeds: int, draws: int, rng: np.random.Generator) -> float:
    """Share of `draws` of so many seeds whose interval holds the mean of all `values`.

    values  float [many]: their mean is the truth, and each draw is independent (with replacement)
    """
    values = np.asarray(values, float)
    _, low, high, _ = _means(values[rng.integers(0, len(values), (draws, seeds))])
    return float(np.mean((low <= values.mean()) & (values.mean() <= high)))


def false_alarms(values: Any, seeds: int, draws: int, rng: np.random.Generator, family: int = 1) -> float:
    """Share of `draws` in which a method differs from itself under another name; the two names share no seed.

    values  float [many], one method's
    family  comparisons that are read together: in a draw, each is of fresh seeds, and one verdict is an alarm
    """
    values = np.asarray(values, float)
    if len(values) < 2 * seeds:
        raise ValueError(f"{len(values)} values; two names with {seeds} seeds each need {2 * seeds}")
    alarms = 0
    for _ in range(draws):
        names = np.array([rng.permutation(len(values))[: 2 * seeds].reshape(2, seeds) for _ in range(family)])
        p = _means(values[names[:, 0]] - values[names[:, 1]])[3]
        alarms += bool((holm(p) <= ALPHA).any())
    return alarms / draws
