"""Parts of other packages: a package is installed as pip does it, and every part of it takes a run through the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

FRIENDS = ROOT / "tests" / "plugins"
METHOD = FRIENDS / "bpo_friends" / "pairs.py"


@pytest.fixture(scope="module")
def friends(tmp_path_factory) -> Path:
    """The folder that the package was installed into."""
    source, target = tmp_path_factory.mktemp("source") / "friends", tmp_path_factory.mktemp("site")
    shutil.copytree(FRIENDS, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, capture_output=True, text=True)
    return target


def bpo(*arguments: str, site: Path) -> subprocess.CompletedProcess:
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "160", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "bpo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


def trained(site: Path, out: Path, *arguments: str) -> dict:
    """The result of a run."""
    done = bpo("train", *arguments, "--preset", "smoke", "--out", str(out), site=site)
    assert done.returncode == 0, done.stderr
    (folder,) = out.iterdir()
    return json.loads((folder / "result.json").read_text())


def registered(site: Path, package: str, entries: str, **modules: str) -> Path:
    """A package as an installer leaves it: its modules, and a folder that says what it registers."""
    information = site / f"{package}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(entries)
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
    return site


def test_a_method_is_a_file_of_at_most_25_lines():
    assert len(METHOD.read_text().splitlines()) <= 25


def test_the_table_shows_what_other_packages_register_and_where_it_is_from(friends):
    done = bpo("methods", site=friends)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-6:] == [
        "method chosen_loss: from bpo-friends 1.0 (bpo_friends.gentle:chosen_loss)",
        "method pairs: from bpo-friends 1.0 (bpo_friends.pairs:pairs)",
        "method pruned: from bpo-friends 1.0 (bpo_friends.pruned:pruned)",
        "selector odd: from bpo-friends 1.0 (bpo_friends.odd:odd)",
        "objective gentle: from bpo-friends 1.0 (bpo_friends.gentle:gentle)",
        "sandbox lights: from bpo-friends 1.0 (bpo_friends.lights.spec:lights)",
    ]


def test_a_method_of_another_package_trains_and_is_explained(friends, tmp_path):
    result = trained(friends, tmp_path, "--method", "pairs", "--sandbox", "toy")
    assert result["parameters"] == {"rivals": 2}
    assert result["ledger"]["returns"] == 4 * 2 * 2  # updates, tasks, rivals
    assert "rollouts per task" in bpo("methods", "pairs", site=friends).stdout
    refused = bpo("train", "--method", "pairs", "--sandbox", "toy", "--preset", "smoke", "--set", "rivals=5", site=friends)
    assert (refused.returncode, "pairs.rivals is 5; it must be at most 4" in refused.stderr) == (2, True)


def test_a_method_of_another_package_brings_a_plan_that_prunes(friends, tmp_path):
    """Six children of a root with two actions: two paths go on, and four actions more were drawn at each root."""
    result = trained(friends, tmp_path, "--method", "pruned", "--sandbox", "toy")
    returns, steps = result["ledger"]["returns"], result["ledger"]["env_steps"]
    trees = 4 * 2
    assert trees <= returns <= 2 * trees
    assert steps == 6 * trees + 2 * returns
    assert [row["returns_per_tree"] for row in result["metrics"][1:]] != [6.0] * 4


def test_a_selector_of_another_package_is_a_choice_of_our_methods(friends, tmp_path):
    chosen = ("--set", "selector=odd", "--set", "selector_value=1", "--set", "root=false", "--set", "trees=2")
    result = trained(friends, tmp_path, "--method", "bpo_split", "--sandbox", "toy", "--set", "floor=0", *chosen)
    # Of the depths 0, 1 and 2 of the toy tree it branches at 1: one point of four children on each of two trees.
    assert result["ledger"]["returns"] == 4 * 2 * 2 * 4
    refused = bpo("train", "--method", "bpo", "--sandbox", "toy", "--preset", "smoke", "--set", "selector=odd", site=friends)
    assert (refused.returncode, "bpo.selector is 'odd'; it must be one of top_entropy" in refused.stderr) == (2, True)


def test_an_objective_of_another_package_moves_the_policy(friends, tmp_path):
    """Half the loss is half the gradient, exactly, as long as both runs are at the first update."""
    norms = {}
    for name in ("reinforce", "gentle"):
        chosen = ("--method", "chosen_loss", "--set", f"objective={name}", "--sandbox", "toy", "--seed", "1")
        result = trained(friends, tmp_path / name, *chosen)
        norms[name] = next(row["grad_norm"] for row in result["metrics"] if row["update"] == 1)
    assert norms["gentle"] == norms["reinforce"] / 2 > 0


def test_a_sandbox_of_another_package_is_trained_in_and_walked_in(friends, tmp_path):
    result = trained(friends, tmp_path, "--method", "rloo", "--sandbox", "lights")
    assert result["config"]["sandbox_options"] == {"buttons": 3}
    assert {episode["task_type"] for episode in result["evaluation"]["valid_seen"]["episodes"]} == {"lights"}
    walked = bpo("check-fork", "lights", "--games", "2", "--branches", "2", "--steps", "3", site=friends)
    assert (walked.returncode, walked.stdout.strip()) == (0, "12 steps, 0 mismatches")
    absent = bpo("train", "--method", "rloo", "--sandbox", "lights", "--preset", "quick", site=friends)
    assert (absent.returncode, "no settings for sandbox 'lights'" in absent.stderr) == (2, True)


def test_a_part_that_does_not_work_is_named_and_stands_in_nobodys_way(friends, tmp_path):
    entries = """
