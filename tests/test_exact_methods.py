"""The exact moments of every row of the table: what rows say of their bias is what the enumeration finds."""

from __future__ import annotations

import pytest

from bpo.exact.by_method import exact_row, noise, relative_bias
from bpo.exact.check import ROUNDING
from bpo.methods import METHODS, build


@pytest.mark.parametrize("name", METHODS)
def test_a_row_is_unbiased_exactly_where_it_says_so(name):
    """On both problems; a biased row is biased on one of them at least. Every tree is enumerated."""
    row = exact_row(name)
    if row.plain is None or row.ending is None:
        assert row.reason
        return
    both = (row.plain, row.ending)
    assert all(found.exact for found in both)
    unbiased = all(relative_bias(found) < ROUNDING for found in both)
    assert unbiased == METHODS[name].bias.startswith("unbiased")
    assert not unbiased or build(name).growth.causal
    assert all(noise(found) > 0 for found in both)


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if "factor (N-1)/N" in row.bias])
def test_a_bias_by_a_factor_leaves_the_direction(name):
    row = exact_row(name)
    for found in (row.plain, row.ending):
        assert found.cosine == pytest.approx(1, abs=1e-12)
        assert relative_bias(found) == pytest.approx(1 / 3)
