"""Areas under learning curves, and gradient noise over seeds."""

import numpy as np
import pytest

from bpo import noise
from reproduce.areas import area, curve, curves_by_task
from reproduce.gradients import gradient_noise


def metrics(*points):
    """A curve point after every second update, 10 steps an update."""
    rows = [{"update": 0, "curve": points[0], "curve_by_task": [points[0], 1.0]}]
    for number, point in enumerate(points[1:], start=1):
        rows.append({"update": 2 * number - 1, "ledger": {"env_steps": 10}})
        rows.append({"update": 2 * number, "ledger": {"env_steps": 10}, "curve": point, "curve_by_task": [point, 1.0]})
    return {"metrics": rows}


def test_a_curve_is_against_updates_or_against_what_they_spent():
    run = metrics(0.1, 0.5, 0.7)
    updates, success = curve(run, "update")
    assert updates.tolist() == [0, 2, 4]
    assert success.tolist() == [0.1, 0.5, 0.7]
    assert curve(run, "env_steps")[0].tolist() == [0, 20, 40]


def test_an_area_is_the_mean_of_the_curve_up_to_the_budget():
    spent, success = curve(metrics(0.1, 0.5, 0.7), "env_steps")
    assert area(spent, success, 40) == pytest.approx((0.3 + 0.6) / 2)
    assert area(spent, success, 20) == pytest.approx(0.3)
    # Cut between two points: the curve is a straight line there.
    assert area(spent, success, 30) == pytest.approx((20 * 0.3 + 10 * 0.55) / 30)
    assert area(spent, np.full(3, 0.4), 33.3) == pytest.approx(0.4)


def test_areas_by_task_have_the_area_as_their_mean():
    run = metrics(0.2, 0.6)
    updates, by_task = curves_by_task(run)
    each = [area(updates, own, updates[-1]) for own in by_task]
    assert each == pytest.approx([0.4, 1.0])
    assert curves_by_task({"metrics": [{"update": 1}]})[1].size == 0


def run_with(gram, bound=1.0):
    draws = [{"norm": float(np.sqrt(square))} for square in np.diag(gram)]
    return {"noise": {"tasks": 4, "draws": draws, "gram": gram.tolist()}, "config": {"settings": {"max_grad_norm": bound}}}


def test_noise_over_seeds_is_the_ratio_of_the_averages():
    """Gradients of a known mean and spread: the estimate comes near the truth, and no seed's own ratio is averaged."""
    rng = np.random.default_rng(0)
    size, spread = 40, 0.5
    grams = [noise.gram(1.0 / np.sqrt(size) + spread * rng.standard_normal((12, size))) for _ in range(20)]
    found = gradient_noise([run_with(gram) for gram in grams])
    assert found["noise"]["value"] == pytest.approx(size * spread**2, rel=0.1)
    assert found["noise"]["low"] < size * spread**2 < found["noise"]["high"]
    parts = [noise.directions(gram) for gram in grams]
    assert found["noise"]["value"] == pytest.approx(sum(p.spread for p in parts) / sum(p.signal for p in parts))
    assert found["draws"] == 240
    assert found["clipped"] == 1.0
    assert found["cosine"]["value"] == pytest.approx(1 / (1 + size * spread**2), abs=0.02)


def test_clipping_at_a_bound_that_nothing_reaches_changes_no_noise():
    gram = noise.gram(np.random.default_rng(1).standard_normal((6, 8)) + 1)
    found = gradient_noise([run_with(gram, 1e6), run_with(2 * gram, 1e6)])
    assert found["clipped_noise"] == found["noise"]
    assert found["clipped"] == 0.0


def test_noise_without_signal_or_without_draws_is_none():
    assert gradient_noise([{"noise": None, "config": {}}]) is None
    assert gradient_noise([run_with(np.eye(2))])["noise"]["value"] is None
    one = gradient_noise([run_with(np.array([[2.0, 1.0], [1.0, 2.0]]))])
    assert one["noise"] == {"value": 1.0, "low": None, "high": None}
