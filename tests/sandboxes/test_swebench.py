"""SWE-bench: rows and logs are read as the harness reads them, trees hold no future, verdicts follow the hidden tests."""

import collections
import importlib.metadata
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import asdict, replace

import pytest
from places import SHARED

from bpo.errors import BadInput
from bpo.git import git_text
from bpo.sandbox import SnapshotError
from bpo.sandboxes import fork_check
from bpo.sandboxes.shell import agent_format, findings
from bpo.sandboxes.swebench import SweBench, ToolError, grade, load, logs, opened, prepare, release
from bpo.sandboxes.swebench.environments import pinned
from bpo.sandboxes.swebench.instances import named, touched
from bpo.sandboxes.swebench.recipes import RECIPES, recipe

VERIFIED = SHARED / "data" / "code" / "swebench_verified_test.parquet"
# A row whose hidden tests need nothing that a release lacks, and that release: made a day before the repair was proposed.
ROW, RELEASE = "psf__requests-6028", "2.27.0"
# The same for every other parser; longer runs.
OTHERS = [
    ("sympy__sympy-23950", "1.11"),
    ("django__django-16801", "4.2b1"),
    ("sphinx-doc__sphinx-10673", "5.1.0"),
    ("pytest-dev__pytest-5787", "5.1.0"),
    ("pydata__xarray-4966", "0.17.0"),
    ("pylint-dev__pylint-4551", "2.8.2"),
]


@pytest.fixture(scope="module")
def rows():
    if not VERIFIED.is_file():
        pytest.skip(f"{VERIFIED} is not there")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'bpo[swebench]'")
    return load(VERIFIED)


def boxes_needed():
    if not any(finding.works and finding.tier == "overlay" for finding in findings()):
        pytest.skip(f"no box of tier overlay works here: {[finding.why for finding in findings()]}")
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    pytest.importorskip("uv", reason="uv is not installed: pip install 'bpo[swebench]'")


def from_release(row, version):
    """The row's tree and environment on a release; skips where the package index cannot be reached."""
    boxes_needed()
    try:
        return prepare(row, release(row, version), "HEAD")
    except ToolError as error:
        if "cannot be read" in str(error) or "network" in str(error).lower() or "dns" in str(error).lower():
            pytest.skip(f"PyPI cannot be reached: {error}")
        raise


@pytest.fixture(scope="module")
def real(rows):
    return from_release(rows[ROW], RELEASE)


@pytest.fixture(scope="module")
def base(real):
    with opened(real) as workspace:
        yield workspace


def test_verified_has_five_hundred_rows_of_twelve_repositories(rows):
    assert len(rows) == 500
    counts = collections.Counter(row.repo for row in rows.values())
    assert counts["django/django"] == 231
    assert counts["sympy/sympy"] == 75
    assert counts["pallets/flask"] == 1
    assert set(counts) == set(RECIPES)
    flask = rows["pallets__flask-5014"]
    assert flask.fail_to_pass == ("tests/test_blueprints.py::test_empty_name_not_allowed",)
    assert len(flask.pass_to_pass) == 59
    assert touched(flask.patch) == ("src/flask/blueprints.py",)


def test_json_lines_are_read_like_parquet(rows, tmp_path):
    row = rows[ROW]
    fields = {"instance_id": row.name, "problem_statement": row.problem, **asdict(row)}
    fields |= {"FAIL_TO_PASS": list(row.fail_to_pass), "PASS_TO_PASS": json.dumps(row.pass_to_pass)}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(fields) + "\n\n")
    assert load(path) == {ROW: row}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repo": None}, "row 1: the field 'repo' is None; it must be text"),
        ({"FAIL_TO_PASS": "[1]"}, "the field 'FAIL_TO_PASS' is '[1]'; it must be a list of tests"),
        ({"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS is empty"),
        ({"PASS_TO_PASS": "{"}, "the field 'PASS_TO_PASS' is '{'; it must be a list of tests"),
    ],
)
def test_a_wrong_row_is_named(change, message, tmp_path):
    texts = ("instance_id", "repo", "version", "base_commit", "created_at", "problem_statement", "patch", "test_patch")
    row = {**dict.fromkeys(texts, "x"), "FAIL_TO_PASS": '["a"]', "PASS_TO_PASS": "[]", **change}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(BadInput) as error:
        load(path)
    assert message in str(error.value)


