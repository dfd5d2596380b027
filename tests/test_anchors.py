"""Groups of steps from one state (GiGPO): which steps they hold, and what makes two states one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bpo.credit import gigpo
from bpo.credit.anchors import anchored
from bpo.methods import build
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import grow
from bpo.sandbox import Observation
from bpo.sandboxes.toy import TASKS, ToyTree
from bpo.tree import ROOT

RETURNS = [0.1, 0.9, 0.4, 0.3, 0.0, 1.0, 0.2, 0.6]


PLACE = "in the big old house: room "


def grown(returns=6):
    growth = build("gigpo", {"returns": returns}).growth
    trees, _ = grow(TASKS[:1], [ToyTree(RETURNS)], TabularPolicy.uniform(RETURNS), growth, (0,))
    return trees[0]


def renamed(tree, texts):
    """The tree with another observation in every state, by its old text."""
    steps = [
        None if step is None else replace(step, context=Observation(texts[step.context.text], step.context.actions, "", 0))
        for step in tree.steps
    ]
    return replace(tree, steps=tuple(steps))


def test_every_step_is_in_one_group_and_a_group_is_one_state():
    tree = grown()
    for anchor in ("text", "state"):
        groups = anchored([tree], anchor)
        assert sorted(node for group in groups for _, node in group) == list(range(1, len(tree)))
        keys = [{tree.state_key[tree.parent[node]] for _, node in group} for group in groups]
        assert all(len(states) == 1 for states in keys)
        assert len(set.union(*keys)) == len(groups)
        assert [node for _, node in groups[0]] == list(tree.children[ROOT])


def test_states_whose_texts_are_nearly_alike_are_one_on_request():
    """Room 1 and room 2 of the same long text have a ratio of 0.96 or more, and the root another text."""
    names = {"": "the start", **dict.fromkeys(("00", "01", "10", "11"), "x" * 30)}
    tree = renamed(grown(), {**names, "0": f"{PLACE}1", "1": f"{PLACE}2"})
    count = {anchor: len(anchored([tree], anchor)) for anchor in ("text", "similar")}
    assert count == {"text": 4, "similar": 3}


def test_a_state_that_one_step_alone_began_in_adds_nothing():
    """A rollout by itself in its states gets the step's part at the root alone."""
    tree = grown(3)
    lonely = [group[0][1] for group in anchored([tree], "text") if len(group) == 1]
    (with_steps,), (without,) = gigpo([tree]), gigpo([tree], omega=0.0)
    assert lonely
    assert with_steps.advantage[lonely].tolist() == without.advantage[lonely].tolist()
    assert any(with_steps.advantage[child] != without.advantage[child] for child in tree.children[ROOT])


def test_rollouts_of_one_length_count_alike_by_step_and_by_rollout():
    """Three steps each: of nine numbers instead of three the mean is the same, and the sample std smaller."""
    tree = grown(3)
    (steps,), (rollouts,) = gigpo([tree], omega=0.0), gigpo([tree], over="rollouts", omega=0.0)
    factor = ((3 / 2) / (9 / 8)) ** 0.5
    assert steps.advantage.tolist() == pytest.approx((rollouts.advantage * factor).tolist())
    assert abs(steps.advantage).max() > 0.1
