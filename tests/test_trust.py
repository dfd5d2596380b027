"""Trust regions and regression: plain at the policy that acted, and what their papers claim on constructed cases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from bpo import objective, update
from bpo.credit import drgrpo
from bpo.credit.rollouts import within
from bpo.errors import BadInput
from bpo.methods import build
from bpo.objective.cumulative import before
from bpo.objective.regression import rebel
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import grow
from bpo.sandboxes.toy import TASKS, ToyTree


def path(old, new, advantage, edges=1):
    """One path of `edges` edges with equally many tokens each; log-probs before and after."""
    count = len(old)
    owner = torch.arange(count) * edges // count
    return objective.Tokens(
        values=torch.tensor(new, dtype=torch.float64, requires_grad=True),
        old=torch.tensor(old, dtype=torch.float64),
        reference=None,
        owner=owner,
        advantage=torch.full((edges,), advantage, dtype=torch.float64),
        weight=torch.ones(edges, dtype=torch.float64),
        parent=torch.arange(edges) - 1,
        rollout=torch.zeros(edges, dtype=torch.int64),
        tree=torch.zeros(edges, dtype=torch.int64),
    )


def slopes(loss, tokens, **options) -> list[float]:
    value, _ = loss(tokens, **options)
    (found,) = torch.autograd.grad(value, tokens.values)
    return found.tolist()


@pytest.mark.parametrize("loss", [objective.ctpo, objective.dppo])
@pytest.mark.parametrize("advantage", [1.5, -0.5])
def test_at_the_policy_that_acted_the_gradient_is_the_plain_one(loss, advantage):
    same = [-1.0, -0.3, -2.0, -0.7]
    given = path(same, same, advantage, edges=2)
    assert slopes(loss, given) == pytest.approx(slopes(objective.reinforce, given), abs=1e-15)


@pytest.mark.parametrize(
    ("before_it", "after", "advantage", "ppo_acts", "dppo_acts"),
    [
        (1e-5, 1e-3, 1.0, False, True),  # a rare token that grew a hundredfold: nothing has changed in probability
        (0.99, 0.8, -1.0, True, False),  # a common one that lost a fifth: the ratio is within its bounds
    ],
)
def test_probabilities_let_rare_tokens_move_and_hold_common_ones(before_it, after, advantage, ppo_acts, dppo_acts):
    given = path([math.log(before_it)], [math.log(after)], advantage)
    assert (slopes(objective.ppo_clip, given) != [0.0]) == ppo_acts
    assert (slopes(objective.dppo, given) != [0.0]) == dppo_acts


@pytest.mark.parametrize("divergence", ["tv", "kl"])
@pytest.mark.parametrize(
    ("after", "advantage", "acts"), [(0.9, 1.0, False), (0.9, -1.0, True), (0.1, -1.0, False), (0.1, 1.0, True)]
)
def test_a_token_that_moved_far_is_left_out_only_in_the_direction_of_its_advantage(divergence, after, advantage, acts):
    given = path([math.log(0.5)], [math.log(after)], advantage)
    assert (slopes(objective.dppo, given, divergence=divergence) != [0.0]) == acts


def test_the_ratio_of_a_prefix_is_bounded_by_the_root_of_its_place():
    """Log-ratios of a random walk: bounds that grow like sqrt(t) stop the same share early and late; fixed ones stop more."""
    rng, steps, length = np.random.default_rng(0), 0.04, 400
    early, late = {0.5: 0, 0.0: 0}, {0.5: 0, 0.0: 0}
    for _ in range(60):
        walk = np.cumsum(rng.normal(0, steps, length))
        given = path([-3.0] * length, (-3.0 + np.diff(walk, prepend=0.0)).tolist(), 1.0)
        for power in early:
            stopped = np.array(slopes(objective.ctpo, given, power=power)) == 0
            early[power] += stopped[:100].mean() / 60
            late[power] += stopped[300:].mean() / 60
    assert late[0.5] == pytest.approx(early[0.5], abs=0.1)
    assert late[0.0] > early[0.0] + 0.05


def test_the_gradient_of_a_prefix_ratio_is_the_ratio_times_the_score_of_its_last_token():
    moved = [0.01, 0.02, -0.015, 0.005]
    given = path([-1.0] * 4, [-1.0 + m for m in moved], 2.0, edges=2)
    assert slopes(objective.ctpo, given) == pytest.approx((-2.0 * np.exp(np.cumsum(moved))).tolist())


def test_what_came_before_a_token_follows_the_path_whatever_the_order_of_the_edges():
    """A fork: edges 0 and 2 lead from the root, 1 goes on from 2; a path's tokens are counted over its own edges."""
    tokens = replace(
        path([-1.0] * 5, [-0.9, -0.8, -0.7, -0.6, -0.5], 1.0, edges=5),
        owner=torch.tensor([0, 1, 1, 2, 2]),
        parent=torch.tensor([-1, 2, -1]),
    )
    past, place = before(tokens)
    assert place.tolist() == [1, 3, 4, 1, 2]
    assert past.tolist() == pytest.approx([0.0, 0.9, 1.1, 0.0, 0.4])


