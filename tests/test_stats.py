"""The percentile interval of bootstrap values."""

import numpy as np
import pytest

from reproduce import stats


def test_the_interval_leaves_a_fortieth_of_the_values_at_either_end():
    low, high = stats.interval(np.arange(1001.0))
    assert (low, high) == pytest.approx((25.0, 975.0))


def test_values_that_are_all_alike_have_a_point_as_interval():
    assert stats.interval(np.full(10, 0.25)) == (0.25, 0.25)


def test_no_values_have_no_interval():
    assert np.isnan(stats.interval(np.array([]))).all()
