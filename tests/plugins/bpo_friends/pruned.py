"""A method with a plan of its own: of children that wrote the same, the first alone goes on."""

import numpy as np

from bpo.credit import Credit
from bpo.methods import Method, Param
from bpo.objective import reinforce
from bpo.plan import Fork, Plan
from bpo.rollout import OwnPlan
from bpo.tree import ROOT


class PruneTwins(Plan):
    """`width` children at the root; one path for each different action."""

    def __init__(self, width):
        self.width = width

    def forks(self, forest, memory, rng):
        return [] if forest.fresh else [Fork(tree, ROOT, self.width) for tree in range(len(forest.trees))]

    def keep(self, forest, pending):
        first = {}
        for one in pending:
            first.setdefault((one.tree, one.draw.rank if one.fork else forest.trees[one.tree].state_key[one.draw.node]), one)
        return list(first.values()), ()


def finished_against_their_mean(trees, memory=None):
    """Each path that has ended against the mean of all that have; biased, as pruning is."""
    credits = []
    for tree in trees:
        advantage = np.zeros(len(tree))
        ended = [leaf for leaf in tree.leaves if tree.ended[leaf]]
        for leaf in ended:
            advantage[tree.path(leaf)] = tree.returns[leaf] - tree.returns[ended].mean()
        credits.append(Credit(advantage, (np.arange(len(tree)) > 0) / len(ended), advantage != 0))
    return credits


pruned = Method(
    summary="children at the root, of which twins are pruned",
    parameters={"width": Param(6, "children of the root", low=2)},
    growth=lambda p: OwnPlan(lambda: PruneTwins(p["width"]), planned_returns=p["width"]),
    credit=lambda p: finished_against_their_mean,
    objective=lambda p: reinforce,
    citation="nowhere",
    fidelity="full",
    bias="biased",
)
