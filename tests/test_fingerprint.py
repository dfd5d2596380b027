"""The fingerprint of code: what reaches what, and which changes are seen."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from benchmarks import set_aside
from bpo import fingerprint
from bpo.config import load_preset
from bpo.fingerprint import Sources
from bpo.methods import METHODS
from bpo.provenance import code_fingerprint, parts, start_fingerprint

SMOKE = load_preset("smoke")


@pytest.fixture(scope="module")
def before():
    return set_aside.fingerprints()


@pytest.mark.parametrize(
    ("change", "runs"),
    [
        ("add a method", lambda run: False),
        ("add a sandbox", lambda run: False),
        ("edit the record of a sandbox", lambda run: False),
        ("move a module", lambda run: False),
        ("edit a docstring, add a comment", lambda run: False),
        ("edit the credit rule rloo", lambda run: run.startswith("rloo ")),
        ("edit the household sandbox", lambda run: run.endswith(" household")),
        ("edit the training loop", lambda run: True),
    ],
)
def test_a_change_sets_aside_the_runs_that_use_it_and_no_others(before, change, runs):
    found = set_aside.set_aside(before, set_aside.CHANGES[change])
    assert sorted(found) == sorted(run for run in before if runs(run))


def test_the_code_is_that_of_method_and_sandbox_and_not_of_the_seed():
    one = SMOKE.run("rloo", "toy", 0)
    assert code_fingerprint(one) == code_fingerprint(SMOKE.run("rloo", "toy", 1))
    assert code_fingerprint(one) != code_fingerprint(SMOKE.run("grpo", "toy", 0))
    assert code_fingerprint(one) != code_fingerprint(SMOKE.run("rloo", "household", 0))


def test_no_method_is_part_of_the_initial_policy():
    assert len({start_fingerprint(SMOKE.run(method, "toy", 0)) for method in ("rloo", "bpo", "bpo_split")}) == 1


def test_parts_of_a_partial_are_its_function_and_its_plain_arguments():
    roots, values = parts([partial(sorted, key=len), {"b": 2, "a": (1, None)}])
    assert roots == [sorted, len]
    assert "2" in values
    assert "None" in values


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a package of modules and returns a function that takes its digest from the root `main:run`."""
    name = f"made_{tmp_path.name.replace('-', '_')}"
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest(**modules: str) -> str:
        folder = tmp_path / name
        for old in folder.glob("*.py"):
            old.unlink()
        folder.mkdir(exist_ok=True)
        for module, text in {"__init__": "", **modules}.items():
            (folder / f"{module}.py").write_text(text.replace("PACKAGE", name))
        fingerprint._sources.cache_clear()
        sys.modules.pop(name, None)
        return fingerprint.digest([f"{name}.main:run"])

    return digest


MAIN = "from PACKAGE.tools import LIMIT, double\n\ndef run(x: int) -> int:\n    return double(x) + LIMIT\n"
TOOLS = "LIMIT = 3\nUNUSED = 4\n\ndef double(x):\n    return 2 * x\n\ndef other(x):\n    return x\n"


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"tools": TOOLS.replace("def other(x):\n    return x", "def other(x):\n    return -x")}, True),
        ({"tools": TOOLS.replace("UNUSED = 4", "UNUSED = 5  # a comment")}, True),
        ({"tools": TOOLS.replace("return 2 * x", '"""Twice x."""\n    return 2 * x')}, True),
        ({"main": MAIN.replace("x: int) -> int", "x: float) -> float")}, True),
        ({"main": MAIN.replace("from PACKAGE.tools import LIMIT, double", "from .tools import LIMIT, double")}, True),
        ({"main": "from PACKAGE import tools\n\ndef run(x):\n    return tools.double(x) + tools.LIMIT\n"}, True),
        ({"main": "def run(x):\n    from PACKAGE.tools import LIMIT, double\n\n    return double(x) + LIMIT\n"}, True),
        ({"main": MAIN.replace("tools", "moved"), "moved": TOOLS, "tools": ""}, True),
        ({"main": MAIN.replace("tools", "door"), "door": "from PACKAGE.tools import LIMIT, double\n"}, True),
        ({"tools": TOOLS.replace("LIMIT = 3", "LIMIT = 4")}, False),
        ({"tools": TOOLS.replace("2 * x", "3 * x")}, False),
        ({"tools": TOOLS + "\nLIMIT += 1\n"}, False),
        ({"tools": TOOLS + "\nprint(LIMIT)\n"}, False),
        ({"main": MAIN.replace("+ LIMIT", "- LIMIT")}, False),
        ({"main": MAIN.replace("(x: int)", "(x: int, y=1)")}, False),
    ],
)
def test_what_is_seen_and_what_is_not(package, changed, same):
    base = {"main": MAIN, "tools": TOOLS}
    assert (package(**base) == package(**{**base, **changed})) is same


def test_a_module_that_is_passed_on_as_a_value_counts_whole(package):
    main = "from PACKAGE import tools\n\ndef run(x):\n    return vars(tools)[x]\n"
    assert package(main=main, tools=TOOLS) != package(main=main, tools=TOOLS.replace("UNUSED = 4", "UNUSED = 5"))


def test_a_program_that_is_started_from_its_file_counts(package):
    main = 'from pathlib import Path\n\ndef run(x):\n    return Path(__file__).with_name("tools.py").read_text()\n'
    assert package(main=main, tools=TOOLS) != package(main=main, tools=TOOLS.replace("UNUSED = 4", "UNUSED = 5"))


def test_a_root_that_is_not_there_is_said():
    with pytest.raises(LookupError, match=r"bpo\.credit defines no 'rlo'"):
        fingerprint.digest(["bpo.credit:rlo"])


def test_names_defined_within_a_function_or_a_lambda_stand_for_what_holds_them():
    places = fingerprint.reached([METHODS["grpo"].credit, Sources.module])
    assert {("bpo.methods.independent", "grpo"), ("bpo.fingerprint", "Sources")} <= places
    assert ("bpo.methods.independent", "rloo") not in places
