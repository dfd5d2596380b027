"""Rows of SWE-bench (arXiv 2310.06770) and of its subset Verified: an issue of a repository, and the tests of its repair."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpo.errors import BadInput, ToolError, require, scalar
from bpo.git import git_text
from bpo.reading import from_json, read_lines

TEXT = ("instance_id", "repo", "version", "base_commit", "created_at", "problem_statement", "patch", "test_patch")
LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS")
# Changed files of these kinds are data of tests, not tests to be run.
NO_TESTS = (".csv", ".jpeg", ".jpg", ".json", ".md", ".pkl", ".png", ".toml", ".txt", ".yaml", ".yml")


@dataclass(frozen=True)
class Instance:
    """One row.

    name          like "pallets__flask-5014"; repo like "pallets/flask", version like "2.3"
    base_commit   the commit that the issue is repaired on
    created_at    when the repair was proposed, ISO 8601
    problem       text of the issue, which is what an agent is told
    patch         the repair that was made (gold), test_patch: the tests that came with it; both hidden from agents
    fail_to_pass  tests that fail before the repair and pass after it; pass_to_pass: tests that pass before and after
    """

    name: str
    repo: str
    version: str
    base_commit: str
    created_at: str
    problem: str
    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]

    @property
    def test_files(self) -> tuple[str, ...]:
        """Files that the test patch touches and that are run as tests; where there are none, all tests are run."""
        return run_as_tests(touched(self.test_patch))


def run_as_tests(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a test patch's files that are tests to be run."""
    return tuple(name for name in names if not name.endswith(NO_TESTS))


def touched(patch: str) -> tuple[str, ...]:
    """Files of a patch in git's format, by their new names, as git itself reads them; BadInput where it cannot."""
    if not patch.strip():
        return ()
    try:
        said = git_text("/", "apply", "--numstat", "-z", "-", stdin=patch.encode(errors="surrogateescape"))
    except ToolError as error:
        raise BadInput(f"the patch {patch!r:.60} is none that git can read: {error}") from None
    return tuple(dict.fromkeys(entry.split("\t", 2)[2] for entry in said.split("\0") if entry))


def load(path: str | os.PathLike) -> dict[str, Instance]:
    """All rows of a parquet or JSON-lines file by name, in their order; BadInput names the row and the field that is wrong."""
    if not isinstance(path, str | os.PathLike):
        raise BadInput(f"rows is {path!r}; it must be the path of the file of SWE-bench Verified's rows")
    file = Path(os.path.expanduser(os.path.expandvars(os.fspath(path))))
    if not file.is_file():
        wrong = "is no file" if file.exists() else "does not exist"
        raise BadInput(f"{os.fspath(path)!r} {wrong}; it must be the parquet or JSON-lines file of SWE-bench Verified's rows")
    rows = _parquet(file) if file.suffix == ".parquet" else _json_lines(file)
    found = {}
    for number, row in enumerate(rows, start=1):
        instance = _instance(row, f"{file}, row {number}")
        found[instance.name] = instance
    if not found:
        raise BadInput(f"{file} holds no rows")
    return found


def named(rows: Mapping[str, Instance], name: str) -> Instance:
    """The row of this name; BadInput with the nearest names, since a list of all would fill the screen."""
    scalar(str, name, "the name of an instance")
    if name not in rows:
        near = difflib.get_close_matches(name, rows, n=3) or list(rows)[:3]
        raise BadInput(f"unknown instance {name!r} (of the {len(rows)} there are, the nearest: {', '.join(near)})")
    return rows[name]


def _parquet(file: Path) -> list[Any]:
    require("pyarrow", "swebench")
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.read_table(file).to_pylist()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be read as parquet: {error}") from None


def _json_lines(file: Path) -> list[Any]:
    return [row for _, row in read_lines(file, "rows of SWE-bench in JSON lines, or in a .parquet file")]


def _instance(row: Any, where: str) -> Instance:
    if not isinstance(row, Mapping):
        raise BadInput(f"{where} is {type(row).__name__}; it must be an object with the fields of SWE-bench")
    for field in TEXT:
        if not isinstance(row.get(field), str):
            raise BadInput(f"{where}: the field {field!r} is {row.get(field)!r:.60}; it must be text")
    tests = {field: _names(row.get(field), f"{where}: the field {field!r}") for field in LISTS}
    if not tests["FAIL_TO_PASS"]:
        raise BadInput(f"{where}: FAIL_TO_PASS is empty, so that nothing would show a repair")
    return Instance(
        row["instance_id"],
        row["repo"],
        row["version"],
        row["base_commit"],
        row["created_at"],
        row["problem_statement"],
        row["patch"],
        row["test_patch"],
        tests["FAIL_TO_PASS"],
        tests["PASS_TO_PASS"],
    )


def _names(value: Any, where: str) -> tuple[str, ...]:
    """A list of tests, which the files hold as JSON inside a string."""
    try:
        names = from_json(value, where) if isinstance(value, str) else value
    except BadInput:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadInput(f"{where} is {value!r:.60}; it must be a list of tests")
    return tuple(names)