def test_files_that_hold_no_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("{")
    with pytest.raises(BadInput, match="line 1 is not JSON"):
        load(path)
    path.write_text("[]")
    with pytest.raises(BadInput, match="row 1 is list; it must be an object"):
        load(path)
    path.write_text("")
    with pytest.raises(BadInput, match="holds no rows"):
        load(path)
    with pytest.raises(BadInput, match="does not exist"):
        load(tmp_path / "none.parquet")


def test_an_unknown_instance_is_told_the_nearest_names(rows):
    with pytest.raises(BadInput, match=r"of the 500 there are, the nearest: psf__requests-6028"):
        named(rows, "psf__requests-602")


def test_pytest_logs():
    log = (
        "tests/test_a.py ..F\n"
        "PASSED tests/test_a.py::test_one\n"
        "PASSED tests/test_a.py::test_two[a b]\n"
        "FAILED tests/test_a.py::test_three - AssertionError: PASSED\n"
        "ERROR tests/test_b.py\n"
        "SKIPPED [1] tests/test_a.py:3: no\n"
        "XFAIL tests/test_a.py::test_four\n"
        "PASSED\n"
    )
    assert logs.pytest(log) == {
        "tests/test_a.py::test_one": "PASSED",
        "tests/test_a.py::test_two[a": "PASSED",
        "tests/test_a.py::test_three": "FAILED",
        "tests/test_b.py": "ERROR",
        "[1]": "SKIPPED",
        "tests/test_a.py::test_four": "XFAIL",
    }
    assert logs.pytest_paths("PASSED t.py::x[/home/me/a.py]\nPASSED t.py::x[//h/a]\n") == {
        "t.py::x[/a.py]": "PASSED",
        "t.py::x[//h/a]": "PASSED",
    }
    assert logs.pytest_colored("\x1b[32mPASSED\x1b[0m t.py::\x1b[1mtest_x\x1b[0m\nt.py::test_y FAILED\n") == {
        "t.py::test_x": "PASSED",
        "t.py::test_y": "FAILED",
    }


def test_django_logs():
    log = (
        "test_a (m.T) ... ok\n"
        "What a test says of itself ... ok\n"
        "test_b (m.T) ... FAIL\n"
        "test_c (m.T) ... skipped 'why'\n"
        "test_d (m.T) ... Some words of its own\nok\n"
        "test_e (m.T) ... ERROR\n"
        "FAIL: test_f (m.T)\n"
    )
    assert logs.django(log) == {
        "test_a (m.T)": "PASSED",
        "What a test says of itself": "PASSED",
        "test_b (m.T)": "FAILED",
        "test_c (m.T)": "SKIPPED",
        "test_d (m.T)": "PASSED",
        "test_e (m.T)": "ERROR",
        "test_f": "FAILED",
    }


def test_sympy_logs():
    log = "test_a ok\ntest_b F\ntest_c E\n____ sympy/core/tests/test_x.py:test_b ____\n"
    assert logs.sympy(log) == {
        "test_a": "PASSED",
        "test_b": "FAILED",
        "test_c": "ERROR",
        "sympy/core/tests/test_x.py:test_b": "FAILED",
    }


