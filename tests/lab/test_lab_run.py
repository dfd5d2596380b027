"""Runs of the laboratory: exact J, budgets and areas, what a fork costs, and the same numbers from the same seed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bpo.exact import moments
from bpo.exact.problem import Problem
from bpo.lab import map as chart
from bpo.lab.dynamic import expected_return, log_softmax, optimum
from bpo.lab.families import FAMILIES, Decision, decision
from bpo.lab.policies import FeaturePolicy
from bpo.lab.run import AXES, Budget, area, forks_below_root, measured, share, spends, tasks_of, train
from bpo.lab.sandbox import FamilySandbox
from bpo.lab.suite import built, expressible, parameters_of
from bpo.methods import METHODS
from bpo.rollout import grow

METHODS_HERE = pytest.mark.parametrize("name", list(METHODS))


def until(count):
    return lambda updates, spent, value: updates == count


def run(name, family="shared", kind="tabular", lr=0.4, seed=0, updates=3):
    return train(FAMILIES[family](), kind, built(name, parameters_of(name)), lr, seed, until(updates))


def without_noise(family):
    certain = family.chance.copy()
    certain[family.layers[-1]] = np.eye(family.chance.shape[2])[0]
    return replace(family, chance=certain)


@METHODS_HERE
@pytest.mark.parametrize("kind", ["tabular", "linear"])
def test_a_seed_gives_the_same_numbers_bit_for_bit(name, kind):
    one, two, other = (run(name, kind=kind, seed=seed) for seed in (0, 0, 1))
    assert one.value.tobytes() == two.value.tobytes()
    assert all(one.spent[axis].tobytes() == two.spent[axis].tobytes() for axis in AXES)
    assert one.value.tobytes() != other.value.tobytes()


def test_every_method_meets_the_same_tasks_and_they_are_new_in_every_update():
    seen = [task for number in range(50) for task in tasks_of(3, number)]
    assert len(set(seen)) == len(seen)
    assert tasks_of(3, 0) == tasks_of(3, 0)
    assert tasks_of(3, 0) != tasks_of(4, 0)


def test_learning_reaches_the_optimum_of_a_family():
    family = FAMILIES["shared"]()
    curve = run("rloo", updates=40)
    assert curve.value[0] == pytest.approx(expected_return(family, np.exp(log_softmax(family.start))))
    assert curve.value[-1] > 0.95 * optimum(family)


def test_the_linear_policy_carries_over_what_the_table_must_learn_again():
    linear, tabular = (run("rloo", "late", kind, updates=8).value[-1] for kind in ("linear", "tabular"))
    assert linear > tabular + 0.05


def test_log_probabilities_are_those_of_the_table_that_acts():
    family = FAMILIES["shared"]()
    for kind in ("tabular", "linear"):
        policy = FeaturePolicy(family, kind)
        with torch.no_grad():
            policy.weights.copy_(
                torch.randn(policy.weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            )
        box = FamilySandbox(family)
        context = box.reset("draw-0")
        decisions = policy.act([context] * 6, [np.random.default_rng(i) for i in range(6)])
        values, owner = policy.logprob([(context, one) for one in decisions])
        assert owner.tolist() == list(range(6))
        assert values.detach().numpy() == pytest.approx([one.log_probs[0] for one in decisions])
        assert np.exp([one.log_probs[0] for one in decisions]) == pytest.approx(
            [policy.probabilities()[0, one.tokens[0]] for one in decisions]
        )


def test_states_with_the_same_features_have_the_same_probabilities_after_training():
    family = FAMILIES["late"]()
    policy = FeaturePolicy(family, "linear")
    with torch.no_grad():
        policy.weights.add_(torch.arange(policy.weights.numel(), dtype=torch.float64).reshape(policy.weights.shape) ** 1.5)
    table = policy.probabilities()
    groups = family.features.argmax(axis=1)
    for group in np.unique(groups):
        assert np.ptp(table[groups == group], axis=0).max() == 0


def test_a_saved_policy_goes_on_as_it_was():
    family = FAMILIES["late"]()
    policy, again = FeaturePolicy(family, "tabular"), FeaturePolicy(family, "tabular")
    with torch.no_grad():
        policy.weights.add_(1.0)
        policy.weights[3, 1] = 5.0
    again.load_state_dict(policy.state_dict())
    assert (again.probabilities() == policy.probabilities()).all()
    assert not policy.frozen_copy().weights.requires_grad
    with pytest.raises(ValueError, match="kind is 'deep'"):
        FeaturePolicy(family, "deep")


@pytest.mark.parametrize("family", ["late", "prefix"])
def test_the_budget_is_what_independent_rollouts_spend(family):
    budget = Budget.of(FAMILIES[family](), 4)
    curve = train(FAMILIES[family](), "linear", built("rloo", {"returns": 13}), 0.4, 0, spends(budget))
    assert len(curve.value) - 1 == 4
    assert {axis: curve.spent[axis][-1] for axis in AXES} == pytest.approx({axis: getattr(budget, axis) for axis in AXES})
    assert curve.forks[-1] == 0


def test_a_cheaper_method_makes_more_updates_until_every_budget_is_spent():
    family = FAMILIES["prefix"]()
    budget = Budget.of(family, 4)
    curve = train(family, "linear", built("bpo", parameters_of("bpo")), 0.4, 0, spends(budget))
    assert len(curve.value) - 1 > 4
    assert all(curve.spent[axis][-1] >= getattr(budget, axis) for axis in AXES)
    assert any(curve.spent[axis][-2] < getattr(budget, axis) for axis in AXES)


def test_a_fork_below_the_root_costs_what_the_family_says():
    family = FAMILIES["prefix"]()
    curve = train(family, "tabular", built("bpo", parameters_of("bpo")), 0.4, 0, until(1))
    # A path of 8 cheap actions and 3 of price 1; forks pay their own actions and one more.
    steps, forks, cost = curve.spent["steps"][-1], curve.forks[-1], curve.spent["cost"][-1]
    assert 0 < forks < curve.spent["returns"][-1]
    dear = cost - forks * family.fork - 0.1 * steps
    assert dear / 0.9 == pytest.approx(round(dear / 0.9))
    assert round(dear / 0.9) <= steps


def test_forks_are_counted_below_the_root_alone():
    family, policy = FAMILIES["late"](), FeaturePolicy(FAMILIES["late"](), "tabular")
    counts = {}
    for name, parameters in (
        ("rloo", {"returns": 5}),
        ("bpo_split", {"points": 3, "width": 3, "selector": "every", "unit": "steps", "gap": 1}),
    ):
        method = built(name, {**parameters, **({"selector_value": 1} if name == "bpo_split" else {})})
        trees, _ = grow(["draw-0"], [FamilySandbox(family)], policy, method.growth, (0,))
        counts[name] = forks_below_root(trees[0])
    assert counts == {"rloo": 0, "bpo_split": 4}


def test_an_area_is_the_mean_of_j_while_the_budget_is_spent():
    assert area([0.0, 1.0], [0.0, 10.0], 10.0) == 0.0
    assert area([0.0, 0.5, 1.0], [0.0, 4.0, 20.0], 10.0) == pytest.approx(0.5 * 6 / 10)
    assert np.isnan(area([0.0, 0.5], [0.0, 4.0], 10.0))


def test_what_a_table_takes_from_a_run():
    family = FAMILIES["shared"]()
    budget = Budget.of(family, 3)
    curve = train(family, "tabular", built("rloo", {"returns": 13}), 0.4, 0, spends(budget))
    found = measured(family, curve, budget)
    path = share(family, curve.value)
    assert path[0] == 0
    assert found["area_returns"] == pytest.approx(path[:3].mean())
    assert found["final_steps"] == pytest.approx(path[3])
    assert (found["updates"], found["forks"]) == (3, 0)


def test_mass_splitting_is_unbiased_where_the_last_action_decides():
    family = without_noise(FAMILIES["late"]())
    problem = Problem(np.exp(log_softmax(family.start)), family.reward[family.layers[-1]][..., 0].ravel())
    parameters = {"points": 2, "width": 2, "selector": "every", "selector_value": 4, "unit": "steps", "gap": 1}
    method = built("bpo_split", parameters)
    found = moments(problem, method.growth, method.credit.args[0])
    assert found.exact
    assert found.bias < 1e-12
    # Only the last action has an advantage.
    last = family.layers[-1]
    assert np.abs(problem.gradient[: last.start]).max() < 1e-12
    assert np.abs(problem.gradient[last]).min() > 1e-4


@pytest.mark.parametrize("arm", chart.ARMS)
def test_a_prediction_is_that_of_the_exact_engine_where_there_is_no_chance(arm):
    spot = chart.Spot(Decision(2, 3, False), 2)
    family = without_noise(decision(spot.decision))
    name, parameters = spot.arm(arm)
    method = built(name, dict(parameters))
    problem = Problem(np.exp(log_softmax(family.start)), family.reward[family.layers[-1]][..., 0].ravel())
    known = moments(problem, method.growth, method.credit.args[0])
    trace, steps = chart.drawn(family, method, 1500)
    assert known.exact
    assert steps == pytest.approx(known.env_steps)
    assert trace == pytest.approx(known.trace_cov, rel=0.1)


def test_all_rows_of_the_table_are_tried_and_one_that_cannot_run_says_why(monkeypatch):
    from bpo.methods import table

    def refuses(*given):
        raise NotImplementedError("it needs a model that reads text")

    broken = replace(METHODS["rloo"], learner=refuses)
    able, unable = expressible(list(METHODS))
    assert (able, unable) == (list(METHODS), {})
    monkeypatch.setitem(table.METHODS._own, "broken", broken)
    able, unable = expressible(["rloo", "broken"])
    assert able == ["rloo"]
    assert unable == {"broken": "NotImplementedError: it needs a model that reads text"}
