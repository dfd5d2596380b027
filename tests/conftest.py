"""What tests share, and the rule that no test of the estimators is skipped."""

from __future__ import annotations

import json
import os

import pytest
from places import REFERENCE

pytest_plugins = ["guard"]

# One thread per process: two busy torch threads on a shared core are many times slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def exact_moments() -> dict:
    """Values that another program computed (tests/reference/README.md)."""
    return json.loads((REFERENCE / "exact_moments.json").read_text())


@pytest.fixture
def tree():
    """A small tree of the toy sandbox with branch points at every second depth: three leaves."""
    from bpo import select
    from bpo.policies.tabular import TabularPolicy
    from bpo.rollout import Growth, grow
    from bpo.sandboxes.toy import ToyTree

    values = [0, 1, 2, 3, 4, 5, 6, 7]
    growth = Growth(select.Every(2), points=2, width=2, root=True)
    (grown,), _ = grow(["tree-00"], [ToyTree(values)], TabularPolicy.uniform(values), growth, (1,))
    return grown
