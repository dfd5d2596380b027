"""Citations of docs/theory.md lead somewhere, and what it says in numbers is computed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from places import ROOT

from bpo import select
from bpo.git import git_text
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import Growth, grow
from bpo.sandboxes.toy import ToyTree

THEORY = (ROOT / "docs" / "theory.md").read_text()
STATEMENTS = set(re.findall(r"^(?:\* )?\*\*([A-Z]\d+)\b", THEORY, re.M))
SECTIONS = set(re.findall(r"^## (\d+)\.", THEORY, re.M))


def texts() -> dict[str, str]:
    """Every file of the repository that is text and may cite, by name."""
    listed = git_text(ROOT, "ls-files", "-co", "--exclude-standard", "-z").split("\0")
    names = [name for name in listed if name.endswith((".py", ".md", ".ipynb"))]
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in names if (ROOT / name).is_file()}


def test_every_citation_leads_to_a_statement():
    cited = {
        (name, match)
        for name, text in texts().items()
        for match in re.findall(r"theory(?:\.md|\]\([^)]*\))`?,\s+([A-Z]\d+|section \d+)", text)
    }
    assert len({name for name, _ in cited}) > 8
    assert not {(name, what) for name, what in cited if what.removeprefix("section ") not in STATEMENTS | SECTIONS}


def test_statements_are_numbered_without_gaps():
    numbers: dict[str, list[int]] = {}
    for name in STATEMENTS:
        numbers.setdefault(name[0], []).append(int(name[1:]))
    assert set(numbers) == set("LTCNBIKM")
    for letter, found in numbers.items():
        assert sorted(found) == list(range(1, len(found) + 1)), letter


def test_files_that_the_theory_names_exist():
    for name in re.findall(r"`(tests/[\w./]+)`", THEORY):
        assert (ROOT / name).is_file(), name


@pytest.mark.parametrize(("points", "leaves", "worth"), [(1, 4, 4.0), (4, 13, 5.0)])
def test_leaves_of_a_tree_count_as_fewer_samples(points, leaves, worth):
    """theory.md, K1: 1 / sum m^2 for root + 3 points, K = 4, even weights."""
    values = np.arange(16.0)
    growth = Growth(select.Every(1), points=points, width=4, root=True)
    (tree,), _ = grow(["tree-00"], [ToyTree(values)], TabularPolicy.uniform(values), growth, (0,))
    assert len(tree.leaves) == leaves
    assert 1 / (tree.mass[tree.leaves] ** 2).sum() == pytest.approx(worth, abs=0.01)
