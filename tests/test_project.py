"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import tomllib

import pytest
import yaml
from places import ROOT

from reproduce import findings, markdown

MODULES = sorted((ROOT / "bpo").rglob("*.py")) + sorted((ROOT / "reproduce").rglob("*.py"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LESSONS = [*sorted((ROOT / "notebooks").glob("*.ipynb")), *sorted((ROOT / "benchmarks").glob("*.py")), *EXAMPLES]


def imports(path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_are_short_and_nothing_in_bpo_imports_the_pipelines(path):
    assert len(path.read_text().splitlines()) <= 400
    if path.is_relative_to(ROOT / "bpo"):
        assert not {name for name in imports(path) if name.split(".")[0] in ("reproduce", "notebooks")}


def sources(path) -> list[str]:
    """The Python of a script, or of every cell of a notebook."""
    if path.suffix == ".py":
        return [path.read_text()]
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    return ["".join(line for line in cell["source"] if not line.startswith(("%", "!"))) for cell in cells]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.name)
def test_what_lessons_and_benchmarks_import_is_there(path):
    """A renamed function is noticed at once, and not when the lesson runs."""
    for source in sources(path):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("bpo", "reproduce"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    submodule = f"{node.module}.{alias.name}"
                    inside = hasattr(module, "__path__") and importlib.util.find_spec(submodule)
                    assert hasattr(module, alias.name) or inside, f"{submodule} is not there"


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("sandbox", set()),
        ("policy", {"sandbox"}),
        ("tree", {"policy"}),
        ("select", {"tree", "errors"}),
        ("credit", {"tree", "errors", "memory"}),
        ("objective", set()),
    ],
)
def test_the_core_knows_only_what_it_must(module, allowed):
    """tree, sandbox and policy know records alone; select and credit the tree and how to refuse, credit also Memory."""
    path = ROOT / "bpo" / module
    files = list(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    used = {name.split(".")[1] for file in files for name in imports(file) if name.startswith("bpo.")}
    assert files
    assert used <= {module, *allowed}


@pytest.mark.parametrize("folder", ["sandboxes", "policies"])
def test_sandboxes_and_policies_never_import_the_rollout_or_the_trainer(folder):
    for path in (ROOT / "bpo" / folder).rglob("*.py"):
        assert not imports(path) & {"bpo.rollout", "bpo.train"}, path


def test_environment_yml_and_pyproject_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    extras = re.fullmatch(r"-e \.\[([\w,]+)\]", pip[0]).group(1).split(",")
    assert set(extras) <= set(project["optional-dependencies"])
    python = next(entry for entry in environment["dependencies"] if str(entry).startswith("python="))
    assert python.split("=")[1] in project["requires-python"]
    installed = re.search(r'--editable "\.\[([\w,]+)\]"', (ROOT / "Makefile").read_text()).group(1).split(",")
    assert installed == extras


def test_files_beside_the_modules_are_packaged():
    """A wheel holds only what pyproject.toml names; a clone would not notice."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["bpo"]
    beside = {path for path in (ROOT / "bpo").rglob("*.*") if path.suffix not in (".py", ".pyc") and path.is_file()}
    assert beside == {path for pattern in named for path in (ROOT / "bpo").glob(pattern)}


def test_the_core_is_typed_and_no_check_of_it_is_switched_off_without_a_reason():
    """What mypy checks (`make types`) holds every module of the core; an ignore needs a second comment that says why."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    checked = {name.removeprefix("bpo/").removesuffix(".py") for name in settings["files"]}
    core = "tree sandbox policy select credit objective rollout update train methods config files errors"
    assert set(core.split()) <= checked
    for name in settings["files"]:
        path = ROOT / name
        for file in [path] if path.is_file() else path.rglob("*.py"):
            for line in file.read_text().splitlines():
                assert "type: ignore" not in line or re.search(r"# type: ignore\[[\w-]+\]  # \w", line), (file, line)


def test_ci_runs_make_test():
    assert "exec make test" in (ROOT / ".ci" / "run").read_text()


def test_the_tables_notebook_shows_what_the_table_says():
    """Its committed outputs are of the committed tables: every sentence, and the heads with the code's fingerprint."""
    notebook = json.loads((ROOT / "notebooks" / "11_tables.ipynb").read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    shown = "\n".join("".join(output.get("data", {}).get("text/markdown", "")) for output in outputs)
    table = json.loads((ROOT / "results" / "quick" / "table.json").read_text())
    for sentence in (markdown.head(table), *findings.findings(table)):
        assert sentence in shown


def test_the_licences_that_matter_are_named():
    text = (ROOT / "docs" / "licences.md").read_text()
    for name in ("fast-downward-textworld", "GPL-3.0", "never vendored", "MIT"):
        assert name in text
