"""What is kept under a key: the key holds everything that the value depends on, and every cache is on the page of caches."""

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from places import ROOT

from bpo.cache import data_of, files_of, key_of
from bpo.config import load_preset
from bpo.policies import warmstart
from bpo.policies.settings import PolicySettings, WarmStart
from bpo.sandboxes.codefix import bugs
from bpo.sandboxes.codefix.grader import Grader, ProgramVerdict
from bpo.sandboxes.codefix.problems import CodeProblem
from bpo.sandboxes.swebench import environments
from bpo.sandboxes.swebench.instances import Instance
from bpo.sandboxes.swebench.recipes import recipe

PROBLEM = CodeProblem("p", "f", "text", "def f():\n    return 1\n", "assert f() == 1\n")
ROW = Instance("psf__requests-1", "psf/requests", "2.27", "c", "d", "p", "patch", "tests", ("t",), ())


class Box:
    """What a grader asks of the box that a program lies in."""

    def __init__(self, digest):
        self.files = digest

    def digest(self):
        return self.files


def test_a_verdict_holds_for_the_files_beside_the_program_whoever_asks_first():
    """Two siblings with the same program: one has the module that it imports, the other has not."""
    for order in (("helper", "none"), ("none", "helper")):
        grader = Grader.__new__(Grader)
        grader._known = {}
        grader._run = lambda cases, box: [ProgramVerdict("pass" if box and box.files == "helper" else "fail", "", 0.0)]
        found = {files: grader.grade("from helper import f", PROBLEM, 1.0, Box(files)).verdict for files in order}
        assert found == {"helper": "pass", "none": "fail"}
        assert grader.grade("from helper import f", PROBLEM, 1.0).verdict == "fail"
        assert len(grader._known) == 3


def test_bugs_are_kept_by_problem_difficulty_code_and_python(monkeypatch):
    keys = {
        bugs._identity([PROBLEM], "easy"),
        bugs._identity([PROBLEM], "normal"),
        bugs._identity([replace(PROBLEM, tests="assert f() == 2\n")], "easy"),
        bugs._identity([replace(PROBLEM, program="def f():\n    return 2\n")], "easy"),
    }
    monkeypatch.setattr(bugs, "code_of", lambda *roots: "changed")
    keys.add(bugs._identity([PROBLEM], "easy"))
    monkeypatch.setattr(bugs.platform, "python_version", lambda: "3.99")
    keys.add(bugs._identity([PROBLEM], "easy"))
    assert len(keys) == 6


IDENTITY = """
import json, sys
from dataclasses import replace
from bpo.sandboxes.swebench import environments
from bpo.sandboxes.swebench.instances import Instance
from bpo.sandboxes.swebench.recipes import recipe
row = Instance(*json.loads(sys.argv[1]))
print(environments._identity(row, "revision", recipe(row), []))
"""


