"""Runs a repository's tests and tells what each came to; a script for a box, for Python 3.6 and later, which imports no bpo.

Its text is given to `BEGIN`, with a runner (pytest, unittest or sympy), a program and its arguments.

Two processes. The first one runs none of the repository's code, lets nobody look into its memory, and alone has the standard
output, on which it writes JSON: {"lines", "log", "code", "problem"}. The second one runs the tests. It tells each outcome by a
pipe, with a mark that is made with a key; whatever it prints is the log, and is read by nobody.

What this cannot hold: tests and tested code are one process, so that code which looks for the key in its own memory finds it.
"""

import ctypes
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading

# What a process begins with: nothing is imported from the folder that it is in.
BEGIN = """
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
source = sys.argv.pop(1)
witness = {"__name__": "witness"}
exec(compile(source, "<witness>", "exec"), witness)
witness["main"](source)
"""
KEY_BYTES = 32
# Bytes of the log that are kept: its end.
LONGEST = 8 * 2**20
NOT_DUMPABLE = (4, 0, 0, 0, 0)
# In the order in which pytest's summary has them; of tests that share a name the last one counts.
ORDER = ("PASSED", "SKIPPED", "XFAIL", "ERROR", "FAILED")


def mark(key, number, line):
    """What shows that a line is the runner's own, and the `number`th."""
    return hmac.new(key, f"{number} {line}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def watched(runner, arguments, source):
    """Run the tests in a process of their own; return what is to be said of it."""
    ctypes.CDLL(None).prctl(*NOT_DUMPABLE)
    key = os.urandom(KEY_BYTES)
    told, tell = os.pipe()
    log, say = os.pipe()
    seed = dict(os.environ, PYTHONHASHSEED="0") if runner == "sympy" else None
    # Not -I: the repository's tests run as they do everywhere.
    command = [sys.executable, "-c", BEGIN, source, "--inside", str(tell), runner, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=say, stderr=say, pass_fds=(tell,), env=seed)
    os.close(tell)
    os.close(say)
    process.stdin.write(key)
    process.stdin.close()
    printed = []
    reader = threading.Thread(target=_drain, args=(log, printed), daemon=True)
    reader.start()
    lines, problem, end = [], "", None
    with open(told, encoding="utf-8", errors="surrogatepass", newline="\n") as messages:
        for message in messages:
            try:
                line, proof = json.loads(message)
                genuine = hmac.compare_digest(proof, mark(key, len(lines), line))
            except (ValueError, TypeError):
                genuine = False
            if not genuine:
                problem = "something else than the runner has spoken in its name"
            elif line.startswith("end "):
                end = int(line[4:])
                break
            else:
                lines.append(line)
    process.wait()
    # What the tests have left running may hold the log open: it is not waited for.
    reader.join(1.0)
    if not problem and end is None:
        problem = f"the tests ended before their runner said so (exit status {process.returncode})"
    elif not problem and end != process.returncode:
        problem = f"the tests ended with exit status {process.returncode}, and their runner said {end}"
    if runner == "pytest":
        rank = {word: place for place, word in enumerate(ORDER)}
        lines.sort(key=lambda line: rank.get(line.split(" ", 1)[0], 0))
    text = b"".join(printed)[-LONGEST:].decode("utf-8", "replace")
    return {"lines": lines, "log": text, "code": process.returncode, "problem": problem}


def _drain(pipe, printed):
    while True:
        part = os.read(pipe, 2**16)
        if not part:
            return
        printed.append(part)
        if sum(map(len, printed)) > 4 * LONGEST:
            printed[:] = [b"".join(printed)[-LONGEST:]]


def teller(pipe, key):
    """A function that tells one line."""
    count, dumps, write, owner, getpid = [0], json.dumps, os.write, os.getpid(), os.getpid

    def tell(line):
        # A process that a test has forked goes through the runner's code too, and says nothing.
        if getpid() != owner:
            return
        data = (dumps([line, mark(key, count[0], line)]) + "\n").encode()
        count[0] += 1
        while data:
            data = data[write(pipe, data) :]

    return tell


def run_pytest(tell, arguments):
    """pytest with a plugin that tells what its summary says, in the summary's words."""
    import pytest

    names = "-vv" in arguments

    class Witness:
        def pytest_configure(self, config):
            self.named = getattr(config, "cwd_relative_nodeid", str)

        def pytest_runtest_logreport(self, report):
            name, expected = self.named(report.nodeid), hasattr(report, "wasxfail")
            if report.skipped:
                tell(f"XFAIL {name}" if expected else f"{name} SKIPPED" if names else f"SKIPPED [1] {name}")
            elif report.failed:
                tell(f"{'FAILED' if report.when == 'call' else 'ERROR'} {name}")
            elif report.when == "call" and not expected:
                tell(f"PASSED {name}")

        def pytest_collectreport(self, report):
            if report.failed:
                tell(f"ERROR {self.named(report.nodeid)}")

    return pytest.main(arguments, plugins=[Witness()])


def run_unittest(tell, arguments):
    """A script that runs unittest, whose results are told as it prints them at verbosity 2."""
    import unittest

    result = unittest.TextTestResult
    # The name of a method, and what is printed after the test's description.
    for name, word in (
        ("addSuccess", "ok"),
        ("addFailure", "FAIL"),
        ("addError", "ERROR"),
        ("addSkip", "skipped {0!r}"),
        ("addExpectedFailure", "expected failure"),
        ("addUnexpectedSuccess", "unexpected success"),
    ):
        setattr(result, name, _told(tell, getattr(result, name), word))
    before = result.addSubTest

    def with_subtest(self, test, subtest, error):
        if error is not None:
            tell(f"{self.getDescription(test)} ... FAIL")
        return before(self, test, subtest, error)

    result.addSubTest = with_subtest
    return run_script(arguments)


def _told(tell, method, word):
    def telling(self, test, *rest):
        tell(f"{self.getDescription(test)} ... {word.format(*rest)}")
        return method(self, test, *rest)

    return telling


def run_sympy(tell, arguments):
    """SymPy's own runner, whose reporter tells as it prints with --verbose."""
    if "-C" in arguments:
        os.environ["SYMPY_USE_CACHE"] = "no"  # which the program sets too late now
    sys.path.insert(0, os.getcwd())
    try:
        from sympy.testing import runtests
    except ImportError:
        from sympy.utilities import runtests
    del sys.path[0]
    reporter = runtests.PyTestReporter
    for name, word in (("test_pass", "ok"), ("test_fail", "F"), ("test_exception", "E")):
        setattr(reporter, name, _told_of_sympy(tell, getattr(reporter, name), word))
    return run_script(arguments)


def _told_of_sympy(tell, method, word):
    def telling(self, *rest):
        tell(f"{self._active_f.__name__} {word}")
        if word != "ok":
            tell(f"____ {self._active_file}:{self._active_f.__name__} ____")
        return method(self, *rest)

    return telling


def run_script(arguments):
    """Run a script as Python does; its exit status."""
    import runpy

    sys.argv = list(arguments)
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return int(ended.code or 0)
        return 1
    return 0


def inside(pipe, runner, arguments):
    """The process that runs the tests; returns its exit status."""
    os.set_inheritable(pipe, False)
    tell = teller(pipe, sys.stdin.buffer.read(KEY_BYTES))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    if runner == "pytest":
        sys.argv = list(arguments)
        sys.path.insert(0, os.path.dirname(sys.executable))
        code = run_pytest(tell, list(arguments[1:]))
    else:
        code = {"unittest": run_unittest, "sympy": run_sympy}[runner](tell, list(arguments))
    code = int(code) & 255
    tell(f"end {code}")
    return code


def main(source):
    """What this script does; `source` is its own text, for the second process."""
    if sys.argv[1] == "--inside":
        code = inside(int(sys.argv[2]), sys.argv[3], sys.argv[4:])
        sys.stdout.flush()
        sys.exit(code)
    sys.stdout.write(json.dumps(watched(sys.argv[1], sys.argv[2:], source)))
