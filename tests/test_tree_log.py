"""Saved trees: what a record holds, that it survives the file, and what is said of files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import trees

from bpo import tree_log
from bpo.config import load_preset
from bpo.credit import bpo_split
from bpo.errors import BadInput
from bpo.train import Trainer
from bpo.tree_log import SavedTree


def record(grown, update: int = 1) -> SavedTree:
    return tree_log.of_update(update, "bpo_split", grown, bpo_split(grown))[0]


@settings(max_examples=25, deadline=None)
@given(trees())
def test_a_record_survives_its_line_of_json(grown):
    before = record(grown)
    line = before.to_json()
    after = SavedTree.from_json(line, "here")
    assert "\n" not in line
    assert after.to_json() == line
    np.testing.assert_array_equal(after.siblings, before.siblings)


@settings(max_examples=25, deadline=None)
@given(trees())
def test_of_a_decision_the_log_prob_is_kept_and_not_its_tokens(grown):
    for step, full in zip(record(grown).tree.steps[1:], grown[0].steps[1:], strict=True):
        assert step.decision.log_probs == (sum(full.decision.log_probs),)
        assert step.decision.tokens == step.decision.choices == step.decision.entropies == ()
        assert (step.decision.action, step.decision.entropy) == (full.decision.action, full.decision.entropy)


@settings(max_examples=25, deadline=None)
@given(trees())
def test_every_state_has_its_observation(grown):
    """The toy sandbox shows the actions so far, so the text of a state is known: also where the episode ended."""
    (tree,) = grown
    root, *texts = tree_log.observed(tree)
    shown = ["", *texts]
    for node in range(1, len(tree)):
        assert shown[node] == shown[tree.parent[node]] + tree.steps[node].decision.action
    assert root == "Task: find the best leaf\n"


@settings(max_examples=25, deadline=None)
@given(trees())
def test_siblings_are_the_baseline_of_mass_splitting(grown):
    """The root branches here, so every edge has a branch point at or above; those with a signal have A = Q - siblings."""
    one = record(grown)
    edges = one.credit.has_signal[1:]
    gain = one.tree.value[1:] - one.siblings[1:]
    np.testing.assert_allclose(one.credit.advantage[1:][edges], gain[edges], atol=1e-12)


def test_above_the_first_branch_point_there_are_no_siblings():
    preset = load_preset("smoke")
    run = preset.run("bpo_split", "toy", 0, {"root": False, "trees": 2})
    trainer = Trainer(run, Path("unused"))
    _, kept = trainer.one_update()
    trainer.close()
    for one in kept:
        first = int(one.tree.branch_points[0]) if len(one.tree.branch_points) else len(one.tree)
        above = [node for node in range(1, len(one.tree)) if node <= first]
        assert np.isnan(one.siblings[above]).all()
        assert not np.isnan(one.siblings[one.tree.children[first][0] :]).any() if first < len(one.tree) else True


def test_a_run_keeps_the_first_trees_of_every_update(tmp_path):
    run = load_preset("smoke").run("grpo", "toy", 0)
    trainer = Trainer(run, tmp_path)
    trainer.run()
    kept = tree_log.read(tmp_path)
    assert [(one.update, one.method) for one in kept] == [(u, "grpo") for u in (1, 2, 3, 4) for _ in range(tree_log.PER_UPDATE)]
    assert all(len(one.tree.leaves) == 8 for one in kept)
    assert [one.tree.task for one in kept[:2]] == trainer.tasks_of(0)[:2]


@pytest.fixture
def folder(tmp_path) -> Path:
    trainer = Trainer(load_preset("smoke").run("bpo_split", "toy", 0), tmp_path)
    trainer.run()
    return tmp_path


def test_truncation_keeps_whole_lines_up_to_an_update(folder):
    path = folder / tree_log.FILE
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines) + lines[0][:50])
    tree_log.truncate(path, 4)
    assert path.read_text() == "".join(lines)
    tree_log.truncate(path, 2)
    assert path.read_text() == "".join(lines[:4])
    tree_log.truncate(path, 0)
    assert path.read_text() == ""


def test_a_line_that_is_still_being_written_is_left_out(folder):
    path = folder / tree_log.FILE
    whole = path.read_text()
    path.write_text(whole + whole[:50])
    assert len(tree_log.read(folder)) == 8


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: "{", "line 2 is not JSON"),
        (lambda raw: "[]", "line 2: an object with update, method, tree"),
        (lambda raw: {**raw, "update": "one"}, "line 2: update is 'one'; it must be a whole number"),
        (lambda raw: {key: raw[key] for key in raw if key != "weight"}, "line 2: weight is missing"),
        (lambda raw: {**raw, "tree": {**raw["tree"], "parent": [0]}}, "line 2: tree: sibling_index has"),
        (lambda raw: {**raw, "tree": 3}, "line 2: tree"),
        (lambda raw: {**raw, "tree": {**raw["tree"], "steps": [{}]}}, "line 2: tree"),
        (lambda raw: {**raw, "advantage": [0.0]}, "line 2: advantage must be a list of"),
        (lambda raw: {**raw, "advantage": [None, *raw["advantage"][1:]]}, "each a number"),
        (lambda raw: {**raw, "has_signal": [0, *raw["has_signal"][1:]]}, "each true or false"),
        (lambda raw: {**raw, "observations": [1, *raw["observations"][1:]]}, "each text or null"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence_with_file_line_and_field(folder, change, said):
    path = folder / tree_log.FILE
    lines = path.read_text().splitlines()
    changed = change(json.loads(lines[1]))
    lines[1] = changed if isinstance(changed, str) else json.dumps(changed)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInput) as error:
        tree_log.read(folder)
    assert str(error.value).startswith(f"{path}, line 2")
    assert said in str(error.value)


def test_a_folder_without_trees_is_named(tmp_path):
    with pytest.raises(BadInput, match="holds no saved trees: name the folder of a run"):
        tree_log.read(tmp_path)
    with pytest.raises(BadInput, match="nothing' is no folder"):
        tree_log.read(tmp_path / "nothing")
