"""What `bpo methods` prints: the table of methods, one method's parameters, and what other packages have registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from bpo.methods.selection import NamedSelector
from bpo.methods.table import METHODS, OBJECTIVES, SELECTORS
from bpo.plugins import OWN, Registry
from bpo.sandboxes import SANDBOXES

REGISTRIES: tuple[Registry[Any], ...] = (METHODS, SELECTORS, OBJECTIVES, SANDBOXES)


def overview() -> list[Table | str]:
    """The table of all methods; below it the parts of other packages with where they come from, and those that do not work."""
    table = Table("method", "what it does", "gradient", "source", "how far it follows the source", show_lines=True)
    for name, row in METHODS.working().items():
        table.add_row(*map(escape, (name, row.summary, row.bias, row.citation, row.fidelity)))
    others = [
        f"{registry.word} {name}: from {origin}" for registry in REGISTRIES for name, origin in registry.registered().items()
    ]
    problems = [problem for registry in REGISTRIES for problem in registry.problems()]
    return [table, *others, *problems]


def explained(method: str, given: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """The parameters of one method, with a column per entry of `given` (head -> values); its selectors, where it names one."""
    row = METHODS[method]
    head = f"{method}: {row.summary}" + ("" if METHODS.origin(method) == OWN else f" (from {METHODS.origin(method)})")
    table = Table("parameter", "default", *given, "meaning", "allowed", title=escape(head), show_lines=True)
    for key, parameter in row.parameters.items():
        values = (str(parameter.default), *(str(column[key]) for column in given.values()))
        table.add_row(*map(escape, (key, *values, parameter.meaning, parameter.allowed)))
    choices = [parameter.choices for parameter in row.parameters.values() if isinstance(parameter.choices, Mapping)]
    named = {name: part for parts in choices for name, part in parts.items() if isinstance(part, NamedSelector)}
    return [table, _selectors(named)] if named else [table]


def _selectors(named: Mapping[str, NamedSelector]) -> Table:
    table = Table("selector", "where it branches", "selector_value", title="selectors", show_lines=True)
    for name, selector in named.items():
        value = selector.value
        table.add_row(*map(escape, (name, selector.meaning, f"{value.meaning}: {value.allowed}" if value else "not read")))
    return table
