"""What a runner of tests tells is what it prints, name by name, for every runner that can be had here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bpo.sandboxes.swebench import logs, witness
from bpo.sandboxes.swebench.grading import WITNESS

PYTEST = """
import unittest
import pytest

@pytest.mark.parametrize("word", ["a", "two words", "/an/absolute/path"])
def test_passes(word):
    print("PASSED test_it.py::test_fails")

def test_fails():
    print("FAILED test_it.py::test_passes[a]")
    assert False

@pytest.mark.skip(reason="no")
def test_skipped(): ...

@pytest.mark.xfail
def test_expected():
    assert False

@pytest.mark.xfail
def test_unexpected(): ...

@pytest.fixture
def broken():
    raise OSError

@pytest.fixture
def late():
    yield
    raise OSError

def test_error(broken): ...

def test_late(late): ...

class TestOfUnittest(unittest.TestCase):
    def test_one(self): ...

    def test_two(self):
        self.fail()
"""
UNITTEST = '''
import sys
import unittest

class Tests(unittest.TestCase):
    def test_passes(self):
        """What it is for."""

    def test_plain(self): ...

    def test_fails(self):
        self.fail()

    def test_error(self):
        raise OSError

    @unittest.skip("no")
    def test_skipped(self): ...

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    def test_parts(self):
        for part in range(3):
            with self.subTest(part=part):
                self.assertEqual(part, 1)

class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError

    def test_never(self): ...

suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
done = unittest.TextTestRunner(verbosity=int(sys.argv[1])).run(suite)
sys.exit(not done.wasSuccessful())
'''


def told(folder, runner, *command):
    """What the first process says."""
    words = [sys.executable, "-I", "-c", witness.BEGIN, WITNESS, runner, *command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    return json.loads(done.stdout)


def printed(folder, *command):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout


def test_pytest_tells_what_its_summary_says(tmp_path):
    (tmp_path / "test_it.py").write_text(PYTEST)
    (tmp_path / "test_none.py").write_text("import nothing_of_this_name")
    found = told(tmp_path, "pytest", "pytest", "-rA", "--continue-on-collection-errors", "-p", "no:cacheprovider")
    assert (found["problem"], found["code"]) == ("", 1)
    statuses = logs.pytest("\n".join(found["lines"]))
    options = ("-rA", "--show-capture=no", "--continue-on-collection-errors", "-p", "no:cacheprovider")
    assert statuses == logs.pytest(printed(tmp_path, sys.executable, "-m", "pytest", *options))
    assert statuses["test_it.py::test_fails"] == "FAILED"
    assert statuses["test_it.py::test_passes[a]"] == "PASSED"
    # With the output of tests among its own, as it has been read, the first of these can be spoken for.
    assert "PASSED test_it.py::test_fails" in found["log"]


def test_unittest_tells_what_it_prints(tmp_path):
    (tmp_path / "runtests.py").write_text(UNITTEST)
    found = told(tmp_path, "unittest", "./runtests.py", "2")
    assert (found["problem"], found["code"]) == ("", 1)
    statuses = logs.django("\n".join(found["lines"]))
    there = logs.django(printed(tmp_path, sys.executable, "runtests.py", "2"))
    passing = {name for name, status in there.items() if status in ("PASSED", "SKIPPED")}
    assert {name for name, status in statuses.items() if status in ("PASSED", "SKIPPED")} == passing
    assert len(passing) == 3
    # Of a test with parts that fail, what is printed names the parts and, at the end, the method alone.
    failing = {name.split()[0] for name, status in statuses.items() if status in ("FAILED", "ERROR")}
    assert failing == {name.split()[0] for name, status in there.items() if status in ("FAILED", "ERROR")}
    assert statuses["test_fails (__main__.Tests.test_fails)" if sys.version_info >= (3, 11) else "test_fails (__main__.Tests)"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["import os", "os._exit(0)"], "the tests ended before their runner said so (exit status 0)"),
        (["import atexit, os", "atexit.register(os._exit, 0)", "assert False"], "exit status 0, and their runner said"),
        (
            [
                "import os",
                "for n in range(3, 20):",
                '    try: os.write(n, b\'["PASSED x", "0"]\\n\')',
                "    except OSError: pass",
            ],
            "something else than the runner has spoken in its name",
        ),
    ],
)
def test_a_run_that_speaks_for_its_runner_has_a_problem(lines, said, tmp_path):
    (tmp_path / "test_it.py").write_text("\n".join([*lines, "def test_one(): ...", ""]))
    found = told(tmp_path, "pytest", "pytest", "-rA", "-p", "no:cacheprovider", "test_it.py")
    assert said in found["problem"]
    assert not any("PASSED x" in line for line in found["lines"])


def test_a_process_that_a_test_forks_says_nothing(tmp_path):
    lines = ["import os", "def test_forks():", "    pid = os.fork()", "    if pid:", "        os.waitpid(pid, 0)"]
    (tmp_path / "test_it.py").write_text("\n".join([*lines, "def test_after(): ...", ""]))
    found = told(tmp_path, "pytest", "pytest", "-rA", "-p", "no:cacheprovider", "test_it.py")
    assert found["problem"] == ""
    assert found["lines"] == ["PASSED test_it.py::test_forks", "PASSED test_it.py::test_after"]


def test_nobody_looks_into_the_process_that_writes_the_verdict(tmp_path):
    look = "open(f'/proc/{os.getppid()}/fd/1', 'w'), open(f'/proc/{os.getppid()}/mem', 'rb')"
    lines = ["import os, pytest", "def test_looks():", "    if os.getuid() == 0:", "        os.setuid(65534)"]
    lines += ["    with pytest.raises(OSError):", f"        {look}"]
    (tmp_path / "test_it.py").write_text("\n".join([*lines, ""]))
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o111)
    found = told(tmp_path, "pytest", "pytest", "-rA", "-p", "no:cacheprovider", "test_it.py")
    assert found["lines"] == ["PASSED test_it.py::test_looks"], found["log"]
