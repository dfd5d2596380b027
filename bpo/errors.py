"""The one error that means "your input is wrong", so that every entry point can turn it into one sentence and exit code 2."""

from __future__ import annotations

import importlib.util
import math
import reprlib
from collections.abc import Iterable
from typing import Any

# The kinds of plain values, in words.
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
# Of a value, so much is shown that it is known again.
_BRIEF = reprlib.Repr()
_BRIEF.maxstring, _BRIEF.maxlong, _BRIEF.maxother, _BRIEF.maxlevel = 100, 40, 100, 3


class BadInput(ValueError):
    """Input that cannot be used; the message names the file or field, the value, and what would be right."""


class ToolError(RuntimeError):
    """A program that we need, such as git or uv, is absent or has failed; the message is its own."""


def shown(value: Any) -> str:
    """A value as messages print it: Python's spelling, without control characters, cut short where it is long or deep."""
    try:
        return _BRIEF.repr(value)
    except ValueError:  # Python does not spell whole numbers of thousands of digits
        return "a whole number of thousands of digits"


def choose(kind: str, value: Any, allowed: Iterable[Any]) -> str:
    """Return `value` if it is one of `allowed`, else raise BadInput with the near misses and the full list."""
    import difflib

    names = [str(name) for name in allowed]
    if isinstance(value, str) and value in names:
        return value
    near = difflib.get_close_matches(value[:80], names, n=1) if isinstance(value, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise BadInput(f"unknown {kind} {shown(value)}{hint} (known: {', '.join(sorted(names))})")


def scalar(kind: type, value: Any, where: str, like: str = "") -> Any:
    """Return `value` as a bool, int, float or str; a whole number passes as a float, and a float must be finite.

    BadInput names `where`, the value and what would be right.
    """
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise BadInput(f"{where} is {shown(value)}; it must be a number that a computer's can hold{like}") from None
    if type(value) is not kind:
        raise BadInput(f"{where} is {shown(value)}; it must be {KINDS[kind]}{like}")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{where} is {value!r}; it must be a finite number{like}")
    return value


def at_least(where: str, value: float, low: float) -> None:
    """Raise BadInput naming `where` and the value if it is below `low`."""
    if not value >= low:
        raise BadInput(f"{where} is {shown(value)}; it must be at least {low!r}")


def at_most(where: str, value: float, high: float) -> None:
    """Raise BadInput naming `where` and the value if it is above `high`."""
    if not value <= high:
        raise BadInput(f"{where} is {shown(value)}; it must be at most {high!r}")


def require(module: str, extra: str) -> None:
    """Raise BadInput naming the pip command if `module`, which extra `extra` installs, is absent."""
    if importlib.util.find_spec(module) is None:
        raise BadInput(f"this needs the package {module!r}, which is not installed: pip install 'bpo[{extra}]'")
