"""Git: the caller's variables, settings, hooks and repositories reach no call of ours, and no call goes another way."""

import ast
import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from places import ROOT

from bpo import child, provenance
from bpo.config import load_preset
from bpo.errors import ToolError
from bpo.git import AUTHOR, git, git_text
from bpo.sandboxes.swebench import environments, releases
from bpo.sandboxes.swebench.instances import Instance

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def repository(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "theirs", variables=AUTHOR)
    return folder


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The caller is a hook of another repository, and has settings that change what every git command does."""
    theirs = repository(tmp_path / "theirs", work="theirs\n")
    hooks, template = tmp_path / "hooks", tmp_path / "template"
    for name in (
        hooks / "pre-commit",
        hooks / "prepare-commit-msg",
        hooks / "post-checkout",
        template / "hooks" / "pre-commit",
    ):
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text(f"#!/bin/sh\necho {name.name} >> {tmp_path / 'ran'}\nexit 1\n")
        name.chmod(0o755)
    (tmp_path / "ignore").write_text("*.py\n")
    (tmp_path / "attributes").write_text("* text eol=crlf\n")
    settings = tmp_path / "gitconfig"
    settings.write_text(
        "[user]\nname = them\nemail = them@there\n"
        f"[core]\nhooksPath = {hooks}\nautocrlf = true\nexcludesFile = {tmp_path}/ignore\n"
        f"attributesFile = {tmp_path}/attributes\nfsmonitor = {hooks}/pre-commit\n[init]\ntemplateDir = {template}\n"
        "[commit]\ngpgSign = true\n[apply]\nwhitespace = error-all\n[alias]\nadd = !false\n"
    )
    home = tmp_path / "home"
    (home / ".config" / "git").mkdir(parents=True)
    for place in (home / ".gitconfig", home / ".config" / "git" / "config"):
        place.write_text(settings.read_text())
    (home / ".config" / "git" / "ignore").write_text("*\n")
    variables = {
        "GIT_DIR": str(theirs / ".git"),
        "GIT_INDEX_FILE": str(theirs / ".git" / "index"),
        "GIT_WORK_TREE": str(theirs),
        "GIT_OBJECT_DIRECTORY": str(theirs / ".git" / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(theirs / ".git" / "objects"),
        "GIT_COMMON_DIR": str(theirs / ".git"),
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_PREFIX": "elsewhere/",
        "GIT_NAMESPACE": "theirs",
        "GIT_CONFIG_GLOBAL": str(settings),
        "GIT_CONFIG_SYSTEM": str(settings),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.worktree",
        "GIT_CONFIG_VALUE_0": str(theirs),
        "GIT_CONFIG_PARAMETERS": "'core.bare'='true'",
        "GIT_TEMPLATE_DIR": str(template),
        "GIT_AUTHOR_NAME": "them",
        "GIT_COMMITTER_DATE": "2030-01-01T00:00:00Z",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_EXTERNAL_DIFF": "/bin/false",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before = {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
    yield theirs
    assert {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "ran").exists()


def instance(**fields) -> Instance:
    row = dict.fromkeys(("base_commit", "created_at", "problem", "patch", "test_patch"), "")
    row |= {"name": "psf__r-1", "repo": "psf/r", "version": "1.0", "fail_to_pass": ("t",), "pass_to_pass": (), **fields}
    return Instance(**row)


def archive(**files: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"r-1.0/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


def test_a_release_prepared_within_a_hook_leaves_the_callers_repository_alone(hostile, tmp_path, monkeypatch):
    monkeypatch.setenv("BPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(releases, "_source", lambda project, version: archive(**{"r.py": "x = 1\r\n", "b.txt": "b\n"}))
    made = releases.release(instance(), "1.0")
    assert git_text(made, "log", "--format=%s %an %cd", "--date=iso") == "r 1.0 bpo 2000-01-01 00:00:00 +0000\n"
    assert git_text(made, "ls-tree", "--name-only", "HEAD").split() == ["b.txt", "r.py"]
    assert git(made, "show", "HEAD:r.py") == b"x = 1\r\n"
    assert not (made / ".git" / "hooks").exists()
    assert git_text(hostile, "log", "--format=%s") == "theirs\n"


def test_the_same_release_is_the_same_commit_whoever_asks(hostile, tmp_path, monkeypatch):
    monkeypatch.setattr(releases, "_source", lambda project, version: archive(**{"r.py": "x = 1\n"}))
    commits = set()
    for number in range(2):
        monkeypatch.setenv("BPO_CACHE", str(tmp_path / f"cache{number}"))
        commits.add(git_text(releases.release(instance(), "1.0"), "rev-parse", "HEAD"))
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            monkeypatch.delenv(name)
    assert len(commits) == 1


def test_a_trees_files_are_the_commits_whatever_the_clone_is_set_to(hostile, tmp_path):
    """A sparse clone with line endings of its own and an object replaced: its commit is what counts."""
    source = repository(tmp_path / "source", a="one\n", b="two\n")
    for name, value in (("core.autocrlf", "true"), ("core.sparseCheckout", "true"), ("core.worktree", str(hostile))):
        git(source, "config", name, value)
    (source / ".git" / "info").mkdir(exist_ok=True)
    (source / ".git" / "info" / "sparse-checkout").write_text("a\n")
    blob, other = (git_text(source, "rev-parse", f"HEAD:{name}").strip() for name in "ab")
    git(source, "replace", blob, other)
    tree = tmp_path / "made" / "tree"
    tree.mkdir(parents=True)
    assert environments._checkout(source, "HEAD", tree) == ["a", "b"]
    assert {path.name: path.read_bytes() for path in tree.iterdir()} == {"a": b"one\n", "b": b"two\n"}
    environments._commit_all(tree, ["a", "b"])
    assert git_text(tree, "log", "--format=%s %an") == "base bpo\n"
    assert git_text(tree, "ls-tree", "--name-only", "HEAD").split() == ["a", "b"]


def test_files_of_a_test_patch_come_from_the_clone_and_not_from_the_callers_index(hostile, tmp_path, monkeypatch):
    monkeypatch.setenv("BPO_CACHE", str(tmp_path / "cache"))
    source = repository(tmp_path / "source", t="one\n", g="one\n")

    def patch(name):
        return f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-one\n+two \n"

    row = instance(test_patch=patch("t"), patch=patch("g"))
    files, removed = environments._with_tests(source, "HEAD", row, tmp_path / "index")
    assert {name: entry.content for name, entry in files.items()} == {"t": b"two \n"}
    assert not removed
    assert git_text(source, "status", "--porcelain") == ""


def test_the_origin_of_a_result_names_this_repository(hostile, monkeypatch):
    theirs = git_text(hostile, "rev-parse", "HEAD").strip()
    commit = provenance.record(load_preset("smoke").run("rloo", "toy", 0), "code")["commit"]
    assert commit != theirs
    assert commit == (git_text(ROOT, "rev-parse", "HEAD").strip() if (ROOT / ".git").exists() else "")


def test_a_package_inside_another_repository_is_not_that_repositorys(tmp_path, monkeypatch):
    """As where it is installed into an environment that lies in a project of the user's."""
    outer = repository(tmp_path / "outer", a="a\n")
    package = outer / ".venv" / "site-packages" / "bpo"
    package.mkdir(parents=True)
    monkeypatch.setattr(provenance, "__file__", str(package / "provenance.py"))
    assert provenance._git("rev-parse", "HEAD") == ""
    with pytest.raises(ToolError, match="not a git repository"):
        git(package, "status")