def test_logs_are_read_as_the_harness_reads_them():
    """20,000 logs of random scraps, each repository's parser against the one of the package swebench."""
    try:
        version = importlib.metadata.version("swebench")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("swebench is not installed (84 packages): pip install swebench==4.1.0 beside bpo to compare")
    if not version.startswith("4."):
        pytest.skip(f"swebench {version} is installed; its parsers are found where 4.1 has them")
    from swebench.harness.log_parsers import MAP_REPO_TO_PARSER

    scraps = [
        *("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "ok", "OK", "...", " ", "  ", "\n", "\n", "\n", "\t", " - ", "- "),
        *("test_a", "test_b (x.Y)", "t.py::c[/a/b]", "t.py::d[//a]", "t.py::e[a b]", "[1] x", "MouseButton.LEFT", "F", "E"),
        *(" ... ", " ... ok", " ...  OK", " ... FAIL", " ... ERROR", " ... skipped", "FAIL:", "ERROR:", "\x1b[31m", "\x1b[0m"),
        *("____ a/b.py:test_q ____", "--version is equivalent to version", "Internal Server Error: /a/\nok"),
        "Applying sites.0002_alter_domain_unique...test_no_migrations (m.T) ... ok",
        "Testing against Django installed in 'x' with up to 2 (0 silenced).\nok",
    ]
    rng = random.Random(0)
    compared = 0
    for _ in range(20_000):
        log = "".join(rng.choice(scraps) for _ in range(rng.randrange(1, 14)))
        for repository, recipes in RECIPES.items():
            try:
                theirs = MAP_REPO_TO_PARSER[repository](log, None)
            except IndexError:
                continue  # a word alone on its line, which theirs cannot read
            assert recipes[0][1].parser(log) == theirs, (repository, log)
            compared += 1
    assert compared > 200_000


def test_every_row_has_a_recipe_and_a_command(rows):
    assert {recipe(row).python for row in rows.values()} <= {"3.6", "3.7", "3.8", "3.9", "3.10", "3.11"}
    # Its tests are two lists of addresses; with no file named, Django's runner runs all it has.
    assert [row.name for row in rows.values() if not row.test_files] == ["django__django-10097"]
    django = rows["django__django-16801"]
    assert recipe(django).command(django) == (
        *["./tests/runtests.py", "--verbosity", "2", "--settings=test_sqlite", "--parallel", "1"],
        "model_fields.test_imagefield",
    )
    assert recipe(rows[ROW]).command(rows[ROW]) == ("pytest", "-rA", "tests/test_utils.py")
    runners = collections.Counter(recipe(row).runner for row in rows.values())
    assert runners == {"pytest": 194, "unittest": 231, "sympy": 75}
    with pytest.raises(BadInput, match="unknown repository of SWE-bench 'a/b'"):
        recipe(replace(django, repo="a/b"))


def test_pins(tmp_path, rows):
    chosen = recipe(rows["pallets__flask-5014"])
    path = tmp_path / "environment.yml"
    path.write_text("dependencies:\n- python=3.11.4=h1\n- click=8.1.2=py\n- openssl=3.0\n- pip:\n  - pytest==7.4.0\n")
    assert pinned(path, chosen) == (["click==8.1.2", "pytest==7.4.0"], "3.11")
    path = tmp_path / "pins.txt"
    path.write_text("# comment\n\npytest==7.4.0\n-e .\n")
    assert pinned(path, chosen) == (["pytest==7.4.0"], None)
    (tmp_path / "environment.yml").write_text("[]")
    with pytest.raises(BadInput, match="has no list of dependencies"):
        pinned(tmp_path / "environment.yml", chosen)


def test_the_tree_holds_no_future(real):
    """One commit, and no object in it that knows the repair or the hidden tests."""

    assert git_text(real.tree, "rev-list", "--all", "--count") == "1\n"
    assert git_text(real.tree, "status", "--porcelain") == ""
    assert git_text(real.tree, "fsck", "--unreachable", "--no-reflogs") == ""
    objects = git_text(real.tree, "cat-file", "--batch-all-objects", "--batch", "--unordered")
    hidden = real.tests["tests/test_utils.py"].decode()
    for patch in (real.instance.patch, real.instance.test_patch):
        telling = max((line[1:] for line in patch.splitlines() if line.startswith("+") and line[:3] != "+++"), key=len)
        assert telling not in objects
        assert (telling in hidden) == (patch == real.instance.test_patch)
    # The clone that it was made of is as it was: no file of ours in it, and its own commit.
    source = release(real.instance, RELEASE)
    assert git_text(source, "status", "--porcelain", "--ignored") == ""


def test_a_real_row_is_resolved_by_its_gold_patch_alone(real, base):
    untouched = grade(base, real, "")
    assert (untouched.status, untouched.applied, untouched.problem) == ("no", False, "")
    assert (untouched.mended, untouched.kept) == (0, len(real.instance.pass_to_pass))
    gold = grade(base, real, real.instance.patch)
    assert (gold.status, gold.applied, gold.problem) == ("full", True, "")
    assert (gold.mended, gold.kept) == (2, 185)


def test_patches_that_do_not_fit_or_break_everything(real, base):
    wrong = real.instance.patch.replace("requests/utils.py", "requests/none.py")
    assert grade(base, real, wrong).problem == "the patch does not apply"
    early = (
        "diff --git a/conftest.py b/conftest.py\nnew file mode 100644\n--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1,2 @@\n"
        "+import os\n+os._exit(0)\n"
    )
    # A file that says how tests are run is taken back, and is not the patch's.
    untouched = grade(base, real, "")
    assert grade(base, real, early).fail_to_pass == untouched.fail_to_pass
    assert grade(base, real, early).problem == ""
    # A patch that rewrites the hidden tests finds its version replaced.
    names = "\n".join(f"+def {name.split('::')[-1].split('[')[0]}(): pass" for name in real.instance.fail_to_pass)
    cheat = f"diff --git a/tests/test_utils.py b/tests/test_utils.py\n--- a/tests/test_utils.py\n+++ b/tests/test_utils.py\n@@ -1,1 +1,2 @@\n # -*- coding: utf-8 -*-\n{names.splitlines()[0]}\n"  # noqa: E501
    assert grade(base, real, cheat).status == "no"


def adding(name, lines):
    """A patch that adds a file."""
    body = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{body}"


def at_the_end_of_init(real, lines):
    """A patch that puts lines at the end of what every test imports."""
    before = (real.tree / "requests" / "__init__.py").read_text().split("\n")[:-1]
    body = "".join(f"+{line}\n" for line in lines)
    head = "diff --git a/requests/__init__.py b/requests/__init__.py\n--- a/requests/__init__.py\n+++ b/requests/__init__.py\n"
    return f"{head}@@ -{len(before)},1 +{len(before)},{1 + len(lines)} @@\n {before[-1]}\n{body}"


def forged(real, *more):
    """A program that says in the runner's name, wherever it can write, that all tests pass."""
    wanted = [*real.instance.fail_to_pass, *real.instance.pass_to_pass]
    said = "".join(f"PASSED {name}\\n" for name in wanted)
    return [
        "import os",
        f"said = {said!r}",
        "for number in range(20):",
        "    try:",
        "        os.write(number, ('\\n' + said).encode())",
        "    except OSError:",
        "        pass",
        "print(said)",
        *more,
    ]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda real: at_the_end_of_init(real, forged(real)), "has spoken in its name"),
        (
            lambda real: at_the_end_of_init(real, ["print('PASSED', __name__)", "import os", "os._exit(0)"]),
            "ended before their",
        ),
        (lambda real: at_the_end_of_init(real, ["import atexit, os", "atexit.register(os._exit, 0)"]), "runner said 1"),
        (
            lambda real: at_the_end_of_init(real, ["import os", "os.kill(os.getppid(), 9)"]),
            "what the tests' runner says is not",
        ),
        (
            lambda real: adding(
                "conftest.py",
                [
                    "import pytest",
                    "@pytest.hookimpl(hookwrapper=True)",
                    "def pytest_runtest_makereport(item, call):",
                    "    outcome = yield",
                    "    outcome.get_result().outcome = 'passed'",
                ],
            ),
            "",
        ),
        (lambda real: adding("sitecustomize.py", forged(real)), ""),
        (lambda real: adding("json.py", forged(real)), ""),
    ],
    ids=["everywhere", "exit", "at exit", "kill", "conftest", "sitecustomize", "shadow"],
)
def test_tested_code_that_speaks_in_the_runners_name_is_not_believed(made, said, real, base):
    """Each would be resolved, or count as a run without fault, if what is printed and the exit status were believed."""
    report = grade(base, real, made(real))
    assert report.applied
    assert (report.status, report.mended) == ("no", 0)
    assert said in report.problem


