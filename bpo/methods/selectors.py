"""Where to branch, by the names used in configurations; another package adds one by the entry points "bpo.selectors"."""

from __future__ import annotations

from bpo import select
from bpo.methods.selection import NamedSelector
from bpo.param import Param

threshold = NamedSelector(
    meaning="where the entropy reaches a fixed number of nats",
    causal=True,
    make=lambda spacing, value: select.Threshold(value, spacing),
    value=Param(0.5, "nats", low=0.0),
)
quantile = NamedSelector(
    meaning="where the entropy reaches a quantile of the boundaries of earlier iterations",
    causal=True,
    make=lambda spacing, value: select.QuantileThreshold(value, spacing),
    value=Param(0.5, "quantile of earlier boundaries", low=0.0, high=1.0),
)
coin = NamedSelector(
    meaning="at every boundary with the same probability",
    causal=True,
    make=lambda spacing, value: select.Coin(value, spacing),
    value=Param(0.5, "probability", low=0.0, high=1.0),
)
every = NamedSelector(
    meaning="at every k-th action",
    causal=True,
    make=lambda spacing, value: select.Every(int(value), spacing),
    value=Param(1, "number of steps", low=1),
)
root_only = NamedSelector(
    meaning="never below the root: independent rollouts",
    causal=True,
    make=lambda spacing, value: select.RootOnly(spacing),
)
top_entropy = NamedSelector(
    meaning="at the largest entropies of the finished backbone (the paper's)",
    causal=False,
    make=lambda spacing, value: select.TopEntropy(spacing),
)
top_window = NamedSelector(
    meaning="at the largest mean entropies of the first tokens after a boundary",
    causal=False,
    make=lambda spacing, value: select.TopWindow(spacing),
)
lowest_entropy = NamedSelector(
    meaning="at the smallest entropies (the paper's negative control)",
    causal=False,
    make=lambda spacing, value: select.LowestEntropy(spacing),
)
random = NamedSelector(
    meaning="at random boundaries of the finished backbone",
    causal=False,
    make=lambda spacing, value: select.RandomChoice(spacing),
)
equally_spaced = NamedSelector(
    meaning="at boundaries that divide the finished backbone evenly",
    causal=False,
    make=lambda spacing, value: select.EquallySpaced(spacing),
)
