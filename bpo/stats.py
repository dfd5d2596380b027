"""Intervals for few seeds and many tasks: paired, hierarchical bootstrap.

Success is an array [seeds, tasks]: the mean over an episode's samples for each training seed and evaluation task. Seeds are
resampled, and within them tasks; tasks are common to all methods (and so are their random streams), hence paired. With two or
three seeds the interval says little about seed-to-seed variation: print the seeds' own values beside it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

RESAMPLES = 4000
LEVEL = 95.0


def interval(values: np.ndarray) -> tuple[float, float]:
    """Percentile interval of bootstrap values [resamples]."""
    low, high = np.percentile(values, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)


def bootstrap(
    arrays: list[np.ndarray], statistic: Callable[[list[float]], float], seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, tuple[float, float]]:
    """A statistic of the mean success of several methods, with its 95 % interval.

    arrays: one [seeds, tasks] array per method, the same tasks in the same order. A method with one policy for all seeds (the
    warm start) has one row. Seeds of equal number of rows are paired: they share training tasks.
    """
    tasks = {array.shape[1] for array in arrays}
    if len(tasks) != 1:
        raise ValueError(f"methods were evaluated on different numbers of tasks: {sorted(tasks)}")
    rng = np.random.default_rng(seed)
    rows = sorted({array.shape[0] for array in arrays})
    values = np.empty(resamples)
    for i in range(resamples):
        columns = rng.integers(0, array_tasks := tasks_of(arrays), size=array_tasks)
        picks = {count: rng.integers(0, count, size=count) for count in rows}
        values[i] = statistic([float(array[picks[array.shape[0]]][:, columns].mean()) for array in arrays])
    return statistic([float(array.mean()) for array in arrays]), interval(values)


def tasks_of(arrays: list[np.ndarray]) -> int:
    """Number of evaluation tasks."""
    return arrays[0].shape[1]


def difference(method: np.ndarray, other: np.ndarray, seed: int = 0) -> tuple[float, tuple[float, float]]:
    """Mean success of `method` minus that of `other`, paired by task and, where both have them, by seed."""
    return bootstrap([method, other], lambda means: means[0] - means[1], seed)


def success(method: np.ndarray, seed: int = 0) -> tuple[float, tuple[float, float]]:
    """Mean success of one method."""
    return bootstrap([method], lambda means: means[0], seed)


def ratio_of_noise(
    a: list[np.ndarray], b: list[np.ndarray], measure: Callable[[np.ndarray], float], seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, tuple[float, float]]:
    """measure(a) / measure(b) of gradient norms, lists of [draws] arrays (one per seed), draws paired by position."""
    x, y = np.concatenate(a), np.concatenate(b)
    if x.shape != y.shape:
        raise ValueError(f"gradient draws differ in number: {x.shape[0]} and {y.shape[0]}")
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(x), size=(resamples, len(x)))
    values = np.array([measure(x[p]) / measure(y[p]) if measure(y[p]) else np.nan for p in picks])
    return measure(x) / measure(y) if measure(y) else float("nan"), interval(values[np.isfinite(values)])
