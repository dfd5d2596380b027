"""Numbers that are none: whoever meets NaN or an infinity stops before it is used, and says where it was."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bpo.errors import BadInput

# Above it the square of a gradient's norm overflows in float32: clipping would turn every gradient into zero without a word.
LARGEST_NORM = math.sqrt(float(np.finfo(np.float32).max))


class NotFinite(BadInput):
    """A number that a run depends on is NaN or infinite; what was written before it is kept."""


def require_finite(where: str, values: Mapping[str, Any], advice: str = "") -> None:
    """Raise NotFinite naming `where` and the first of the named numbers, arrays or tensors that is not finite throughout."""
    for name, value in values.items():
        wrong = _first_wrong(value)
        if wrong is not None:
            raise NotFinite(f"{where}: {name} is {wrong}, which is no finite number{advice and f'; {advice}'}")


def require_mass(total: Any) -> None:
    """Raise NotFinite unless each sum of probabilities is a number: it is NaN where a single log-probability is."""
    if not np.isfinite(total).all():
        raise NotFinite("no action can be drawn: the policy's log-probabilities are NaN, so its weights are no numbers")


def require_batch(update: int, trees: Sequence[Any], credits: Sequence[Any]) -> None:
    """Raise NotFinite naming the update where a return, an advantage or a weight of an edge is not finite."""
    for tree, credit in zip(trees, credits, strict=True):
        signal = credit.has_signal
        values = {"a return": tree.returns, "an advantage": credit.advantage[signal], "a weight": credit.weight[signal]}
        require_finite(f"update {update}, task {tree.task!r}", values, "nothing of this update is kept")


def require_step(update: int, loss: float, norm: float, lr: float) -> None:
    """Raise NotFinite, before the optimiser steps, where loss or gradient are not finite or too large to be clipped."""
    values = {"the loss": loss, "the gradient's norm": math.inf if norm > LARGEST_NORM else norm}
    advice = f"its step is not made and the last checkpoint is kept: try a smaller lr than {lr:g}"
    require_finite(f"update {update}", values, advice)


def require_weights(where: str, parameters: Iterable[Any], advice: str = "") -> None:
    """Raise NotFinite where a weight is not finite."""
    require_finite(where, {f"weight {number}": parameter for number, parameter in enumerate(parameters)}, advice)


def _first_wrong(value: Any) -> float | None:
    if hasattr(value, "detach"):
        value = value.detach()
        fits = value.isfinite()
        return None if bool(fits.all()) else float(value[~fits].flatten()[0])
    array = np.asarray(value, float)
    fits = np.isfinite(array)
    return None if fits.all() else float(array[~fits].flat[0])
