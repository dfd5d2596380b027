"""Paired differences, Holm's correction and verdicts, against known answers and by simulation."""

import numpy as np
import pytest
from scipy import stats

from bpo import compare

RNG_DRAWS = 2000


def test_the_interval_and_p_of_a_mean_are_those_of_students_t_test():
    values = np.random.default_rng(0).normal(0.3, 1.0, 12)
    found, test = compare.mean(values), stats.ttest_1samp(values, 0.0)
    assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert found.p == pytest.approx(test.pvalue)
    assert (found.value, found.seeds) == (pytest.approx(values.mean()), 12)


def test_pairing_takes_out_what_seeds_have_in_common():
    rng = np.random.default_rng(1)
    seed = rng.normal(0, 1, 20)
    a, b = seed + rng.normal(0.1, 0.05, 20), seed + rng.normal(0, 0.05, 20)
    paired, shuffled = compare.paired(a, b), compare.paired(a, rng.permutation(b))
    assert paired.low > 0
    assert paired.high - paired.low < 0.2 * (shuffled.high - shuffled.low)


def test_equal_runs_do_not_differ_and_rounding_is_no_verdict():
    values = np.random.default_rng(2).random(5)
    for other in (values, values * (1 + 1e-15)):
        found = compare.paired(values, other)
        assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_a_difference_that_is_the_same_for_every_seed_has_a_point_as_interval():
    found = compare.paired(np.full(4, 0.75), np.full(4, 0.5))
    assert (found.value, found.low, found.high, found.p) == (0.25, 0.25, 0.25, 0)


def test_holm_gives_the_textbook_values_in_the_given_order():
    # .01 * 4 = .04; .015 * 3 = .045; .03 * 2 = .06; .04 * 1 is raised to .06.
    assert compare.holm([0.03, 0.01, 0.04, 0.015]) == pytest.approx([0.06, 0.04, 0.06, 0.045])
    assert compare.holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])
    assert list(compare.holm([])) == []


def test_verdicts_carry_the_sign_of_what_survives_the_correction():
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 1, (3, 15))
    values = {"low": noise[0], "high": noise[1] + 5, "same": noise[2]}
    found = compare.all_pairs(values)
    assert {pair: verdict.sign for pair, verdict in found.items()} == {
        ("low", "high"): -1,
        ("low", "same"): 0,
        ("high", "same"): 1,
    }
    assert all(verdict.adjusted >= verdict.difference.p for verdict in found.values())


def test_no_more_than_one_family_in_twenty_of_true_nulls_has_a_verdict():
    rng = np.random.default_rng(4)
    false = 0
    for _ in range(RNG_DRAWS):
        family = {i: compare.mean(row) for i, row in enumerate(rng.normal(size=(8, 10)))}
        false += any(verdict.sign for verdict in compare.verdicts(family).values())
    assert false / RNG_DRAWS < 0.05 + 3 * (0.05 * 0.95 / RNG_DRAWS) ** 0.5


def test_coverage_is_nominal_for_normal_values_and_falls_short_for_rare_ones():
    rng = np.random.default_rng(5)
    assert compare.coverage(rng.normal(size=500), 5, RNG_DRAWS, rng) == pytest.approx(0.95, abs=0.015)
    rare = np.zeros(500)
    rare[:10] = 1
    assert compare.coverage(rare, 5, RNG_DRAWS, rng) < 0.5


def test_a_method_against_itself_is_an_alarm_at_the_nominal_rate_whatever_the_family():
    rng = np.random.default_rng(6)
    values = rng.normal(size=500)
    for family in (1, 6):
        rate = compare.false_alarms(values, 20, RNG_DRAWS // family, rng, family)
        assert rate < 0.05 + 3 * (0.05 * 0.95 * family / RNG_DRAWS) ** 0.5
        assert rate > 0.01


@pytest.mark.parametrize("values", [[1.0], [], [[1.0, 2.0]], [1.0, float("nan")], [1.0, float("inf")]])
def test_values_of_which_no_variation_can_be_seen_are_refused(values):
    with pytest.raises(ValueError, match="value"):
        compare.mean(values)


def test_pairs_need_the_same_seeds():
    with pytest.raises(ValueError, match="same seeds"):
        compare.paired([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="need 6"):
        compare.false_alarms(np.zeros(5), 3, 1, np.random.default_rng(0))
