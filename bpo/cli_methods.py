"""What `bpo methods` prints: the table of methods, one method's parameters, and what other packages have registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from bpo.methods.selection import NamedSelector
from bpo.methods.table import METHODS, OBJECTIVES, SELECTORS
from bpo.plugins import OWN, Registry
from bpo.printing import table
from bpo.sandboxes import SANDBOXES

REGISTRIES: tuple[Registry[Any], ...] = (METHODS, SELECTORS, OBJECTIVES, SANDBOXES)


def overview() -> list[Table | str]:
    """The table of all methods; below it the parts of other packages with where they come from, and those that do not work."""
    heads = ("method", "what it does", "gradient", "source", "how far it follows the source")
    rows = [(name, row.summary, row.bias, row.citation, row.fidelity) for name, row in METHODS.working().items()]
    others = [
        f"{registry.word} {name}: from {origin}" for registry in REGISTRIES for name, origin in registry.registered().items()
    ]
    problems = [problem for registry in REGISTRIES for problem in registry.problems()]
    return [table(heads, rows), *others, *problems]


def explained(method: str, given: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """The parameters of one method, with a column per entry of `given` (head -> values); its selectors, where it names one."""
    row = METHODS[method]
    head = f"{method}: {row.summary}" + ("" if METHODS.origin(method) == OWN else f" (from {METHODS.origin(method)})")
    rows = [
        (key, str(one.default), *(str(column[key]) for column in given.values()), one.meaning, one.allowed)
        for key, one in row.parameters.items()
    ]
    shown = table(("parameter", "default", *given, "meaning", "allowed"), rows, title=head)
    choices = [parameter.choices for parameter in row.parameters.values() if isinstance(parameter.choices, Mapping)]
    named = {name: part for parts in choices for name, part in parts.items() if isinstance(part, NamedSelector)}
    return [shown, _selectors(named)] if named else [shown]


def _selectors(named: Mapping[str, NamedSelector]) -> Table:
    rows = [
        (name, selector.meaning, f"{selector.value.meaning}: {selector.value.allowed}" if selector.value else "not read")
        for name, selector in named.items()
    ]
    return table(("selector", "where it branches", "selector_value"), rows, title="selectors")
