"""What test runs print, as statuses by test: pytest, Django's runner, SymPy's runner.

Names are read as SWE-bench's harness 4.1 reads them, since the rows were made with it: a pytest name ends at its first space,
so that several cases of one test can share a name, and the last one printed counts. The rows name them in that form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

PASSED, FAILED, ERROR, SKIPPED, XFAIL = "PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL"
WORDS = (FAILED, PASSED, SKIPPED, ERROR, XFAIL)
Parser = Callable[[str], Mapping[str, str]]

_CONTROL = re.compile(r"\[\d+m|[\x01-\x1f]")
_DJANGO_OK = re.compile(r" \.\.\. (ok| ?OK)$")
_DJANGO_NOT_OK = {"FAIL": FAILED, "ERROR": ERROR}
# Where something else is printed between a test's name and its "ok".
_DJANGO_BETWEEN = (
    r"^(.*?)\s\.\.\.\sTesting against Django installed in (?:(?s:.*?)) silenced\)\.\nok$",
    r"^(.*?)\s\.\.\.\sInternal Server Error: /(?:.*)/\nok$",
    r"^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$",
)
_SYMPY_TITLE = re.compile(r"_* (.*)\.py:(.*) _*")
_SYMPY_MARKS = {" E": ERROR, " F": FAILED, " ok": PASSED}


def pytest(log: str) -> dict[str, str]:
    """Statuses from the summary of `pytest -rA`: a line begins with a status, the name comes after it."""
    found = {}
    for line in log.split("\n"):
        if line.startswith(WORDS):
            words = (line.replace(" - ", " ") if line.startswith(FAILED) else line).split()
            if len(words) > 1:
                found[words[1]] = words[0]
    return found


def pytest_paths(log: str) -> dict[str, str]:
    """As `pytest`; a parameter that is an absolute path counts by its last part, since the rest is the machine's."""
    found = {}
    for name, status in pytest(log).items():
        match = re.search(r"(.*?)\[(.*)\]", name)
        if match:
            test, parameter = match.groups()
            if parameter.startswith("/") and not parameter.startswith("//") and "*" not in parameter:
                parameter = "/" + parameter.split("/")[-1]
            name = f"{test}[{parameter}]"
        found[name] = status
    return found


def pytest_colored(log: str) -> dict[str, str]:
    """As `pytest`, for output with terminal codes, and for runs that print the status after the name."""
    found = {}
    for raw in log.split("\n"):
        line = _CONTROL.sub("", re.sub(r"\[\d+m", "", raw))
        words = (line.replace(" - ", " ") if line.startswith(FAILED) else line).split()
        if len(words) < 2:
            continue
        if line.startswith(WORDS):
            found[words[1]] = words[0]
        elif line.endswith(WORDS):
            found[words[0]] = words[1]
    return found


def pytest_mouse(log: str) -> dict[str, str]:
    """As `pytest`; matplotlib's mouse buttons count by their numbers, which other Pythons print."""
    return pytest(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def pytest_either(log: str) -> dict[str, str]:
    """Passed and failed tests where the status may come before the name or after it (seaborn)."""
    found = {}
    for line in log.split("\n"):
        words = line.split()
        if line.startswith(FAILED) and len(words) > 1:
            found[words[1]] = FAILED
        elif f" {PASSED} " in line:
            if words[1] == PASSED:
                found[words[0]] = PASSED
        elif line.startswith(PASSED) and len(words) > 1:
            found[words[1]] = PASSED
    return found


def django(log: str) -> dict[str, str]:
    """Statuses from `runtests.py --verbosity 2`: "test_x (module.Class) ... ok"; a test's docstring may stand for its name."""
    found, last = {}, None
    for raw in log.split("\n"):
        line = raw.strip()
        if "--version is equivalent to version" in line:
            found["--version is equivalent to version"] = PASSED
        if " ... " in line:
            last = line.split(" ... ")[0]
        if match := _DJANGO_OK.search(line):
            # A migration that is announced on the same line is no part of the name.
            if line.startswith("Applying sites.0002_alter_domain_unique...test_no_migrations"):
                line = line.split("...", 1)[-1].strip()
            found[line.removesuffix(match[0])] = PASSED
        if " ... skipped" in line:
            found[line.split(" ... skipped")[0]] = SKIPPED
        for word, status in _DJANGO_NOT_OK.items():
            if line.endswith(f" ... {word}"):
                found[line.split(f" ... {word}")[0]] = status
            if line.startswith(f"{word}:") and len(line.split()) > 1:
                found[line.split()[1]] = status
        if line.startswith("ok") and last is not None:
            found[last] = PASSED  # the test printed something of its own before it
    for pattern in _DJANGO_BETWEEN:
        found.update({match[1]: PASSED for match in re.finditer(pattern, log, re.MULTILINE)})
    return found


def sympy(log: str) -> dict[str, str]:
    """Statuses from `bin/test --verbose`: "test_x ok", F or E; titles of tracebacks count as failures under their file."""
    found = {f"{match[1]}.py:{match[2]}": FAILED for match in _SYMPY_TITLE.finditer(log)}
    for raw in log.split("\n"):
        line = raw.strip()
        for mark, status in _SYMPY_MARKS.items():
            if line.startswith("test_") and line.endswith(mark):
                found[line.split()[0]] = status
    return found
