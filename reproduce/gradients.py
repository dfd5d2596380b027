"""Gradient noise at the frozen warm starts, from the Gram matrices that runs have on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bpo import compare, noise


def gradient_noise(results: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Noise and direction of a row's gradients, over the seeds that measured any; None where none did.

    noise    trace(Cov g) / |E g|^2, before clipping and after (`clipped_noise`): the unbiased estimates of spread and of signal
             are averaged over the seeds first, since their ratio has no mean; None where the averaged signal is not positive
    cosine   mean cosine of two independent gradients: clipping does not change it
    clipped  share of the gradients that are longer than the run's bound
    Intervals are t intervals over seeds, of the noise by the jackknife on its logarithm; None with one seed.
    """
    measured = [(run["noise"], run["config"]["settings"]["max_grad_norm"]) for run in results if run["noise"]]
    measured = [(found, bound) for found, bound in measured if len(found["draws"]) > 1]
    if not measured:
        return None
    grams = [np.array(found["gram"]) for found, _ in measured]
    bounds = [bound for _, bound in measured]
    before = [noise.directions(gram) for gram in grams]
    after = [noise.directions(noise.clipped(gram, bound)) for gram, bound in zip(grams, bounds, strict=True)]
    cosines = [one.cosine for one in before if np.isfinite(one.cosine)]
    shares = [noise.clipped_share(gram, bound) for gram, bound in zip(grams, bounds, strict=True)]
    return {
        "draws": int(sum(one.draws for one in before)),
        "tasks": measured[0][0]["tasks"],
        "noise": _ratio(before),
        "clipped_noise": _ratio(after),
        "cosine": _mean(cosines),
        "clipped": float(np.mean(shares)),
        "seeds": [{"signal": one.signal, "spread": one.spread, "cosine": _number(one.cosine)} for one in before],
    }


def _ratio(found: Sequence[noise.Directions]) -> dict[str, float | None]:
    signal, spread = (np.array([getattr(one, name) for one in found]) for name in ("signal", "spread"))
    count = len(found)
    if signal.sum() <= 0:
        return {"value": None, "low": None, "high": None}
    value = float(spread.sum() / signal.sum())
    left = signal.sum() - signal
    if count < 2 or (left <= 0).any() or value <= 0 or (spread.sum() - spread <= 0).any():
        return {"value": value, "low": None, "high": None}
    from scipy.stats import t

    logs = np.log((spread.sum() - spread) / left)
    error = float(np.sqrt((count - 1) / count * ((logs - logs.mean()) ** 2).sum()))
    half = float(t.ppf(1 - compare.ALPHA / 2, count - 1)) * error
    return {"value": value, "low": value * float(np.exp(-half)), "high": value * float(np.exp(half))}


def _mean(values: Sequence[float]) -> dict[str, float | None]:
    if len(values) < 2:
        return {"value": values[0] if values else None, "low": None, "high": None}
    found = compare.mean(values)
    return {"value": found.value, "low": found.low, "high": found.high}


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
