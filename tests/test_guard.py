"""No test of the estimators can be skipped unseen."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from guard import NEVER_SKIP
from places import REFERENCE, ROOT

SKIPS = "import pytest\n\n\ndef test_one():\n    pytest.skip('no such file')\n"
WHOLE = "import pytest\n\npytest.skip('no such package', allow_module_level=True)\n"
MARKED = "import pytest\n\n\n@pytest.mark.skipif(True, reason='not today')\ndef test_one():\n    pass\n"
EXPECTED = "import pytest\n\n\n@pytest.mark.xfail(strict=True, reason='known')\ndef test_one():\n    assert False\n"


def run(folder, name: str, text: str) -> subprocess.CompletedProcess:
    (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "guard", "-rs", "-p", "no:cacheprovider", name]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("text", "why"), [(SKIPS, "no such file"), (WHOLE, "no such package"), (MARKED, "not today")])
def test_a_skip_among_the_estimators_fails_and_says_why(tmp_path, text, why):
    done = run(tmp_path, "test_estimators_exact.py", text)
    assert done.returncode != 0
    assert f"must not be skipped; test_estimators_exact.py was, because Skipped: {why}" in done.stdout.replace("\n", " ")


def test_other_skips_and_expected_failures_are_left_alone_and_their_reasons_are_printed(tmp_path):
    done = run(tmp_path, "test_games.py", SKIPS)
    assert done.returncode == 0
    assert "no such file" in done.stdout
    assert run(tmp_path, "test_estimators_exact.py", EXPECTED).returncode == 0


def test_the_guarded_files_and_the_reference_values_are_in_the_repository():
    assert all((ROOT / "tests" / name).is_file() for name in NEVER_SKIP)
    assert (REFERENCE / "exact_moments.json").is_file()
