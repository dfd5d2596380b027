"""Random rollout trees, grown by the library on the toy sandbox."""

from __future__ import annotations

from hypothesis import strategies as st

from bpo import select
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import Growth, grow
from bpo.sandboxes.toy import ToyTree

returns = st.lists(st.floats(-5, 5, allow_nan=False, width=32), min_size=8, max_size=8)
selectors = st.one_of(
    st.builds(select.Threshold, st.floats(0, 0.7)),
    st.builds(select.Coin, st.floats(0, 1)),
    st.builds(select.Every, st.integers(1, 3)),
    st.builds(select.RootOnly),
)


@st.composite
def trees(draw, count: int = 1):
    """`count` trees of one task, branched by a random causal plan with the root as a branch point."""
    growth = Growth(
        draw(selectors),
        points=draw(st.integers(1, 3)),
        width=draw(st.integers(2, 4)),
        root=True,
        weights=draw(st.sampled_from(["even", "planned"])),
        nested=draw(st.booleans()),
        trees=count,
    )
    values = draw(returns)
    policy = TabularPolicy.uniform(values)
    grown, _ = grow(["tree-00"], [ToyTree(values) for _ in range(count)], policy, growth, (draw(st.integers(0, 10_000)),))
    return grown


@st.composite
def root_trees(draw, count: int = 1):
    """`count` trees of one task that branch at the root only."""
    growth = Growth(select.RootOnly(), points=1, width=draw(st.integers(2, 6)), root=True, trees=count)
    values = draw(returns)
    policy = TabularPolicy.uniform(values)
    grown, _ = grow(["tree-00"], [ToyTree(values) for _ in range(count)], policy, growth, (draw(st.integers(0, 10_000)),))
    return grown
