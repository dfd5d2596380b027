"""A causal selector in one class, and the proof on small decision trees that the gradient it leads to is unbiased."""

from functools import partial
from math import log

from bpo import CausalSelector, Growth, TopEntropy, bpo_split, check_unbiased


class RelativeEntropy(CausalSelector):
    """Branches where the entropy is at least `share` of what it could be with so many actions.

    It reads what is known before an action is drawn, and nothing else: that makes it causal.
    """

    def __init__(self, share, spacing=None):
        super().__init__(spacing)
        self.share = share

    def wants(self, boundary):
        return boundary.actions > 1 and boundary.entropy >= self.share * log(boundary.actions)


rule = partial(bpo_split, root_baseline="zero")
for selector in (RelativeEntropy(0.95), TopEntropy()):
    verdict = check_unbiased(Growth(selector, points=1, width=3), rule)
    kind = "unbiased" if verdict.unbiased else "biased"
    print(f"{type(selector).__name__}: {kind}, bias {verdict.relative_bias:.1e} of the gradient's norm")
