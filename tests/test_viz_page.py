"""The HTML page and the widget: complete, without a network, and no text of a sandbox can break them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from strategies import trees

from bpo import tree_log
from bpo.credit import bpo_split
from bpo.tree import ROOT
from bpo.tree_log import SavedTree
from bpo.viz.page import page, plain, script

HOSTILE = "</script><script>document.title = 'broken'</script><!-- <b>&amp;\"' \u2028 \ud800 -->"


def hostile(grown) -> SavedTree:
    """A record in which every text that a sandbox or a policy can choose is hostile."""
    tree = grown[0]
    steps = tuple(s and replace(s, decision=replace(s.decision, action=HOSTILE)) for s in tree.steps)
    tree = replace(tree, task=HOSTILE, steps=steps)
    one = tree_log.of_update(1, "bpo_split", [tree], bpo_split([tree]))[0]
    return replace(one, observations=tuple(HOSTILE for _ in range(len(tree))))


def data_of(text: str) -> dict:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(data)


@settings(max_examples=10, deadline=None)
@given(trees())
def test_every_node_is_in_the_page_with_what_is_known_of_it(grown):
    one = tree_log.of_update(3, "bpo_split", grown, bpo_split(grown))[0]
    tree, data = one.tree, data_of(page(one))
    assert data == plain(one)
    assert data["title"] == tree.task
    assert data["subtitle"].startswith("bpo_split, update 3: ")
    assert len(data["nodes"]) == len(tree)
    for node, row in enumerate(data["nodes"]):
        assert row["observation"] == one.observations[node]
        assert row["parent"] == (None if node == ROOT else tree.parent[node])
        assert (row["ending"] is None) == bool(tree.children[node])
        if node != ROOT:
            assert row["action"] == tree.steps[node].decision.action
            assert row["log_prob"] == sum(tree.steps[node].decision.log_probs)
            assert row["q"] - row["siblings"] == pytest.approx(row["advantage"]) or not row["has_signal"]


@settings(max_examples=3, deadline=None)
@given(trees())
def test_no_text_can_leave_its_place(grown):
    text = page(hostile(grown))
    assert text.count("</script>") == text.count("<script") == 2
    assert "<!--" not in text
    assert "<b>" not in text
    data = data_of(text)
    assert data["title"] == HOSTILE
    assert {row["observation"] for row in data["nodes"]} == {HOSTILE}
    text.encode()  # a lone half of a character pair would not go into a file


def test_the_script_can_lie_in_a_page_and_asks_for_nothing_from_elsewhere():
    source = script()
    assert len(source.splitlines()) < 300
    for word in ("</", "<!--", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "fetch(", "import(", "https:"):
        assert word not in source, word


@settings(max_examples=3, deadline=None)
@given(trees())
def test_a_page_names_no_address(grown):
    one = tree_log.of_update(1, "bpo_split", grown, bpo_split(grown))[0]
    text = page(one)
    assert set(re.findall(r"https?://[^\"' ;]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text
    assert page(one) == text


@settings(max_examples=1, deadline=None)
@given(trees())
def test_the_widget_holds_the_same_data_and_has_a_stable_name(grown):
    pytest.importorskip("anywidget", reason="anywidget is not installed (it is in the extra 'notebooks')")
    from bpo.viz.widget import tree_widget

    one = tree_log.of_update(1, "bpo_split", grown, bpo_split(grown))[0]
    widget = tree_widget(one)
    assert widget.data == plain(one)
    assert repr(widget) == repr(tree_widget(one)) == f"TreeWidget({one.tree.task!r}, {plain(one)['subtitle']!r})"
    assert "export default" in widget._esm
