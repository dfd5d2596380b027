"""Mass splitting: the weight of an edge is the mass that was planned for it, its baseline that of its siblings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bpo.credit.record import SPREAD, Credit, each, leave_one_out, reads, require_finished, trained
from bpo.errors import BadInput, shown
from bpo.tree import ROOT, Tree


@reads("returns")
def bpo_split(
    trees: Sequence[Tree], running: float | None = None, *, root_baseline: str = "trees", shrink: float = 0.0
) -> list[Credit]:
    """Mass splitting (docs/theory.md, section 5): advantage Q_e - b_e, weight m_e.

    Q_e is the mass-weighted mean return of the leaves below the edge, b_e the weighted mean of Q over the other children of
    the nearest branch point at or above it. Above the first branch point `root_baseline` is "trees" (mean root value of the
    task's other trees), "running" (mean of earlier iterations) or "zero". `shrink` in [0, 1] mixes the baseline of the level
    above into the sibling mean: b = (1 - shrink) * siblings + shrink * b above, which holds nothing from below the branch
    point; the root's own group has no level above and stays as it is. Unbiased for grad J when branch points are causal,
    children are i.i.d. draws with replacement and neither weights nor shrink depend on the children's actions (theory.md, T3).
    Source: importance splitting; for rollout trees the Branch Aggregation Lemma of OPTS-TTPO (arXiv 2609.40035). New here:
    branch points that are causal by construction, sibling baselines without a critic, planned weights, shrinkage.
    """
    if root_baseline not in ("trees", "running", "zero"):
        raise BadInput(f"root_baseline is {root_baseline!r}; it must be 'trees', 'running' or 'zero'")
    if not isinstance(shrink, float | int | np.number) or not 0 <= shrink <= 1:
        raise BadInput(f"shrink is {shown(shrink)}; it must be a number from 0 to 1")
    roots = np.array([tree.value[ROOT] for tree in each(trees)])
    credits = []
    for i, tree in enumerate(trees):
        if len(tree.children[ROOT]) > 1:
            base = 0.0  # never used: every edge has a branch point at or above it
        elif root_baseline == "trees":
            if len(trees) < 2:
                raise BadInput("root_baseline='trees' needs at least two trees per task or the root as a branch point")
            base = float(np.delete(roots, i).mean())
        elif root_baseline == "running":
            base = 0.0 if running is None else running
        else:
            base = 0.0
        credits.append(_split(tree, base, shrink))
    return credits


def _split(tree: Tree, base: float, shrink: float) -> Credit:
    require_finished(tree)
    n = len(tree)
    advantage, baseline, has_signal = np.zeros(n), np.full(n, base), np.zeros(n, bool)
    has_signal[ROOT] = abs(tree.value[ROOT] - base) > SPREAD
    for node in range(n):
        children = list(tree.children[node])
        if not children:
            continue
        if len(children) == 1:  # no group: the baseline is the one of the level above
            (child,) = children
            baseline[child], has_signal[child] = baseline[node], has_signal[node]
            advantage[child] = tree.value[child] - baseline[node] if has_signal[node] else 0.0
            continue
        values, weights = tree.value[children], tree.weight[children]
        # A child with all the weight has no others: nan, and the baseline is again the one of the level above.
        gain = leave_one_out(values, weights)
        if shrink and node != ROOT:
            gain = gain + shrink * (values - gain - baseline[node])
        grouped = ~np.isnan(gain)
        baseline[children] = np.where(grouped, values - gain, baseline[node])
        # Without shrinkage equal returns have no advantage; with it they may differ from the level above, and count.
        contrast = np.ptp(values) > SPREAD or (shrink > 0 and np.nanmax(np.abs(gain), initial=0.0) > SPREAD)
        has_signal[children] = np.where(grouped, contrast, has_signal[node])
        advantage[children] = np.where(has_signal[children], np.where(grouped, gain, values - baseline[node]), 0.0)
    return Credit(advantage, trained(tree, tree.mass), trained(tree, has_signal))
