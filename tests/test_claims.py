"""The ledger of claims: it is what the code computes, and it says what docs/theory.md says."""

from __future__ import annotations

import pytest
from places import ROOT

from reproduce import claims


@pytest.fixture(scope="module")
def rows():
    return claims.ledger()


def test_the_committed_ledger_is_the_computed_one(rows):
    committed = claims.read(ROOT / "docs")
    assert [row["claim"] for row in committed] == [row["claim"] for row in rows]
    for mine, theirs in zip(rows, committed, strict=True):
        assert mine["numbers"] == pytest.approx(theirs["numbers"], abs=1e-9)
        assert {**mine, "numbers": 0} == {**theirs, "numbers": 0}
    assert (ROOT / "docs" / "claims.md").read_text() == claims.markdown(committed)


def test_verdicts(rows):
    by_place = {row["place"]: row["verdict"] for row in rows}
    assert by_place["Theorem 1, first part"] == claims.CONDITIONS
    assert by_place["Theorem 1, second part"] == claims.FAILS
    assert by_place["Theorem 2"] == by_place["Corollary 1"] == claims.HOLDS
    assert by_place["Remark 1"] == claims.CONDITIONS
    assert by_place["new here (`bpo_split`; importance splitting)"] == claims.HOLDS


def test_every_claim_points_at_something_that_is_there(rows):
    for row in rows:
        assert row["shown"]
        for name in row["shown"]:
            assert (ROOT / name).is_file(), name


def test_the_reference_tree_is_the_reference(exact_moments):
    assert claims.TREE.probabilities[:, 1].tolist() == pytest.approx(exact_moments["p"])
    assert claims.TREE.returns.tolist() == exact_moments["r"]


def test_groups_share_the_return_of_the_backbone(rows):
    """At N returns and equal groups, the average advantage of the backbone has variance Var(G) N/(N-1), however N is split."""
    numbers = next(row["numbers"] for row in rows if row["place"] == "Proposition 1")
    averages = [value for name, value in numbers.items() if "backbone's advantages" in name]
    assert averages == pytest.approx([4 / 3, 4 / 3])
    claimed = [value for name, value in numbers.items() if "claimed" in name]
    assert claimed == pytest.approx([2 / 3, 4 / 3])
