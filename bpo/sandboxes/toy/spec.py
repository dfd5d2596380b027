"""The record of the toy sandbox."""

from __future__ import annotations

from functools import partial

from bpo.param import REQUIRED, Param
from bpo.policy import Policy
from bpo.sandboxes.record import Options, SandboxSpec, Walk, presets_beside
from bpo.sandboxes.toy import ToyTree

# Depth of the tree that `bpo check-fork` walks in.
DEPTH = 10


def walk(games: int, steps: int, data: str | None) -> Walk:
    """A deep tree, replayed by itself."""
    make = partial(ToyTree, [float(i % 3 == 0) for i in range(2**DEPTH)])
    return Walk(make, make, make().tasks("train"))


def table_of_logits(options: Options) -> Policy:
    """Every state of the tree with equal probabilities."""
    from bpo.policies.tabular import TabularPolicy

    return TabularPolicy.uniform(options["returns"], options.get("width", 2))


toy = SandboxSpec(
    summary="a decision tree that is known in full, for exact results",
    make=ToyTree,
    options={
        "returns": Param(REQUIRED, "a list with one number per leaf, in the order of the leaves", kind=list[float]),
        "width": Param(2, "actions in every state", low=2),
    },
    tasks=lambda options: "toy tree",
    table_of_logits=table_of_logits,
    walk=walk,
    presets=presets_beside(__file__),
)
