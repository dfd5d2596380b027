"""Percentile intervals of bootstrap values, for statistics of which nothing better is known; `bpo.compare` compares runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEVEL = 95.0


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def interval(values: np.ndarray) -> tuple[float, float]:
    """Percentile interval of bootstrap values [resamples]; (nan, nan) where there are none."""
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.percentile(values, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)
