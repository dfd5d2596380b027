"""The text drawing of a tree."""

from __future__ import annotations

from dataclasses import replace

from bpo.credit import bpo_split
from bpo.viz.layout import labels
from bpo.viz.text import tree_lines


def test_every_edge_has_a_line_with_its_numbers(tree):
    lines = tree_lines(tree, bpo_split([tree])[0])
    assert len(lines) == len(tree)
    assert lines[0] == "tree-00"
    assert sum("-> G = " in line for line in lines) == len(tree.leaves) == 3
    assert sum("-*" in line for line in lines) == sum(len(tree.children[b]) for b in tree.branch_points)
    assert all("[H 0.69, m " in line for line in lines[1:])
    assert lines[1].startswith("|-* ")
    assert any(line.startswith("`-* ") for line in lines)


def test_an_action_is_one_line_and_is_shortened_where_a_width_is_given(tree):
    steps = tuple(s and replace(s, decision=replace(s.decision, action="sed -n\n1,40p a_long_name.py")) for s in tree.steps)
    long = replace(tree, steps=steps)
    whole, short = tree_lines(long), tree_lines(long, width=42)
    assert len(whole) == len(short) == len(tree)
    assert all("sed -n 1,40p a_long_name.py [H" in line for line in whole[1:])
    assert all(len(line) <= 42 and "... [H" in line for line in short[1:])
    assert all("sed -... [H" in line for line in tree_lines(long, width=1)[1:])


def test_inside_an_action_that_goes_on_are_three_dots(tree):
    """Free writing may pause, so that trees branch there; such a decision has a piece of an action."""
    steps = list(tree.steps)
    steps[1] = replace(steps[1], decision=replace(steps[1].decision, action="go to", ended=False))
    paused = replace(tree, steps=tuple(steps))
    assert tree_lines(paused)[1].startswith("|-* go to... [H ")
    assert labels(paused, bpo_split([paused])[0], column=40)[1].endswith(" go to...")
