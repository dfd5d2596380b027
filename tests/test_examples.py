"""Every example is short, runs, and prints what its first line promises."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from places import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def printed(name: str) -> str:
    """What an example prints."""
    done = subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_at_most_40_lines(path):
    assert len(path.read_text().splitlines()) <= 40


def test_own_sandbox_forks_exactly_and_grows_a_tree():
    out = printed("own_sandbox")
    assert re.search(r"steps=\d{3}, mismatches=0", out)
    assert out.count("-> G =") == 5  # two branch points of three children
    assert "-> G = 1" in out


def test_own_selector_is_unbiased_and_the_post_hoc_one_is_not():
    own, post_hoc = printed("own_selector").splitlines()
    assert own.startswith("RelativeEntropy: unbiased")
    assert post_hoc.startswith("TopEntropy: biased")


@pytest.mark.smollm
def test_tree_of_a_pretrained_model_is_of_the_pretrained_model():
    out = printed("tree_of_a_pretrained_model")
    assert "untrained" not in out
    assert out.count("-> G =") == int(re.search(r"(\d+) returns, \d+ environment steps", out).group(1)) > 1