STATES = ("", "0", "1", "00", "01", "10", "11")


def rollouts(returns, count):
    policy = TabularPolicy.bernoulli(dict.fromkeys(STATES, 0.45))
    method = build("drgrpo", {"returns": count})
    trees, _ = grow(TASKS[:1], [ToyTree(returns)], policy, method.growth, (0,))
    return policy, trees


def test_one_step_of_the_group_form_is_a_multiple_of_drgrpo():
    policy, trees = rollouts([0.1, 0.9, 0.4, 0.3, 0.0, 1.0, 0.2, 0.6], 6)
    found = []
    for loss, options in ((rebel, {"size": 6, "eta": 0.7}), (objective.reinforce, {})):
        update.zero_grad(policy)
        update.backward(policy, None, update.make_batch(trees, drgrpo(trees)), loss, options)
        found.append(update.flat_grad(policy))
    assert found[0] == pytest.approx(4 * 0.7 * 6 / 5 * found[1], abs=1e-12)
    assert np.abs(found[1]).max() > 1e-2


@pytest.mark.parametrize("size", [2, 4])
def test_an_exact_regression_is_a_natural_gradient_step(size):
    """One state with four actions, all of them compared: the minimum is pi_old * exp(eta R), the logits plus eta R."""
    returns, eta, start = np.array([0.2, 1.0, 0.5, 0.0]), 1.5, torch.tensor([0.3, -0.4, 0.1, 0.6], dtype=torch.float64)
    order = [0, 1, 2, 3] if size == 4 else [0, 1, 1, 2, 2, 3, 3, 0]
    groups = np.array(order).reshape(-1, size)
    centred = returns[groups] - returns[groups].mean(axis=1, keepdims=True)
    logits = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [logits], max_iter=200, tolerance_grad=1e-13, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        count = len(order)
        tokens = objective.Tokens(
            values=logits.log_softmax(0)[order],
            old=start.log_softmax(0)[order],
            reference=None,
            owner=torch.arange(count),
            advantage=torch.tensor(centred.ravel()),
            weight=torch.full((count,), 1 / count, dtype=torch.float64),
            parent=torch.full((count,), -1),
            rollout=torch.arange(count),
            tree=torch.zeros(count, dtype=torch.int64),
        )
        loss, _ = rebel(tokens, size=size, eta=eta)
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > 1e-2
    assert closure().item() == pytest.approx(0, abs=1e-12)
    wanted = (start + eta * torch.tensor(returns)).softmax(0)
    assert logits.softmax(0).tolist() == pytest.approx(wanted.tolist(), abs=1e-6)


def test_pairs_need_an_even_number_of_rollouts():
    with pytest.raises(BadInput, match=r"rebel\.returns is 5; for form = pairs it must be even"):
        build("rebel", {"returns": 5, "form": "pairs"})
    build("rebel", {"returns": 5})
    _, trees = rollouts(range(8), 5)
    with pytest.raises(ValueError, match="5 rollouts are no groups of 2"):
        within(trees, size=2)


def test_a_pair_with_equal_returns_sends_nothing_and_the_others_do():
    _, trees = rollouts([0, 0, 0, 0, 0, 0, 1, 1], 8)
    (found,) = within(trees, size=2)
    (tree,) = trees
    returns = [tree.returns[tree.main_leaf(child)] for child in tree.children[0]]
    flat = [a == b for a, b in zip(returns[::2], returns[1::2], strict=True)]
    assert True in flat
    assert False in flat
    for number, child in enumerate(tree.children[0]):
        assert found.has_signal[tree.main_path(child)].all() != flat[number // 2]
