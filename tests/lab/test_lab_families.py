"""The families: exact values against enumeration, sampling and the exact engine, and what each family's name promises."""

import itertools

import numpy as np
import pytest

from bpo.checkfork import check_fork
from bpo.exact.problem import Problem
from bpo.lab.dynamic import expected_return, explained, log_softmax, optimum, reach, values
from bpo.lab.families import FAMILIES, FORTUNE, NOISE, Decision, decision
from bpo.lab.family import OVER
from bpo.lab.sandbox import FamilySandbox, outcomes
from bpo.replay import ReplaySandbox
from bpo.sandbox import SnapshotError

EVERY = pytest.mark.parametrize("name", FAMILIES)
# Families whose state is the history and which have no chance but the noise of the end: a tree of the exact engine.
TREES = ("late", "early", "two", "lock", "majority", "informs", "misleads")


def start(family):
    return np.exp(log_softmax(family.start))


def some_policy(family, seed=0):
    return np.exp(log_softmax(np.random.default_rng(seed).normal(size=family.start.shape)))


def enumerated(family, probabilities, state=0):
    """J by walking every sequence of actions and outcomes."""
    total = 0.0
    for action, outcome in itertools.product(range(family.width), range(family.chance.shape[2])):
        chance = probabilities[state, action] * family.chance[state, action, outcome]
        if chance:
            after = family.following[state, action, outcome]
            below = 0.0 if after == OVER else enumerated(family, probabilities, after)
            total += chance * (family.reward[state, action, outcome] + below)
    return total


@EVERY
def test_the_arrays_of_a_family_fit_together(name):
    family = FAMILIES[name]()
    states = len(family.names)
    assert len(set(family.names)) == states
    assert family.chance.sum(axis=2) == pytest.approx(np.ones((states, family.width)))
    inner = family.following != OVER
    assert (family.depth[family.following[inner]] == np.broadcast_to(family.depth[:, None, None] + 1, inner.shape)[inner]).all()
    assert (family.features.sum(axis=1) == 1).all()
    assert reach(family, start(family)).min() > 0
    assert [layer.stop - layer.start for layer in family.layers] == np.bincount(family.depth).tolist()


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "prefix"])
def test_j_by_dynamic_programming_is_j_by_enumeration(name):
    family = FAMILIES[name]()
    probabilities = some_policy(family)
    assert expected_return(family, probabilities) == pytest.approx(enumerated(family, probabilities), abs=1e-12)


@EVERY
def test_j_by_dynamic_programming_is_the_mean_return_of_episodes(name):
    family, episodes = FAMILIES[name](), 4000
    probabilities = some_policy(family, 1)
    box, rng, total = FamilySandbox(family), np.random.default_rng(2), []
    for task in range(episodes):
        box.reset(f"draw-{task}")
        state, done, reward = 0, False, 0.0
        while not done:
            outcome = box.step(str(rng.choice(family.width, p=probabilities[state])))
            reward, done = reward + outcome.reward, outcome.done
            state = box.state_key()
        total.append(reward)
    error = np.std(total) / episodes**0.5
    assert abs(np.mean(total) - expected_return(family, probabilities)) < 4 * error


@pytest.mark.parametrize("name", TREES)
def test_values_are_those_of_the_exact_engine(name):
    family = FAMILIES[name]()
    probabilities = some_policy(family, 3)
    leaves = (family.chance * family.reward).sum(axis=2)[family.layers[-1]].ravel()
    problem = Problem(probabilities, leaves)
    v, _ = values(family, probabilities)
    assert v == pytest.approx(problem.value[: len(v)])
    assert explained(family, probabilities) == pytest.approx([problem.variance(depth) for depth in range(family.horizon)])


@EVERY
def test_the_optimum_takes_the_right_action_at_every_decisive_depth(name):
    family = FAMILIES[name]()
    best = np.full(family.start.shape, 1 / family.width)
    decisive = np.isin(family.depth, family.decisive)
    best[decisive] = np.eye(family.width)[family.right[decisive]]
    assert expected_return(family, best) == pytest.approx(optimum(family))
    assert expected_return(family, start(family)) < optimum(family) - 0.1
    fortune = FORTUNE / 2 if name == "luck" else 0.0
    assert optimum(family) == pytest.approx(1 - NOISE + fortune)


@EVERY
def test_an_action_matters_at_decisive_depths_alone(name):
    family = FAMILIES[name]()
    v, q = values(family, start(family))
    matters = {int(t) for t in family.depth[np.abs(q - v[:, None]).max(axis=1) > 1e-9]}
    assert matters == set(family.decisive)


def test_late_and_early_decide_where_they_say():
    assert FAMILIES["late"]().decisive == (FAMILIES["late"]().horizon - 1,)
    assert FAMILIES["early"]().decisive == (0,)
    assert len(FAMILIES["two"]().decisive) == 2


