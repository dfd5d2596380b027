"""Display names of objects: `cabinet_bar__minus_01_dot_29...` is shown as `cabinet 3`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Entity:
    """An object as the grammar's expressions see it."""

    id: str
    name: str
    definite: str = "the"
    indefinite: str = "a"

    def __str__(self) -> str:
        return self.name


def display_names(ids: Iterable[str]) -> dict[str, Entity]:
    """Name every object as ALFWorld does: kinds are numbered from the last id in sorted order down to 1.

    A basin's id starts with the kind of its parent (`sink_bar_..._bar_sinkbasin`) and is shown as `sinkbasin 1`. An id without
    a position keeps its name, with the trailing space that ALFWorld gives it.
    """
    ids = sorted(ids)
    kinds = {name: _kind(name) for name in ids}
    left = Counter(kind for name, kind in kinds.items() if "_bar_" in name)
    entities = {}
    for name in ids:
        if "_bar_" in name:
            entities[name] = Entity(name, f"{kinds[name]} {left[kinds[name]]}")
            left[kinds[name]] -= 1
        else:
            entities[name] = Entity(name, f"{kinds[name]} ")
    return entities


def _kind(name: str) -> str:
    if "_bar_" in name:
        return name.split("_bar_", 1)[0] + ("basin" if "basin" in name else "")
    for code, sign in (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ",")):
        name = name.replace(code, sign)
    return name
