"""CONTRIBUTING and docs/extending.md, followed to the letter in a copy of the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from places import ROOT


def blocks(section: str) -> list[str]:
    """The blocks of Python of one section of CONTRIBUTING."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    part = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[1]
    return [textwrap.dedent(block) for block in re.findall(r"^ *```python\n(.*?)^ *```", part, re.DOTALL | re.MULTILINE)]


@pytest.fixture
def copy(tmp_path) -> Path:
    """A copy of the package that may be changed."""
    shutil.copytree(ROOT / "bpo", tmp_path / "bpo", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def ran(folder: Path, *arguments: str) -> str:
    """What Python prints, started in this folder."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_method_is_added_by_one_file(copy):
    (block,) = blocks("Add a method")
    (copy / "bpo" / "methods" / "plain.py").write_text(block)
    assert "N rollouts from the root, no baseline" in ran(copy, "-m", "bpo", "methods", "reinforce")
    # Two returns, so that all trees are enumerated and none is sampled.
    code = (
        "from bpo import build, check_unbiased\n"
        "m = build('reinforce', {'returns': 2})\n"
        "print(check_unbiased(m.growth, m.credit).unbiased)"
    )
    assert ran(copy, "-c", code) == "True\n"
    ran(copy, "-m", "bpo", "train", "--method", "reinforce", "--sandbox", "toy", "--preset", "smoke")
    assert list((copy / "runs").glob("*reinforce*/metrics.jsonl"))


def test_a_selector_is_added_by_a_class_and_a_name(copy):
    selector, name = blocks("Add a selector")
    for path, block in (("select.py", selector), ("methods/selectors.py", name)):
        file = copy / "bpo" / path
        file.write_text(f"{file.read_text()}\n\n{block}")
    code = (
        "from bpo import build, check_unbiased\n"
        "m = build('bpo_split', {'selector': 'relative_entropy', 'selector_value': 0.9, 'points': 2, 'width': 3, 'gap': 0})\n"
        "print(type(m.growth.selector).__name__, check_unbiased(m.growth, m.credit).unbiased)"
    )
    assert ran(copy, "-c", code) == "RelativeEntropy True\n"


def test_a_sandbox_is_added_by_one_folder(copy):
    (record,) = blocks("Add a sandbox")
    example = (ROOT / "examples" / "own_sandbox.py").read_text()
    folder = copy / "bpo" / "sandboxes" / "corridor"
    folder.mkdir()
    (folder / "__init__.py").write_text(example[: example.index("\nprint(")])
    (folder / "spec.py").write_text(record)
    out = ran(copy, "-m", "bpo", "check-fork", "corridor", "--games", "2")
    assert re.search(r"^[1-9]\d* steps, 0 mismatches$", out.splitlines()[-1])


def test_a_package_of_ones_own_adds_a_method_and_a_sandbox(copy, tmp_path):
    """The files of docs/extending.md as an installed package: its code and its metadata on the path."""
    text = (ROOT / "docs" / "extending.md").read_text()
    toml = re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1]
    own, info = tmp_path / "mine", tmp_path / "mine-1.0.dist-info"
    own.mkdir()
    info.mkdir()
    (own / "__init__.py").touch()
    (own / "plain.py").write_text(blocks("Add a method")[0])
    example = (ROOT / "examples" / "own_sandbox.py").read_text()
    record = blocks("Add a sandbox")[0].replace("from bpo.sandboxes.corridor import Corridor\n", "")
    (own / "corridor.py").write_text(
        f"{example[: example.index('print(')]}\n{record.replace('from __future__ import annotations', '')}"
    )
    points = re.sub(r'^\[project\.entry-points\."(.*)"\]$', r"[\1]", toml, flags=re.MULTILINE).replace('"', "")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    assert "no baseline" in ran(tmp_path, "-m", "bpo", "methods", "reinforce")
    assert ran(tmp_path, "-m", "bpo", "check-fork", "corridor", "--games", "2").rstrip().endswith("0 mismatches")
