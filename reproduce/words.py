"""Numbers and names as words: shares in percent, intervals, lists of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reproduce.plan import START

Row = Mapping[str, Any]
NONE = "–"


def trained(table: Mapping[str, Any]) -> list[Row]:
    """All rows but the warm start."""
    return [row for row in table["rows"] if row["label"] != START]


def listed(rows: Sequence[Row]) -> str:
    """Labels, or "none"."""
    return ", ".join(row["label"] for row in rows) or "none"


def short(split: str) -> str:
    """seen or unseen, for the splits named like ALFWorld's; their games are other games."""
    return split.removeprefix("valid_")


def spread(value: Mapping[str, float | None], signed: bool = False) -> str:
    """A share with its interval where it has one, in percent."""
    form = "+.1f" if signed else ".1f"
    if value["low"] is None:
        return f"{100 * value['value']:{form}}"
    return f"{100 * value['value']:{form}} [{100 * value['low']:{form}}, {100 * value['high']:{form}}]"


def ratio(value: Mapping[str, float | None]) -> str:
    """A number with its interval, where it has one."""
    if value["low"] is None:
        return number(value["value"], ".2f")
    return f"{number(value['value'], '.2f')} [{number(value['low'], '.2f')}, {number(value['high'], '.2f')}]"


def percent(value: float) -> str:
    """A share in percent, one decimal."""
    return f"{100 * value:.1f}"


def share(value: float | None) -> str:
    """A share in whole percent."""
    return NONE if value is None else f"{100 * value:.0f} %"


def number(value: float | None, form: str, none: str = NONE) -> str:
    """A formatted number, or a word where there is none."""
    return none if value is None else format(value, form)


def plural(count: int, noun: str) -> str:
    """ "1 seed", "3 seeds"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
