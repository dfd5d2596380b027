"""README, the documentation and what guards them: sizes, links, Python that runs, commit messages, versions."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from places import ROOT

import bpo


def script(path: str):
    """A file of the repository that lies in no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.rpartition("/")[2].removesuffix(".py"), ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


links = script("docs/_site/links.py")
subject = script(".github/subject.py")
unpinned = script(".github/unpinned.py").unpinned


def snippets(name: str) -> list[str]:
    """The blocks of Python of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= 9 * 1024


def test_the_python_of_the_readme_prints_a_tree():
    """At most six lines; three forks of two make four leaves, two of which end with the return 1."""
    (code,) = snippets("README.md")
    assert len([line for line in code.splitlines() if line]) <= 6
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tree-00\n|-* ")
    assert (done.stdout.count("-> G ="), done.stdout.count("-> G = 1")) == (4, 2)


@pytest.mark.parametrize("page", ["docs/start.md", "docs/sandboxes.md", "docs/webshop.md"])
def test_the_python_of_a_page_runs(page):
    for code in snippets(page):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
        assert (done.returncode, done.stdout != "") == (0, True), done.stderr


def test_links_inside_the_repository_lead_somewhere():
    assert list(links.broken()) == []


def test_the_link_check_sees_missing_files_and_headings_but_not_code(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Two words, one `name`\n[no](b.md) `[code](c.md)` [far](https://example.org)\n")
    (tmp_path / "README.md").write_text("[yes](docs/a.md#two-words-one-name) [no](docs/a.md#three) [own](#none)\n")
    assert list(links.broken(tmp_path)) == [
        "README.md: docs/a.md#three has no such heading",
        "README.md: #none has no such heading",
        "docs/a.md: b.md does not exist",
    ]
    assert links.elsewhere(tmp_path) == ["https://example.org"]


def test_columns_in_a_docstring_become_a_list():
    pytest.importorskip("griffe")
    given = "One sentence.\n\nname, other  what it\n             means: </a>\nlast         `<b>`\n\nMore."
    shown = "One sentence.\n\n* `name, other`: what it means: &lt;/a>\n* `last`: `<b>`\n\nMore."
    assert script("docs/_site/docstrings.py").as_markdown(given) == shown


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("x" * 72 + "\n\nBecause.", ""),
        ("x" * 73, "the subject has 73 characters; it must have at most 72"),
        ("A subject\nthat runs on", "the second line must be blank"),
        ("# only a comment\n", "the message has no subject"),
        (f"Merge branch '{'x' * 80}'", ""),
    ],
)
def test_commit_subjects_have_at_most_72_characters(message, fault):
    assert subject.fault(message).startswith(fault)
    assert bool(subject.fault(message)) == bool(fault)


def test_the_weekly_run_lifts_pins_and_bounds_but_not_those_of_the_linters():
    text = 'a = ["torch==2.13.0", "x[y]>=1.0,<2", "ruff==0.17.6", "b>=0.11; sys_platform == \'linux\'", "bpo[lm]"]'
    assert unpinned(text) == (
        'a = ["torch>=2.13.0", "x[y]>=1.0", "ruff==0.17.6", "b>=0.11; sys_platform == \'linux\'", "bpo[lm]"]'
    )
    lifted = tomllib.loads(unpinned((ROOT / "pyproject.toml").read_text()))["project"]["optional-dependencies"]
    pinned = [entry for extra in lifted.values() for entry in extra if "==" in entry.partition(";")[0]]
    assert [entry.partition("==")[0] for entry in pinned] == ["ruff", "mypy"]


def test_the_version_is_said_once_and_cited():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "bpo.__version__"}
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == bpo.__version__


def test_workflows_run_what_people_run_and_no_hook_strips_notebooks():
    workflows = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert set(workflows) == {"test", "docs", "weekly"}
    steps = {name: str(workflow["jobs"]) for name, workflow in workflows.items()}
    assert "make test" in steps["test"]
    assert "mkdocs build --strict" in steps["docs"]
    assert "docs/_site/links.py" in steps["weekly"]
    assert "docs/_site/links.py" not in steps["test"] + steps["docs"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert not [hook for repo in hooks for hook in repo["hooks"] if "nbstripout" in hook["id"]]