def test_prints_of_tested_code_are_in_the_log_alone(real, base):
    lines = ["import sys", *(f"print('PASSED {name}')" for name in real.instance.fail_to_pass)]
    report = grade(base, real, at_the_end_of_init(real, lines))
    assert (report.status, report.mended, report.problem) == ("no", 0, "")
    assert report.kept == len(real.instance.pass_to_pass)


@pytest.fixture
def sandbox(rows, real, tmp_path):
    clones = tmp_path / "repos"
    clones.mkdir()
    shutil.copytree(release(rows[ROW], RELEASE), clones / "psf__requests")
    row = rows[ROW]
    fields = {"instance_id": row.name, "problem_statement": row.problem, **asdict(row), "base_commit": real.facts["commit"]}
    fields |= {"FAIL_TO_PASS": list(row.fail_to_pass), "PASS_TO_PASS": list(row.pass_to_pass)}
    (tmp_path / "rows.jsonl").write_text(json.dumps(fields))
    with SweBench(tmp_path / "rows.jsonl", clones, max_steps=6) as made:
        yield made


def said(command):
    return f"I look around.\n\n```mswea_bash_command\n{command}\n```\n"


SUBMIT = f"git diff > /tmp/patch.txt && echo {agent_format.SUBMIT} && cat /tmp/patch.txt"