def test_looking_at_a_repository_writes_nothing(tmp_path):
    source = repository(tmp_path / "source", a="a\n")
    os.utime(source / "a", (1, 1))
    before = (source / ".git" / "index").read_bytes()
    git(source, "status", "--porcelain")
    assert (source / ".git" / "index").read_bytes() == before


def test_an_absent_or_slow_git_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="git is not on the search path"):
        git(tmp_path, "status")
    (tmp_path / "git").write_text("#!/bin/sh\nexec /bin/sleep 9\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(ToolError, match=r"git status has not ended after 0\.2 seconds"):
        git(tmp_path, "status", seconds=0.2)


def test_child_processes_are_told_nothing_that_changes_results(monkeypatch):
    told = {
        "GIT_DIR": "/x",
        "PYTHONSTARTUP": "/x.py",
        "PYTHONPATH": "/x",
        "PYTHONOPTIMIZE": "2",
        "LC_ALL": "tr_TR.ISO-8859-9",
        "LC_NUMERIC": "de_DE",
        "MPLBACKEND": "svg",
        "UV_CONSTRAINT": "/x.txt",
        "UV_INDEX_URL": "https://mirror",
        "https_proxy": "http://proxy",
        "COLUMNS": "40",
        "BPO_CACHE": "/cache",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    found = child.environment({"X": "1"})
    left = {name: found.get(name) for name in told}
    kept = {"UV_INDEX_URL": "https://mirror", "https_proxy": "http://proxy", "BPO_CACHE": "/cache", "LC_ALL": "C.UTF-8"}
    assert left == dict.fromkeys(told) | kept
    assert found["X"] == "1"


def sources() -> list[tuple[str, str]]:
    """Every piece of Python in the project: modules, tests, benchmarks, cells of notebooks."""
    found = []
    for folder in ("bpo", "reproduce", "benchmarks", "tests", "docs", "examples"):
        found += [(str(path.relative_to(ROOT)), path.read_text()) for path in sorted((ROOT / folder).rglob("*.py"))]
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        found += [(path.name, "".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
    return found


def calls_git(source: str) -> bool:
    """Whether a program begins a command with the word git, as a list or as a line for a shell."""
    shell = [line for line in source.splitlines() if line.lstrip().startswith(("!", "%"))]
    if any("git " in line for line in shell):
        return True
    for node in ast.walk(ast.parse("\n".join(line for line in source.splitlines() if line not in shell))):
        if isinstance(node, ast.List | ast.Tuple) and node.elts and _is_git(node.elts[0]):
            return True
        outside = isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[0] in ("subprocess", "os")
        if outside and node.args and _is_git(node.args[0]):
            return True
    return False


def _is_git(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.partition(" ")[0] == "git"


def test_no_other_module_calls_git():
    assert [name for name, source in sources() if calls_git(source)] == ["bpo/git.py"]
    for seen in ('subprocess.run(["git", "status"])', 'os.system("git status")', "!git status"):
        assert calls_git(seen)
    assert not calls_git('box.run("git apply x")')
