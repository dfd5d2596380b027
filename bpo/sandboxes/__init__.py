"""The sandboxes by name; each is imported when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bpo.errors import BadInput, choose
from bpo.sandbox import Sandbox


def _household(**options: Any) -> Sandbox:
    from bpo.sandboxes.household import Household

    return Household(**options)


def _toy(**options: Any) -> Sandbox:
    from bpo.sandboxes.toy import ToyTree

    return ToyTree(**options)


SANDBOXES: dict[str, Callable[..., Sandbox]] = {"household": _household, "toy": _toy}
OPTIONS = {"household": ("difficulty", "data", "max_steps"), "toy": ("returns", "width")}


def factory(name: str, options: Mapping[str, Any] | None = None) -> Callable[[], Sandbox]:
    """A function that makes sandboxes `name` with these options; BadInput names an unknown sandbox or option."""
    maker = SANDBOXES[choose("sandbox", name, SANDBOXES)]
    for key in options or {}:
        choose(f"option of sandbox {name}", key, OPTIONS[name])
    if name == "toy" and not (options or {}).get("returns"):
        raise BadInput("the toy sandbox needs the option returns, a list with one number per leaf")
    return lambda: maker(**(options or {}))
