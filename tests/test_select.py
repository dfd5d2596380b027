"""Selectors: what they pick on hand-written boundaries."""

from __future__ import annotations

import numpy as np
import pytest

from bpo import select
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import Growth, grow
from bpo.sandboxes.toy import ToyTree
from bpo.select import Boundary, Spacing


def path(entropies, actions=3, tokens_per_step=20):
    return [Boundary(d, d * tokens_per_step, h, actions, coin=(7 * d % 10) / 10) for d, h in enumerate(entropies)]


def test_top_entropy_takes_the_largest_with_ties_to_the_earliest():
    boundaries = path([0.5, 0.9, 0.9 + 1e-12, 0.1, 0.7])
    assert select.TopEntropy().choose(boundaries, 1) == [1]
    assert select.TopEntropy().choose(boundaries, 3) == [1, 2, 4]


@pytest.mark.parametrize(("gap", "unit", "expected"), [(2, "steps", [1, 4]), (41, "tokens", [1, 4]), (64, "tokens", [1])])
def test_picks_keep_their_distance_in_steps_or_tokens(gap, unit, expected):
    boundaries = path([0.5, 0.9, 0.8, 0.1, 0.7])
    chosen = select.TopEntropy(Spacing(gap=gap, unit=unit, floor=0.6)).choose(boundaries, 4)
    assert chosen == expected


def test_forced_moves_and_certain_moves_are_no_boundaries():
    boundaries = [Boundary(0, 0, 0.0, 1, 0.0), Boundary(1, 9, 0.04, 5, 0.0), Boundary(2, 18, 0.3, -1, 0.0)]
    assert select.TopEntropy(Spacing(floor=0.1)).choose(boundaries, 3) == [2]
    assert not select.Every(1, Spacing(floor=0.1)).fires(boundaries[1], None)
    assert select.Every(1, Spacing(floor=0.1)).fires(boundaries[2], None)


def test_lowest_random_and_equally_spaced():
    boundaries = path([0.5, 0.9, 0.8, 0.1, 0.7, 0.6, 0.2])
    assert select.LowestEntropy().choose(boundaries, 2) == [3, 6]
    assert select.EquallySpaced().choose(boundaries, 1) == [3]
    assert select.EquallySpaced().choose(boundaries, 3) == [1, 3, 5]
    assert select.EquallySpaced().choose(boundaries, 9) == list(range(7))
    by_coin = sorted(range(7), key=lambda i: boundaries[i].coin)[:2]
    assert select.RandomChoice().choose(boundaries, 2) == sorted(by_coin)


def test_threshold_is_inclusive_within_rounding():
    assert select.Threshold(0.5).wants(Boundary(0, 0, 0.5 - 1e-12, 2, 0.0))
    assert not select.Threshold(0.5).wants(Boundary(0, 0, 0.5 - 1e-6, 2, 0.0))


def test_the_quantile_comes_from_earlier_iterations_and_from_real_choices_only():
    selector = select.QuantileThreshold(0.5, Spacing(floor=0.05))
    assert selector.threshold == 0.05
    probabilities = {"": 0.5, "0": 0.02, "1": 0.02, "00": 0.7, "01": 0.7, "10": 0.7, "11": 0.7}
    policy = TabularPolicy.bernoulli(probabilities)
    growth = Growth(selector, points=2, width=2, root=True)
    grown, _ = grow(["tree-00"], [ToyTree(range(8))], policy, growth, (0,))
    assert selector.threshold == 0.05  # nothing is learned while trees grow
    selector.observe(grown)
    # The root is a branch point by plan and not counted; H(0.02) = 0.098 and H(0.7) = 0.611 are the two boundaries left.
    assert selector.seen == pytest.approx([0.0980, 0.6109], abs=1e-4)
    assert selector.threshold == pytest.approx(np.mean([0.0980, 0.6109]), abs=1e-4)
    again = select.QuantileThreshold(0.5, Spacing(floor=0.05))
    again.load_state_dict(selector.state_dict())
    assert again.threshold == selector.threshold


@pytest.mark.parametrize("selector", [select.Threshold(0.1), select.Coin(0.5), select.Every(2), select.QuantileThreshold(0.5)])
def test_causal_selectors_say_so(selector):
    assert selector.causal


@pytest.mark.parametrize(
    "selector", [select.TopEntropy(), select.LowestEntropy(), select.RandomChoice(), select.EquallySpaced()]
)
def test_post_hoc_selectors_say_so(selector):
    assert not selector.causal


@pytest.mark.parametrize(
    "make",
    [
        lambda: select.Threshold(float("nan")),
        lambda: select.Threshold(-1),
        lambda: select.Threshold("0.5"),
        lambda: select.QuantileThreshold(1.5),
        lambda: select.Coin(float("nan")),
        lambda: select.Coin(2),
        lambda: select.Every(0),
    ],
)
def test_a_selector_refuses_a_number_that_it_cannot_use(make):
    with pytest.raises(ValueError, match=r"^\w+ is .*; it must be a number from [01] to (inf|1)$"):
        make()
