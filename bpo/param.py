"""One named value that a configuration may set: its default, its kind, what it means, and what would make sense."""

from __future__ import annotations

import os
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpo.errors import KINDS, BadInput, at_least, at_most, scalar, shown

# The default of a value that has none: it must be given.
REQUIRED = ...
# The largest whole number of a parameter that says nothing else; what is above is a slip of the hand.
MOST = 1_000_000


@dataclass(frozen=True)
class Param:
    """A parameter of a method or an option of a sandbox.

    default    None: unset has a meaning of its own, which `meaning` tells; REQUIRED: there is no default
    kind       bool, int, float, str, Path, list[...] of these, or dict; left out, it is the type of the default
    low, high  smallest and largest number that make sense
    choices    the words it may be; a mapping of named parts where it names one
    later      runs were named before there was this parameter: at its default a run has the name that it had without it
    """

    default: Any
    meaning: str
    low: float | None = None
    high: float | None = None
    choices: Collection[str] | None = None
    kind: Any = None
    later: bool = False

    def __post_init__(self) -> None:
        if self.kind is None:
            object.__setattr__(self, "kind", type(self.default))

    @property
    def allowed(self) -> str:
        """The values that make sense, in words."""
        if self.choices is not None:
            return ", ".join(self.choices)
        if self.low is not None and self.high is not None:
            return f"{_words(self.kind)} between {self.low:g} and {self.high:g}"
        bounds = (("at least", self.low), ("at most", self.high))
        return ", ".join([_words(self.kind), *(f"{word} {bound:g}" for word, bound in bounds if bound is not None)])

    def checked(self, value: Any, where: str) -> Any:
        """`value` as this kind; BadInput names `where`, the value and what would be right."""
        if value is None and self.default is None:
            return None
        value = _of_kind(self.kind, value, where, "" if self.default in (None, REQUIRED) else f", like {self.default!r}")
        if self.choices is not None and value not in self.choices:
            raise BadInput(f"{where} is {shown(value)}; it must be one of {self.allowed}")
        if self.low is not None:
            at_least(where, value, self.low)
        high = MOST if self.high is None and self.kind is int else self.high
        if high is not None:
            at_most(where, value, high)
        return value


def _of_kind(kind: Any, value: Any, where: str, like: str) -> Any:
    if kind in KINDS:
        return scalar(kind, value, where, like)
    if typing.get_origin(kind) is list:
        if isinstance(value, list | tuple):
            return [_of_kind(typing.get_args(kind)[0], item, f"{where}[{i}]", "") for i, item in enumerate(value)]
    elif isinstance(value, str | os.PathLike if kind is Path else Mapping):
        return value
    raise BadInput(f"{where} is {shown(value)}; it must be {_words(kind)}")


def _words(kind: Any) -> str:
    if typing.get_origin(kind) is list:
        return f"a list, each {_words(typing.get_args(kind)[0])}"
    return KINDS[kind] if kind in KINDS else {Path: "a path", dict: "a mapping of names to values"}[kind]
