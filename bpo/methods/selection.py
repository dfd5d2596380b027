"""A selector by name, and the parameters of a method that branches where a named selector says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bpo.errors import BadInput
from bpo.methods.record import Parameters
from bpo.param import Param
from bpo.select import Selector, Spacing


@dataclass(frozen=True)
class NamedSelector:
    """One selector that a configuration can name.

    causal  whether it decides while the path grows; else it looks at the finished backbone
    make    (spacing, selector_value) -> the selector; without a `value` it is given nan
    value   what `selector_value` means to it and which values make sense; None where it reads none
    """

    meaning: str
    causal: bool
    make: Callable[[Spacing, float], Selector]
    value: Param | None = None


SPACING = {
    "gap": Param(64, "least distance of two branch points on a path, in `unit`", low=0),
    "unit": Param("tokens", "what `gap` counts", choices=("steps", "tokens")),
    "floor": Param(0.0, "least entropy of a branch point, in nats", low=0.0),
}


def selector_of(selectors: Mapping[str, NamedSelector], p: Parameters) -> Selector:
    """The selector that the parameters name, a fresh one."""
    spacing = Spacing(gap=p["gap"], unit=p["unit"], floor=p["floor"])
    return selectors[p["selector"]].make(spacing, p.get("selector_value", float("nan")))


def check_selector_value(selectors: Mapping[str, NamedSelector], p: Parameters) -> None:
    """BadInput where `selector_value` is none that the selector can use."""
    wanted, value = selectors[p["selector"]].value, p["selector_value"]
    if wanted is None:
        return
    whole = isinstance(wanted.default, int) and value == int(value)
    try:
        wanted.checked(int(value) if whole else value, "selector_value")
    except BadInput:
        message = f"selector_value is {value!r}; for selector = {p['selector']} it must be {wanted.allowed} ({wanted.meaning})"
        raise BadInput(message) from None