[bpo.methods]
broken = nowhere_at_all:row
wrong = no_rows:row
rloo = bpo_friends.pairs:pairs
[bpo.selectors]
ends = ends:row
[bpo.sandboxes]
badly = badly:badly
gone = nowhere_at_all:row
"""
    spec = (
        "from bpo.sandboxes.record import SandboxSpec\n"
        "badly = SandboxSpec('', object, {}, str, presets=lambda: {'smoke': {'scale': 3}})"
    )
    site = registered(tmp_path / "site", "grumbles", entries, no_rows="row = {}", ends="raise SystemExit(1)", badly=spec)
    shutil.copytree(friends, site, dirs_exist_ok=True)
    done = bpo("methods", site=site)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if "grumbles" in line]
    assert said == [
        "sandbox badly: from grumbles 1.0 (badly:badly)",
        "the method 'rloo' of the package grumbles 1.0 (bpo_friends.pairs:pairs) takes a name that bpo has itself; "
        "it is left out",
        "the method 'broken' of the package grumbles 1.0 (nowhere_at_all:row) cannot be loaded: "
        "ModuleNotFoundError: No module named 'nowhere_at_all'",
        "the method 'wrong' of the package grumbles 1.0 (no_rows:row) is of type dict; it must be a Method",
        "the selector 'ends' of the package grumbles 1.0 (ends:row) cannot be loaded: SystemExit: 1",
        "the sandbox 'gone' of the package grumbles 1.0 (nowhere_at_all:row) cannot be loaded: "
        "ModuleNotFoundError: No module named 'nowhere_at_all'",
    ]
    on_the_toy = ("--sandbox", "toy", "--preset", "smoke", "--dry-run")
    for method, named in (("broken", "No module named 'nowhere_at_all'"), ("wrong", "of type dict")):
        done = bpo("train", "--method", method, *on_the_toy, site=site)
        assert (done.returncode, named in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    ours = bpo("train", "--method", "rloo", *on_the_toy, site=site)
    assert (ours.returncode, "planned returns per tree: 13" in ours.stdout) == (0, True), ours.stderr
    theirs = bpo("train", "--method", "pairs", *on_the_toy, site=site)
    assert (theirs.returncode, "planned returns per tree: 2" in theirs.stdout) == (0, True), theirs.stderr
    done = bpo("check-fork", "gone", site=site)
    assert "the sandbox 'gone' of the package grumbles 1.0 (nowhere_at_all:row) cannot be loaded: Mod" in done.stderr
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = bpo("train", "--method", "rloo", "--sandbox", "badly", "--preset", "smoke", site=site)
    assert (done.returncode, "preset smoke: sandboxes.badly: scale is 3; it must be text" in done.stderr) == (2, True)


def test_a_name_that_two_packages_register_is_nobodys(friends, tmp_path):
    site = registered(tmp_path / "site", "others", "[bpo.methods]\npairs = bpo_friends.pairs:pairs\n")
    shutil.copytree(friends, site, dirs_exist_ok=True)
    done = bpo("train", "--method", "pairs", "--sandbox", "toy", "--preset", "smoke", "--dry-run", site=site)
    assert done.returncode == 2
    assert "the method 'pairs' is registered by bpo-friends 1.0 and others 1.0: uninstall all of them but one" in done.stderr
    assert "method chosen_loss: from bpo-friends 1.0" in bpo("methods", site=site).stdout


def test_the_fingerprint_follows_a_method_into_a_module_by_itself(tmp_path):
    rule = "\n\ndef own(trees, running=None):\n    return rloo(trees)\n"
    text = METHOD.read_text().replace("per_task(rloo)", "per_task(own)") + rule
    site = registered(tmp_path, "single", "[bpo.methods]\npairs = single:pairs\n", single=text)
    command = ("train", "--method", "pairs", "--sandbox", "toy", "--preset", "smoke", "--dry-run")

    def code() -> str:
        done = bpo(*command, site=site)
        return next(line for line in done.stdout.splitlines() if line.startswith("# fingerprint"))

    before = code()
    (site / "single.py").write_text(text + "# A comment.\n")
    assert code() == before
    (site / "single.py").write_text(text.replace("return rloo(trees)", "return rloo(trees[:])"))
    assert code() != before