def test_four_forks_of_a_real_issue_are_judged_apart(sandbox):
    observation = sandbox.reset(ROW)
    assert observation.actions is None
    assert "/testbed" in observation.task
    assert "hidden" not in observation.task
    assert "```mswea_bash_command" in observation.task
    assert sandbox.tasks("test") == (ROW,)
    first = sandbox.step(said("git log --oneline | wc -l"))
    assert first.observation.text == "<returncode>0</returncode>\n<output>\n1\n</output>"
    gold, comment, ruin, untouched = sandbox.fork(4)
    gold.workspace.write("gold.patch", sandbox._running().prepared.instance.patch)
    gold.step(said("git apply gold.patch && rm gold.patch"))
    comment.step(said("sed -i '1i # a comment' requests/utils.py"))
    ruin.step(said("rm -rf requests"))
    outcomes = [each.step(said(SUBMIT)) for each in (gold, comment, ruin, untouched)]
    assert [outcome.reward for outcome in outcomes] == [1.0, 0.0, 0.0, 0.0]
    assert [outcome.info["status"] for outcome in outcomes] == ["full", "no", "no", "no"]
    assert all(outcome.done and not outcome.info["truncated"] for outcome in outcomes)
    assert "+# a comment" in outcomes[1].info["submission"]
    # The tree that they came from is as it was.
    after = sandbox.step(said("git status --porcelain | wc -l && ls requests | wc -l"))
    assert after.observation.text.split("\n")[2] == "0"
    for each in (gold, comment, ruin, untouched):
        each.close()


def test_turns_without_one_command_and_snapshots(sandbox):
    sandbox.reset(ROW)
    start = sandbox.snapshot()
    for _ in range(2):
        outcome = sandbox.step("I have no command.")
        assert "found 0" in outcome.observation.text
        assert not outcome.done
    ended = sandbox.step(said("true") + said("true"))
    assert ended.done
    assert not ended.info["truncated"]
    with pytest.raises(RuntimeError, match="this session is over"):
        sandbox.step(said("true"))
    sandbox.restore(start)
    key = sandbox.state_key()
    sandbox.step(said("touch new"))
    assert sandbox.state_key() != key
    sandbox.restore(start)
    assert sandbox.state_key() == key
    for _ in range(6):
        outcome = sandbox.step(said("true"))
    assert outcome.done
    assert outcome.info["truncated"]
    with pytest.raises(RuntimeError, match="no patch has been handed in"):
        sandbox.report()
    sandbox.reset(ROW)
    with pytest.raises(SnapshotError):
        sandbox.restore(start)


