"""Intervals with known answers, and their coverage by simulation."""

import numpy as np
import pytest

from bpo import noise
from reproduce import stats


def test_constant_success_has_a_point_as_interval():
    for value in (0.0, 0.25, 1.0):
        estimate = stats.success(np.full((3, 40), value))
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((value, value, value))


def test_value_is_the_plain_mean_and_lies_inside():
    outcomes = np.random.default_rng(0).random((3, 50)) < 0.4
    estimate = stats.success(outcomes)
    assert estimate.value == pytest.approx(outcomes.mean())
    assert estimate.low < estimate.value < estimate.high


def test_one_seed_agrees_with_the_binomial_interval():
    outcomes = np.zeros((1, 100))
    outcomes[0, :40] = 1
    estimate = stats.success(outcomes)
    half = 1.96 * np.sqrt(0.4 * 0.6 / 100)
    assert estimate.low == pytest.approx(0.4 - half, abs=0.015)
    assert estimate.high == pytest.approx(0.4 + half, abs=0.015)


def test_pairing_narrows_the_interval_of_correlated_methods():
    rng = np.random.default_rng(1)
    hard = rng.random(200)  # one difficulty per task, common to both methods
    draws = rng.random((3, 200))
    a, b = (draws > hard).astype(float), (draws + 0.05 > hard).astype(float)
    paired = stats.difference(b, a)
    shuffled = stats.difference(b, a[:, rng.permutation(200)])
    assert paired.value == pytest.approx(shuffled.value)
    assert paired.high - paired.low < 0.5 * (shuffled.high - shuffled.low)


def test_a_method_does_not_differ_from_itself():
    outcomes = np.random.default_rng(2).random((3, 30)) < 0.5
    estimate = stats.difference(outcomes, outcomes)
    assert (estimate.value, estimate.low, estimate.high, estimate.sign) == (0, 0, 0, 0)


def test_difference_changes_sign_with_the_order():
    a, b = np.random.default_rng(3).random((2, 3, 60)) < np.array([0.8, 0.3])[:, None, None]
    assert stats.difference(a, b).sign == 1
    assert stats.difference(b, a).sign == -1
    assert stats.difference(a, b).low == pytest.approx(-stats.difference(b, a).high)


def test_warm_start_with_one_row_against_three_seeds():
    trained, start = np.ones((3, 20)), np.zeros((1, 20))
    estimate = stats.difference(trained, start)
    assert (estimate.value, estimate.low, estimate.high) == (1, 1, 1)


def test_same_seed_same_interval_and_equal_to_a_plain_loop():
    outcomes = (np.random.default_rng(4).random((2, 15)) < 0.5).astype(float)
    assert stats.success(outcomes) == stats.success(outcomes)
    rng = np.random.default_rng(0)
    tasks = rng.integers(0, 15, size=(stats.RESAMPLES, 15))
    seeds = rng.integers(0, 2, size=(stats.RESAMPLES, 2))
    means = np.array([outcomes[s][:, t].mean() for s, t in zip(seeds, tasks, strict=True)])
    estimate = stats.success(outcomes)
    assert (estimate.low, estimate.high) == pytest.approx(stats.interval(means))


def test_different_tasks_are_refused():
    with pytest.raises(ValueError, match="different numbers of tasks"):
        stats.difference(np.ones((1, 3)), np.ones((1, 4)))


def test_coverage_with_many_seeds_is_near_the_nominal_one():
    """Success = task difficulty + seed effect + coin; the interval should hold the mean in about 95 % of the worlds."""
    rng = np.random.default_rng(5)
    seeds, tasks, worlds = 15, 50, 300
    truth, hits = 0.5, 0
    for _ in range(worlds):
        p = np.clip(truth + rng.normal(0, 0.05, (seeds, 1)) + rng.choice([-0.25, 0.25], (1, tasks)), 0, 1)
        estimate = stats.bootstrap([rng.random((seeds, tasks)) < p], lambda mean: mean, resamples=400)
        hits += estimate.low <= truth <= estimate.high
    assert 0.92 <= hits / worlds <= 0.995


def coverage(interval, seeds, spread, worlds, tasks=200):
    """Share of worlds whose interval holds the true mean: success = task difficulty + seed effect + coin."""
    rng, truth, hits = np.random.default_rng(8), 0.5, 0
    for _ in range(worlds):
        p = np.clip(truth + rng.normal(0, spread, (seeds, 1)) + rng.choice([-0.25, 0.25], (1, tasks)), 0, 1)
        estimate = interval(rng.random((seeds, tasks)) < p)
        hits += estimate.low <= truth <= estimate.high
    return hits / worlds


def test_the_bootstrap_is_too_narrow_for_two_seeds_that_differ():
    """As the module says: .90 at a standard deviation of .05, .77 at .10; standard error .02."""
    few = lambda outcomes: stats.bootstrap([outcomes], lambda mean: mean, resamples=300)  # noqa: E731
    assert 0.84 <= coverage(few, 2, 0.05, 300) <= 0.94
    assert 0.70 <= coverage(few, 2, 0.10, 300) <= 0.84


@pytest.mark.parametrize("seeds", [2, 3, 5, 15])
@pytest.mark.parametrize("spread", [0.0, 0.05, 0.1])
def test_the_covering_interval_covers_with_few_seeds(seeds, spread):
    assert coverage(stats.covering, seeds, spread, 1_000) >= 0.945


def test_the_covering_interval_is_two_t_intervals_added_as_squares():
    """Two seeds .4 and .6, tasks that do not vary beyond them: only seeds count, t = 12.706, standard error .1."""
    estimate = stats.covering(np.array([[0.4] * 5, [0.6] * 5]))
    assert (estimate.value, estimate.high - estimate.value) == pytest.approx((0.5, 1.2706), abs=1e-4)
    with pytest.raises(ValueError, match="1 seeds"):
        stats.covering(np.ones((1, 9)))


def test_ratio_of_noise_of_scaled_gradients():
    norms = np.random.default_rng(6).gamma(4.0, 1.0, 50)
    raw = stats.ratio_of_noise(3 * norms, norms, stats.variance)
    free = stats.ratio_of_noise(3 * norms, norms, stats.scale_free)
    assert (raw.value, raw.low, raw.high) == pytest.approx((9, 9, 9))
    assert (free.value, free.low, free.high) == pytest.approx((1, 1, 1))


def test_ratio_of_noise_without_variation_is_nan_not_an_error():
    still = stats.ratio_of_noise([1.0, 2.0, 3.0], [1.0, 1.0, 1.0], stats.variance)
    assert np.isnan([still.value, still.low, still.high]).all()
    assert np.isnan(stats.ratio_of_noise([0.0, 0.0], [0.0, 0.0], stats.scale_free).value)
    with pytest.raises(ValueError, match="differ in number"):
        stats.ratio_of_noise([1.0], [1.0, 2.0], stats.variance)


def test_noise_measures_agree_with_the_ones_of_the_noise_module():
    norms = np.random.default_rng(7).random(10)
    assert float(stats.scale_free(norms)) == pytest.approx(noise.scale_free(norms))
