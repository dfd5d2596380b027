"""The drawing of a tree: numbers of its layout, words beside its edges, equal pictures of equal trees."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import root_trees, trees

from bpo import select, tree_log
from bpo.credit import bpo_split
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import Growth, grow
from bpo.sandboxes.toy import ToyTree
from bpo.tree_log import SavedTree
from bpo.viz import plots
from bpo.viz.layout import ending, label_start, labels, rows
from bpo.viz.trees import tree_figure

grown = st.one_of(trees(), root_trees())


def record(tree) -> SavedTree:
    return tree_log.of_update(1, "bpo_split", [tree], bpo_split([tree]))[0]


@settings(max_examples=100, deadline=None)
@given(grown)
def test_every_leaf_has_a_row_of_its_own_and_every_path_is_straight(batch):
    tree, row = batch[0], rows(batch[0])
    assert sorted(row[tree.leaves]) == list(range(len(tree.leaves)))
    assert len(set(row[list(tree.backbone)])) == 1
    for node in range(1, len(tree)):
        assert tree.depth[tree.parent[node]] < tree.depth[node]
        assert (row[node] == row[tree.parent[node]]) == (tree.sibling_index[node] == 0)


@settings(max_examples=100, deadline=None)
@given(grown)
def test_no_two_edges_cross(batch):
    """In every column the edges arrive in the order in which they leave."""
    tree, row = batch[0], rows(batch[0])
    for one, other in itertools.combinations(range(1, len(tree)), 2):
        if tree.depth[one] == tree.depth[other]:
            leave, arrive = row[tree.parent[one]] - row[tree.parent[other]], row[one] - row[other]
            assert leave * arrive >= 0
            assert arrive != 0


def test_the_backbone_lies_between_its_forks():
    growth = Growth(select.RootOnly(), points=1, width=13, root=True)
    (tree,), _ = grow(["tree-00"], [ToyTree(range(8))], TabularPolicy.uniform(range(8)), growth, (1,))
    assert rows(tree)[tree.backbone[-1]] == 6


@settings(max_examples=50, deadline=None)
@given(grown, st.floats(0.5, 30))
def test_labels_stay_in_their_room_and_do_not_overlap(batch, column):
    tree = batch[0]
    row, words = rows(tree), labels(tree, bpo_split([tree])[0], column)
    spans: dict[int, list[tuple[float, float]]] = {}
    for node in range(1, len(tree)):
        if words[node]:
            start = label_start(tree, node)
            spans.setdefault(int(row[node]), []).append((start, start + len(words[node]) / column))
    points = {(int(row[node]), float(tree.depth[node])) for node in (*tree.branch_points, *tree.leaves)}
    for y, line in spans.items():
        line.sort()
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(line))
        assert not any(start < x < end - 1e-9 for start, end in line for at, x in points if at == y)


def test_compared_edges_are_labelled_with_their_advantage(tree):
    credit = bpo_split([tree])[0]
    words = labels(tree, credit, column=40)
    for point in tree.branch_points:
        for child in tree.children[point]:
            assert words[child] == f"{credit.advantage[child]:+.2f} {tree.steps[child].decision.action}"
    assert set(labels(tree, credit, column=0.5)) == {""}


def test_how_an_episode_ended_is_said_in_words(tree):
    leaf = int(tree.leaves[0])
    for facts, word in (
        ({"won": True}, "won, G"),
        ({"won": False, "truncated": True}, "cut off, G"),
        ({"won": False}, "lost, G"),
        ({}, "G"),
    ):
        object.__setattr__(tree, "outcome", tuple(facts if node == leaf else {} for node in range(len(tree))))
        assert ending(tree, leaf) == f"{word} {tree.returns[leaf]:g}"


def test_equal_trees_are_equal_pictures(tree):
    same = SavedTree.from_json(record(tree).to_json(), "here")
    image = plots.png(tree_figure(record(tree)))
    assert image.startswith(b"\x89PNG")
    assert plots.png(tree_figure(same)) == image
    other = SavedTree(same.update, same.method, tree, same.observations, bpo_split([tree])[0])
    other.credit.advantage[1] *= -1
    assert plots.png(tree_figure(other)) != image


def test_a_tree_without_any_contrast_and_a_single_path_can_be_drawn():
    growth = Growth(select.RootOnly(), points=0, width=1)
    (tree,), _ = grow(["tree-00"], [ToyTree([0, 0])], TabularPolicy.uniform([0, 0]), growth, (1,))
    flat = tree_log.of_update(1, "none", [tree], bpo_split([tree], root_baseline="zero"))[0]
    assert not flat.credit.has_signal.any()
    assert np.abs(flat.credit.advantage).max() == 0
    assert plots.png(tree_figure(flat)).startswith(b"\x89PNG")


def test_any_text_can_be_drawn(tree):
    """Dollars are no formula, and what no font has is one sign."""
    odd = "awk '{print $1 \\frac{$'\n\t\x1b[31m\ud800"
    steps = tuple(step and replace(step, decision=replace(step.decision, action=odd)) for step in tree.steps)
    strange = record(replace(tree, task="$_{", steps=steps))
    assert labels(strange.tree, strange.credit, column=60)[1].endswith("awk '{print $1 \\frac{$' \ufffd[31m\ufffd")
    assert plots.png(tree_figure(strange)).startswith(b"\x89PNG")
