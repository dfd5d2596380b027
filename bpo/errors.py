"""The one error that means "your input is wrong", so that every entry point can turn it into one sentence and exit code 2."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from typing import Any

# The kinds of plain values, in words.
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


class BadInput(ValueError):
    """Input that cannot be used; the message names the file or field, the value, and what would be right."""


class ToolError(RuntimeError):
    """A program that we need, such as git or uv, is absent or has failed; the message is its own."""


def choose(kind: str, value: str, allowed: Iterable[Any]) -> str:
    """Return `value` if it is one of `allowed`, else raise BadInput with the near misses and the full list."""
    import difflib

    names = [str(name) for name in allowed]
    if value in names:
        return value
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise BadInput(f"unknown {kind} {value!r}{hint} (known: {', '.join(sorted(names))})")


def scalar(kind: type, value: Any, where: str, like: str = "") -> Any:
    """Return `value` as a bool, int, float or str; a whole number passes as a float.

    BadInput names `where`, the value and what would be right.
    """
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        number = kind is float and isinstance(value, str) and re.fullmatch(r"[-+]?\d+e[-+]?\d+", value)
        hint = f" (YAML reads {value} as text: write {value.replace('e', '.0e')})" if number else ""
        raise BadInput(f"{where} is {value!r}; it must be {KINDS[kind]}{like}{hint}")
    return value


def at_least(where: str, value: float, low: float) -> None:
    """Raise BadInput naming `where` and the value if it is below `low`."""
    if value < low:
        raise BadInput(f"{where} is {value!r}; it must be at least {low!r}")


def require(module: str, extra: str) -> None:
    """Raise BadInput naming the pip command if `module`, which extra `extra` installs, is absent."""
    if importlib.util.find_spec(module) is None:
        raise BadInput(f"this needs the package {module!r}, which is not installed: pip install 'bpo[{extra}]'")
