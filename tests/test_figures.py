"""The committed figures are of the committed trees, and the command that draws them runs."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest
from places import ROOT

from bpo.viz.layout import labels, rows
from figures.__main__ import trees

FOLDER = ROOT / "figures"


@pytest.mark.parametrize(("number", "leaves", "points"), [(0, 13, 4), (1, 64, 21)])
def test_the_trees_have_the_shape_that_is_said(number, leaves, points):
    """The layout is compared, not the bytes: those differ between versions of matplotlib."""
    one = trees()[number]
    tree, row = one.tree, rows(one.tree)
    assert (len(tree.leaves), len(tree.branch_points)) == (leaves, points)
    assert sorted(row[tree.leaves]) == list(range(leaves))
    assert len(set(row[list(tree.backbone)])) == 1
    assert min(row[tree.backbone[0]], leaves - 1 - row[tree.backbone[0]]) > leaves // 4
    words = labels(tree, one.credit, column=20)
    compared = [child for point in tree.branch_points for child in tree.children[point]]
    assert np.mean([bool(words[child]) for child in compared]) > 0.9
    assert None not in one.observations


def test_the_command_draws_pictures_of_the_committed_size(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "figures", "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    committed = {path.name: size(path) for path in FOLDER.glob("*.png")}
    assert set(committed) == {"tree_13_leaves.png", "tree_64_leaves.png"}
    assert {path.name: size(path) for path in tmp_path.iterdir()} == committed
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 1_000_000


def size(path) -> tuple[int, int]:
    """Width and height in a PNG's head."""
    return struct.unpack(">II", path.read_bytes()[16:24])