def test_bad_input(rows, real, tmp_path):
    with pytest.raises(BadInput, match="holds no clone of any repository"):
        SweBench(VERIFIED, tmp_path)
    with pytest.raises(BadInput, match="has no clone of psf/requests"):
        SweBench(VERIFIED, tmp_path, instances=[ROW])
    with pytest.raises(BadInput, match="it must be a list of names"):
        SweBench(VERIFIED, tmp_path, instances=ROW)
    with pytest.raises(BadInput, match="needs boxes of tier overlay, here they are of tier landlock"):
        SweBench(VERIFIED, tmp_path, tier="landlock")
    with pytest.raises(BadInput, match="max_steps is 0"):
        SweBench(VERIFIED, tmp_path, max_steps=0)
    with pytest.raises(BadInput, match="holds no commit"):
        prepare(rows[ROW], release(rows[ROW], RELEASE))
    with pytest.raises(BadInput, match="the test_patch of pallets__flask-5014 does not fit"):
        prepare(rows["pallets__flask-5014"], release(rows[ROW], RELEASE), "HEAD")
    with pytest.raises(BadInput, match="PyPI has no source"):
        release(rows[ROW], "0.0.0.1")
    with pytest.raises(BadInput, match="SWE-bench needs boxes of tier overlay, here they are of tier landlock"):
        opened(real, "landlock")
    with pytest.raises(BadInput, match="unknown sandbox to walk in 'swebench'"):
        fork_check("swebench", 1, 1, None)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "version"), OTHERS)
def test_rows_of_other_repositories_on_releases(name, version, rows):
    prepared = from_release(rows[name], version)
    with opened(prepared) as workspace:
        untouched, gold = grade(workspace, prepared, ""), grade(workspace, prepared, prepared.instance.patch)
    assert untouched.status == "no"
    assert untouched.mended < len(untouched.fail_to_pass)
    assert gold.status == "full"


def bpo(*arguments):
    command = [sys.executable, "-m", "bpo", "swebench", "check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "SWEBENCH_ROWS": ""})


def test_check_says_whether_an_instance_can_be_used(real, tmp_path):
    done = bpo(ROW, "--release", RELEASE, "--rows", VERIFIED, "--logs", tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines() if line.startswith("│")]
    assert [row[1:6] for row in rows] == [
        ["none", "-", "0 of 2", "185 of 185", "no"],
        ["gold", "yes", "2 of 2", "185 of 185", "full"],
    ]
    assert done.stdout.splitlines()[-1] == f"{ROW} can be used here"
    assert "release 2.27.0, NOT the row's base commit; Python 3.9" in done.stdout
    assert "185 passed" not in (tmp_path / f"{ROW}-none.log").read_text()
    # Another release, which the patches fit and where the gold patch mends nothing, is found out.
    done = bpo(ROW, "--release", "2.28.0", "--rows", VERIFIED)
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ROW, "--release", RELEASE), "the rows of SWE-bench Verified are needed: --rows FILE"),
        ((ROW, "--rows", VERIFIED), "one of --repo CLONE and --release VERSION is needed"),
        ((ROW, "--rows", VERIFIED, "--repo", ".", "--release", "1"), "both say where the source is: give one of them"),
        ((ROW, "--rows", "/tmp", "--repo", "."), "'/tmp' is no file"),
        (("psf__requests-1", "--rows", VERIFIED, "--repo", "."), "unknown instance 'psf__requests-1'"),
        ((ROW, "--rows", VERIFIED, "--repo", "/none"), "the clone '/none' does not exist"),
        ((ROW, "--rows", VERIFIED, "--repo", "."), "holds no commit"),
        ((ROW, "--rows", "none.parquet", "--repo", "."), "'none.parquet' does not exist"),
    ],
)
def test_check_refuses_in_one_sentence(arguments, message, rows):
    done = bpo(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
