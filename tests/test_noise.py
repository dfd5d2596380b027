"""Gradient noise: the estimates are unbiased, they find the truth on trees where it is known, and the old measure does not."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

from bpo import credit, noise, select
from bpo.errors import BadInput
from bpo.exact import Problem, exact_directions, moments
from bpo.exact.moments import parts
from bpo.methods import build
from bpo.objective import ppo_clip
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import TRAJECTORY, Growth
from bpo.sandboxes.toy import TASKS, ToyTree

SPLIT = partial(credit.bpo_split, root_baseline="zero")
# One softmax logit per action, as TabularPolicy has them.
P = [0.6, 0.3, 0.8, 0.5, 0.7, 0.45, 0.2]
GRADED = Problem.from_spec({"p": [[1 - p, p] for p in P], "r": [0.0, 0.1, 1.0, 0.0, 0.7, 0.0, 0.2, 1.0]})
SMALL = Problem.from_spec({"p": [0.3, 0.8, 0.45], "r": [0.2, 1.0, 0.0, 0.7]})


def policy_of(problem) -> TabularPolicy:
    return TabularPolicy({name: np.log(row).tolist() for name, row in zip(problem.states, problem.probabilities, strict=True)})


def root(count: int) -> Growth:
    return Growth(select.RootOnly(), points=1, width=count, root=True)


def drawn(recipe, problem, count: int):
    boxes = [ToyTree(problem.returns.tolist(), problem.width)]
    return list(noise.gradients(recipe, policy_of(problem), boxes, [[TASKS[0]]] * count))


@pytest.mark.parametrize("n", [2, 3])
def test_signal_and_spread_are_unbiased(n):
    """theory.md, M1: the mean over all n-tuples of trees is |E g|^2 and trace(Cov g), to rounding."""
    _, found = parts(SMALL, TRAJECTORY, SPLIT)
    trees = [(c, g.ravel()) for part in found for c, g in zip(part.chance, part.estimate, strict=True)]
    signal = spread = 0.0
    for chosen in itertools.product(trees, repeat=n):
        chance = np.prod([c for c, _ in chosen])
        one = noise.directions(noise.gram([g for _, g in chosen]))
        signal, spread = signal + chance * one.signal, spread + chance * one.spread
    exact = moments(SMALL, TRAJECTORY, SPLIT)
    assert signal == pytest.approx(float((SMALL.gradient**2).sum()), abs=1e-14)
    assert spread == pytest.approx(exact.trace_cov, abs=1e-14)


def test_exact_directions_agree_with_exact_moments():
    found, known = exact_directions(GRADED, root(3), credit.rloo), moments(GRADED, root(3), credit.rloo)
    assert found.signal == pytest.approx(float((known.mean**2).sum()), abs=1e-14)
    assert found.spread == pytest.approx(known.trace_cov, abs=1e-14)
    assert 0 < found.cosine < found.cosine_to_truth < 1


@pytest.mark.parametrize(("name", "rule"), [("rloo", credit.rloo), ("grpo", credit.grpo)])
def test_what_is_measured_on_drawn_trees_is_what_is_true(name, rule):
    """Two thousand gradients of the training code, within four standard errors of what enumeration says; clipped too."""
    products = noise.gram([g for _, g in drawn(build(name, {"returns": 4}), GRADED, 2000)])
    for bound in (np.inf, 0.15):
        truth = exact_directions(GRADED, root(4), rule, bound=bound)
        found = noise.directions(noise.clipped(products, bound))
        for measure in ("noise", "cosine"):
            error = getattr(found, f"{measure}_error")
            assert 0 < error < 0.1 * getattr(truth, measure)
            assert abs(getattr(found, measure) - getattr(truth, measure)) < 4 * error, measure
        assert abs(found.zero / found.draws - truth.zero) < 0.015


def test_standard_errors_are_those_of_repeated_measurements():
    """The jackknife errors of 50 gradients against the spread of 400 measurements, drawn from all trees."""
    _, found = parts(GRADED, root(4), credit.rloo)
    kept = [(part.chance, part.estimate.reshape(len(part.chance), -1)) for part in found]
    chance, every = np.concatenate([c for c, _ in kept]), np.concatenate([g for _, g in kept])
    rng = np.random.default_rng(0)
    measured = [noise.directions(noise.gram(every[rng.choice(len(chance), 50, p=chance / chance.sum())])) for _ in range(400)]
    for measure in ("noise", "cosine"):
        said = np.mean([getattr(one, f"{measure}_error") for one in measured])
        assert said == pytest.approx(np.std([getattr(one, measure) for one in measured]), rel=0.15)


def test_the_variance_of_the_norm_is_not_noise():
    """theory.md, M2: it calls GRPO nine times quieter than RLOO where the ratio is 1.3, and reverses an order."""
    rloo, grpo = (exact_directions(GRADED, root(4), rule) for rule in (credit.rloo, credit.grpo))
    assert rloo.norm_noise / grpo.norm_noise > 8
    assert 1.2 < rloo.noise / grpo.noise < 1.35
    six = exact_directions(GRADED, root(6), credit.rloo)
    assert six.norm_noise > 5 * grpo.norm_noise
    assert six.noise < 0.8 * grpo.noise


def test_gradients_of_one_length_have_no_norm_noise_and_all_the_noise_there_is():
    """theory.md, M2 and theory.md, N8: every update clipped, so its length says nothing and its direction is what it was."""
    free, bound = exact_directions(GRADED, root(4), credit.rloo), 0.02
    short = exact_directions(GRADED, root(4), credit.rloo, bound=bound)
    assert short.norm_noise < 0.05 < 0.4 < free.norm_noise
    assert short.noise > 2
    assert short.cosine == pytest.approx(free.cosine, abs=1e-12)
    products = noise.gram([g for _, g in drawn(build("rloo", {"returns": 4}), GRADED, 50)])
    assert noise.clipped_share(products, bound) > 0.9
    assert noise.clipped_share(products, np.inf) == 0
    assert noise.directions(noise.clipped(products, bound)).cosine == pytest.approx(noise.directions(products).cosine)


def test_clipping_turns_the_mean_of_an_unbiased_gradient():
    """theory.md, N8: RLOO is unbiased; the mean of its clipped gradients is no multiple of grad J."""
    _, found = parts(GRADED, root(4), credit.rloo)
    kept = [(c, g.ravel()) for part in found for c, g in zip(part.chance, part.estimate, strict=True)]
    truth = GRADED.gradient.ravel()

    def cosine(bound):
        mean = sum(c * g * min(1.0, bound / max(np.linalg.norm(g), 1e-12)) for c, g in kept)
        return mean @ truth / np.linalg.norm(mean) / np.linalg.norm(truth)

    assert cosine(np.inf) == pytest.approx(1, abs=1e-12)
    assert cosine(0.02) < 0.99


def test_the_methods_own_objective_and_running_baseline_are_measured():
    """Returns around 5: with a running baseline gradients are short, with none they are as long as the returns."""
    given = {"root": False, "selector": "coin", "selector_value": 0.0, "points": 1, "width": 2}
    lifted = Problem(GRADED.probabilities, GRADED.returns + 5.0)
    length = {}
    for baseline in ("running", "zero"):
        recipe = build("bpo_split", given | {"root_baseline": baseline})
        assert recipe.objective is ppo_clip
        length[baseline] = np.mean([draw.norm for draw, _ in drawn(recipe, lifted, 100)])
    assert length["running"] < 0.2 * length["zero"]


def test_pairs_need_two_gradients():
    with pytest.raises(BadInput, match="1 gradients were given"):
        noise.directions(np.ones((1, 1)))


def test_no_signal_is_no_ratio():
    """Opposite gradients: the estimate of |E g|^2 is negative, so there is nothing to divide by."""
    found = noise.directions(noise.gram([np.array([1.0, 0.0]), np.array([-1.0, 0.0]), np.zeros(2)]))
    assert found.signal < 0
    assert np.isnan(found.noise)
    assert (found.zero, found.cosine) == (1, -1.0)
