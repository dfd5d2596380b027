"""Intervals for few seeds and many tasks: a paired bootstrap over seeds and tasks.

Success is an array [seeds, tasks]: the mean over an episode's samples for each training seed and evaluation task. All methods
are evaluated on the same tasks with the same random streams, and equal seeds share their training tasks, so one resample draws
the seeds and the tasks once and uses them for every method: differences are paired. The tasks of a resample are common to its
seeds, because a task is as hard for one seed as for the next.

What such an interval covers. With many seeds, or where seeds hardly differ, a crossed bootstrap errs on the wide side (Owen
2007, arXiv 0712.1111). With few seeds that differ it is too narrow, because a resample of two or three seeds varies less than
new seeds do. Measured for 200 tasks and a nominal 95 %, by the standard deviation of the seeds' true success:

    seeds    sd 0    .02    .05    .10          the same, `covering`
      2      .99    .97    .90    .77           1.00   1.00   .98   .97
      3      .98    .98    .92    .86            .99    .99   .97   .97
      5      .99    .97    .96    .92            .99    .98   .98   .97
     15      .96    .96    .95    .95            .96    .97   .95   .97

With 2 seeds it is thus one of them, and not the interval, that says how much another training run would differ: print the
seeds' own values beside it, or use `covering`, which is as wide as that takes. With one seed nothing is said about seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 4000
LEVEL = 95.0
# Sums of shares like 1/3 are off by this much at most.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where the interval lies wholly above or below zero (up to rounding), else 0."""
        return int(self.low > ROUNDING) - int(self.high < -ROUNDING)


def interval(values: np.ndarray) -> tuple[float, float]:
    """Percentile interval of bootstrap values [resamples]; (nan, nan) where there are none."""
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.percentile(values, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)


def bootstrap(
    arrays: Sequence[np.ndarray], statistic: Callable[..., np.ndarray], seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """A statistic of the mean successes of several methods.

    arrays     one [seeds, tasks] array per method, the same tasks in the same order. Methods with equally many seeds are
               resampled with the same seeds; a method with one policy for all seeds (the warm start) has one row
    statistic  called with one argument per method, its mean successes [resamples]; returns [resamples]
    """
    arrays = [np.asarray(array, float) for array in arrays]
    widths = sorted({array.shape[1] for array in arrays})
    if len(widths) != 1:
        raise ValueError(f"methods were evaluated on different numbers of tasks: {widths}")
    rng = np.random.default_rng(seed)
    tasks = _counts(rng, resamples, widths[0])
    seeds = {rows: _counts(rng, resamples, rows) for rows in sorted({len(array) for array in arrays})}
    means = [((seeds[len(array)] @ array) * tasks).sum(axis=1) / array.size for array in arrays]
    value = statistic(*(np.array([array.mean()]) for array in arrays))[0]
    return Estimate(float(value), *interval(statistic(*means)))


def difference(method: np.ndarray, other: np.ndarray, seed: int = 0) -> Estimate:
    """Mean success of `method` minus that of `other`, paired by task and, where both have equally many, by seed."""
    return bootstrap([method, other], np.subtract, seed)


def success(method: np.ndarray, seed: int = 0) -> Estimate:
    """Mean success of one method."""
    return bootstrap([method], lambda mean: mean, seed)


def covering(values: np.ndarray) -> Estimate:
    """Mean with an interval that covers with few seeds too; `values` is [seeds, tasks], or a difference of two such, paired.

    Seeds and tasks are two sources of error, each with its own t interval; their half-widths are added as squares. The part
    that belongs to neither is counted twice, so it errs on the wide side. ValueError with one seed or one task, of which no
    variation can be seen.
    """
    from scipy.stats import t

    values = np.asarray(values, float)
    if min(values.shape) < 2:
        raise ValueError(f"{values.shape[0]} seeds and {values.shape[1]} tasks: two of each are needed to see how they vary")
    square = 0.0
    for means in (values.mean(axis=1), values.mean(axis=0)):
        square += t.ppf(0.5 + LEVEL / 200, len(means) - 1) ** 2 * means.var(ddof=1) / len(means)
    half, mean = float(np.sqrt(square)), float(values.mean())
    return Estimate(mean, mean - half, mean + half)


def variance(norms: np.ndarray) -> np.ndarray:
    """Var|g| over the last axis."""
    return np.var(norms, axis=-1)


def scale_free(norms: np.ndarray) -> np.ndarray:
    """Var|g| / mean(|g|)^2 over the last axis; nan where the mean is zero."""
    mean = np.mean(norms, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(mean > 0, np.var(norms, axis=-1) / mean**2, np.nan)


def ratio_of_noise(
    norms: Sequence[float],
    reference: Sequence[float],
    measure: Callable[[np.ndarray], np.ndarray],
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """measure(norms) / measure(reference) of gradient norms [draws] at one frozen policy, draws paired by their tasks.

    Resamples in which the reference does not vary are left out.
    """
    x, y = np.asarray(norms, float), np.asarray(reference, float)
    if x.shape != y.shape:
        raise ValueError(f"gradient draws differ in number: {len(x)} and {len(y)}")
    picks = np.random.default_rng(seed).integers(0, len(x), size=(resamples, len(x)))
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(np.divide(measure(x), measure(y)))
        values = np.divide(measure(x[picks]), measure(y[picks]))
    return Estimate(value if np.isfinite(value) else float("nan"), *interval(values[np.isfinite(values)]))


def _counts(rng: np.random.Generator, resamples: int, items: int) -> np.ndarray:
    # How often each item is drawn in each resample: float64 [resamples, items], every row sums to `items`.
    picks = rng.integers(0, items, size=(resamples, items))
    counts = np.zeros((resamples, items))
    np.add.at(counts, (np.arange(resamples)[:, None], picks), 1.0)
    return counts