def test_an_environment_is_found_again_by_another_process():
    """Its key once held the place of a function in memory, so that every process made its own."""
    told = json.dumps([ROW.name, ROW.repo, ROW.version, "c", "d", "p", ROW.patch, ROW.test_patch, ["t"], []])
    command = [sys.executable, "-c", IDENTITY, told]
    found = {subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(found) == 1
    assert found.pop().strip()


@pytest.mark.parametrize(
    "change", [{"name": "psf__requests-2"}, {"version": "2.28"}, {"test_patch": "other"}, {"patch": "other"}]
)
def test_an_environment_is_kept_by_all_that_it_is_made_of(change):
    chosen, other = recipe(ROW), replace(ROW, **change)
    base = environments._identity(ROW, "revision", chosen, [])
    assert environments._identity(other, "revision", chosen, []) != base
    assert environments._identity(ROW, "another", chosen, []) != base
    assert environments._identity(ROW, "revision", replace(chosen, variables={"A": "1"}), []) != base
    assert environments._identity(ROW, "revision", chosen, ["click==8.1.2"]) != base


def test_a_warm_start_is_kept_by_the_files_that_its_settings_name(tmp_path):
    """A folder of games and a folder of a model, whose contents change while their names stay."""
    from bpo.sandboxes import factory
    from bpo.sandboxes.toy import ToyTree

    def show(task, seed):
        return ["0"]

    def key(settings=None, make=None):
        make = make or factory("toy", {"returns": [0, 1]})
        return warmstart.fingerprint(make, WarmStart(), settings or PolicySettings(), show)

    assert key() == key()
    assert key(make=factory("toy", {"returns": [1, 0]})) != key()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("one")
    settings = PolicySettings(kind="hf", model=str(tmp_path / "model"))
    before = key(settings)
    assert key(settings) == before
    (tmp_path / "model" / "weights").write_text("two")
    assert key(settings) != before

    class WithData(ToyTree):
        def __init__(self):
            super().__init__([0, 1])
            self.data = str(tmp_path / "model")

    with_data = key(make=WithData)
    (tmp_path / "model" / "more").write_text("")
    assert key(make=WithData) != with_data


def test_files_are_told_by_what_was_written_even_where_size_and_time_are_set_back(tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    stamp, before = path.stat(), files_of(tmp_path)
    assert files_of(tmp_path) == before
    path.write_text("two")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert files_of(tmp_path) != before
    assert data_of({"difficulty": "small"}) == ""
    assert data_of({"data": str(tmp_path)}) != ""


def test_a_catalogue_whose_files_change_is_another_one_within_a_process_too(tmp_path, monkeypatch):
    pytest.importorskip("nltk")
    from bpo.sandboxes.webshop import catalogue, files

    data = tmp_path / "data"
    data.mkdir()
    names = files.PAIRS["small"][0]
    for name, content in zip(names, ([], {}), strict=True):
        (data / name).write_text(json.dumps(content))
    nouns = data / files.NOUNS[0]
    keys = []
    monkeypatch.setattr(catalogue, "_opened", lambda *key: keys.append(key))
    monkeypatch.chdir(tmp_path)
    for change in (lambda: None, lambda: nouns.write_text("{}"), lambda: (data / names[0]).write_text("[ ]")):
        change()
        catalogue.open_catalogue("data")
        catalogue.open_catalogue(str(data))
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    shutil.copytree(data, tmp_path / "elsewhere" / "data")
    monkeypatch.chdir(tmp_path / "elsewhere")
    catalogue.open_catalogue("data")
    assert keys[-1] not in keys[:-1], "the same relative name is another folder"


def test_keys_are_equal_for_equal_inputs_alone():
    assert key_of([1, "a"], {"x": 1, "y": 2}) == key_of([1, "a"], {"y": 2, "x": 1})
    assert len({key_of("a", "b"), key_of("ab"), key_of(["a", "b"]), key_of("a", ["b"]), key_of("a", "b", None)}) == 5
    assert load_preset("smoke").run("rloo", "toy", 0).hash == load_preset("smoke").run("rloo", "toy", 1).hash


def test_every_cache_is_on_the_page_of_caches():
    """Every function that remembers, and every module that keeps files in the cache, by the name of its module."""
    page, missing = (ROOT / "docs" / "caches.md").read_text(), []
    for path in sorted((ROOT / "bpo").rglob("*.py")):
        text = path.read_text()
        called = [
            part.func if isinstance(part, ast.Call) else part
            for node in ast.walk(ast.parse(text))
            for part in [node, *getattr(node, "decorator_list", ())]
            if isinstance(node, ast.Call | ast.FunctionDef)
        ]
        names = {node.id for node in called if isinstance(node, ast.Name)}
        keeps = path.name != "cache.py" and names & {"cache", "lru_cache", "cache_dir"}
        name = str(path.relative_to(ROOT / "bpo"))
        if keeps and f"`{name}`" not in page:
            missing.append(name)
    assert missing == []
