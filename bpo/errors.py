"""The one error that means "your input is wrong", so that every entry point can turn it into one sentence and exit code 2."""

from __future__ import annotations

import importlib.util
import math
import reprlib
from collections.abc import Iterable, Sequence
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


def require_text(where: str, value: Any) -> str:
    """Return `value` if it is text, else raise BadInput."""
    if not isinstance(value, str):
        raise BadInput(f"{where} is {shown(value)}; it must be text")
    return value


def counted(where: str, value: Any, low: int = 0) -> int:
    """Return `value` as an int if it is a whole number from `low`, of numpy's kinds too, else raise BadInput."""
    if hasattr(value, "item") and not isinstance(value, int):
        value = value.item() if getattr(value, "ndim", 0) == 0 else value
    at_least(where, scalar(int, value, where), low)
    return value


def at_least(where: str, value: float, low: float) -> None:
    """Raise BadInput naming `where` and the value if it is below `low`."""
    if not value >= low:
        raise BadInput(f"{where} is {shown(value)}; it must be at least {low!r}")


def at_most(where: str, value: float, high: float) -> None:
    """Raise BadInput naming `where` and the value if it is above `high`."""
    if not value <= high:
        raise BadInput(f"{where} is {shown(value)}; it must be at most {high!r}")


def named(value: Any) -> str:
    """What messages call an object: its class."""
    return f"the class {value.__name__} itself" if isinstance(value, type) else f"a {type(value).__name__}"


def instance(where: str, value: Any, kind: type, hint: str = "") -> Any:
    """`value` itself; BadInput where it is no `kind`, with a hint at what would be right."""
    if not isinstance(value, kind):
        raise BadInput(f"{where} is {named(value)}; it must be a {kind.__name__}{hint}")
    return value


def having(where: str, value: Any, names: Iterable[str], right: str) -> Any:
    """`value` itself; BadInput where it is a class, or lacks one of these attributes."""
    missing = [name for name in names if not hasattr(value, name)]
    if missing or isinstance(value, type):
        lack = f", which has no `{missing[0]}`" if missing else ""
        raise BadInput(f"{where} is {named(value)}{lack}; it must be {right}")
    return value


def listed(where: str, value: Any, right: str) -> list[Any]:
    """The entries of a list, tuple or array; BadInput where `value` is none, or a text."""
    if isinstance(value, str) or not (isinstance(value, Sequence) or getattr(value, "ndim", 0) > 0):
        raise BadInput(f"{where} is {shown(value) if isinstance(value, str) else named(value)}; it must be {right}")
    return list(value)


def require(module: str, extra: str) -> None:
    """Raise BadInput naming the pip command if `module`, which extra `extra` installs, is absent."""
    if importlib.util.find_spec(module) is None:
        raise BadInput(f"this needs the package {module!r}, which is not installed: pip install 'bpo[{extra}]'")