def test_only_luck_explains_much_before_the_decision():
    share = {}
    for name in ("late", "luck"):
        family = FAMILIES[name]()
        share[name] = explained(family, start(family))[family.decisive[0]]
    assert share["late"] == pytest.approx(0)
    assert share["luck"] == pytest.approx((FORTUNE / 2) ** 2)


def test_entropy_is_highest_at_the_decision_in_one_family_and_lowest_there_in_the_other():
    for name, best in (("informs", max), ("misleads", min)):
        family = FAMILIES[name]()
        logs = log_softmax(family.start)
        entropy = -(np.exp(logs) * logs).sum(axis=1)
        depths = [float(entropy[layer].mean()) for layer in family.layers]
        assert best(range(family.horizon), key=depths.__getitem__) == family.decisive[0]


def test_the_misled_policy_is_sure_of_a_wrong_action():
    family = FAMILIES["misleads"]()
    here = np.flatnonzero(family.depth == family.decisive[0])
    assert (start(family)[here].argmax(axis=1) != family.right[here]).all()
    assert start(family)[here].max() == pytest.approx(0.8)


def test_the_prefix_is_cheap_nearly_certain_and_leads_on_whatever_is_done():
    family = FAMILIES["prefix"]()
    routine = family.price < 1
    assert family.depth[routine].tolist() == list(range(8))
    assert start(family)[routine].max(axis=1) == pytest.approx(0.98)
    assert (family.following[routine] == family.following[routine][:, :1]).all() or family.chance[routine][..., 1:].max() == 0


def test_shared_has_the_values_of_majority_in_a_third_of_the_states():
    merged, histories = FAMILIES["shared"](), FAMILIES["majority"]()
    assert expected_return(merged, start(merged)) == pytest.approx(expected_return(histories, start(histories)))
    assert optimum(merged) == optimum(histories)
    assert len(merged.names) < len(histories.names) / 2


@EVERY
def test_forks_are_exact(name):
    make = lambda: FamilySandbox(FAMILIES[name]())  # noqa: E731
    report = check_fork(make, ["draw-0", "draw-7"], games=2, branches=4, steps=12, seed=0, reference=make)
    assert (report.steps > 0, report.mismatches) == (True, 0)


def test_a_replay_of_the_actions_ends_where_the_fork_does():
    family = FAMILIES["luck"]()
    plain, replayed = FamilySandbox(family), ReplaySandbox(lambda: FamilySandbox(family))
    for box in (plain, replayed):
        box.reset("draw-3")
        box.step("1")
    snapshots = [box.snapshot() for box in (plain, replayed)]
    ends = []
    for box, snapshot in zip((plain, replayed), snapshots, strict=True):
        for actions in ("0120", "2211"):
            box.restore(snapshot)
            ends.append([box.step(action).reward for action in actions])
    assert ends[:2] == ends[2:]


def test_chance_has_the_familys_probabilities_over_tasks_and_none_within_one():
    family = FAMILIES["luck"]()
    falls = np.flatnonzero(family.chance[:, 0].max(axis=1) == 0.5)
    assert set(family.depth[falls]) == {1}
    fell, judged = [], []
    for task in range(400):
        following, reward = outcomes(family, task)
        again, _ = outcomes(family, task)
        assert (following == again).all()
        fell.append(following[falls] == family.following[falls][:, :, 1])
        judged.append(reward[-1] == family.reward[-1, :, 1])
    assert np.mean(fell) == pytest.approx(0.5, abs=0.04)
    assert np.mean(judged) == pytest.approx(NOISE, abs=0.05)


def test_a_snapshot_of_another_episode_or_sandbox_is_refused():
    box = FamilySandbox(FAMILIES["late"]())
    box.reset("draw-0")
    old = box.snapshot()
    box.reset("draw-0")
    with pytest.raises(SnapshotError):
        box.restore(old)
    other = FamilySandbox(FAMILIES["late"]())
    other.reset("draw-0")
    with pytest.raises(SnapshotError):
        other.restore(box.snapshot())


@pytest.mark.parametrize("task", ["", "draw", "draw--1", f"draw-{2**32}", "draw-1 ", "other-0"])
def test_an_unknown_task_is_refused_by_name(task):
    with pytest.raises(ValueError, match="unknown task"):
        FamilySandbox(FAMILIES["late"]()).reset(task)


@pytest.mark.parametrize("lucky", [False, True])
def test_a_decision_of_the_map_lies_where_it_says(lucky):
    family = decision(Decision(2, 4, lucky))
    v, q = values(family, start(family))
    assert {int(t) for t in family.depth[np.abs(q - v[:, None]).max(axis=1) > 1e-9]} == {2}
    assert optimum(family) == pytest.approx(1 - NOISE + FORTUNE / 2 * lucky)
