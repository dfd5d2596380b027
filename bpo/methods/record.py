"""What a row of the table of methods is made of, and what a row becomes once its parameters are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bpo.credit import CreditRule
from bpo.errors import KINDS, BadInput, at_least, scalar
from bpo.objective import Loss
from bpo.rollout import Growth

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Param:
    """One parameter: its default, whose type is its kind, what it means, and which values make sense.

    low, high  smallest and largest number that make sense
    choices    the words it may be; a mapping of named parts where it names one
    """

    default: bool | int | float | str
    meaning: str
    low: float | None = None
    high: float | None = None
    choices: Collection[str] | None = None

    @property
    def allowed(self) -> str:
        """The values that make sense, in words."""
        if self.choices is not None:
            return ", ".join(self.choices)
        kind = KINDS[type(self.default)]
        if self.low is not None and self.high is not None:
            return f"{kind} between {self.low:g} and {self.high:g}"
        bounds = (("at least", self.low), ("at most", self.high))
        return ", ".join([kind, *(f"{word} {bound:g}" for word, bound in bounds if bound is not None)])

    def checked(self, value: Any, where: str) -> Any:
        """`value` as this parameter's kind; BadInput names `where`, the value and what would be right."""
        value = scalar(type(self.default), value, where, f", like {self.default!r}")
        if self.choices is not None and value not in self.choices:
            raise BadInput(f"{where} is {value!r}; it must be one of {self.allowed}")
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput(f"{where} is {value!r}; it must be a finite number")
        if self.low is not None:
            at_least(where, value, self.low)
        if self.high is not None and value > self.high:
            raise BadInput(f"{where} is {value!r}; it must be at most {self.high!r}")
        return value


def no_check(parameters: Parameters) -> None:
    """For rows all of whose combinations of parameters make sense."""


@dataclass(frozen=True)
class Method:
    """One row of the table.

    parameters  every parameter; no others are accepted
    growth      parameters -> Growth: where the tree grows
    credit      parameters -> credit rule: who gets credit
    objective   parameters -> loss (see objective.py): how the policy moves; clip and KL weight belong to the run, so that
                methods share them
    citation    where the method comes from
    fidelity    how far this follows its source, and what is our own reading
    bias        whether the gradient estimate is unbiased for grad J (at ratio 1 and without KL), and if not why
    check       parameters -> None: refuses combinations that make no sense, by a BadInput that begins with a parameter's name
    """

    summary: str
    parameters: Mapping[str, Param]
    growth: Callable[[Parameters], Growth]
    credit: Callable[[Parameters], CreditRule]
    objective: Callable[[Parameters], Loss]
    citation: str
    fidelity: str
    bias: str
    check: Callable[[Parameters], None] = no_check

    @property
    def defaults(self) -> dict[str, Any]:
        """Every parameter with its default."""
        return {name: parameter.default for name, parameter in self.parameters.items()}


@dataclass(frozen=True)
class BuiltMethod:
    """A method with its parameters filled in: what the training loop runs."""

    name: str
    parameters: Parameters
    growth: Growth
    credit: CreditRule
    objective: Loss
