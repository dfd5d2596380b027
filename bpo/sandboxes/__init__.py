"""The sandboxes by name; each is imported when it is made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bpo.errors import BadInput, choose
from bpo.sandbox import Sandbox


def _codefix(**options: Any) -> Sandbox:
    from bpo.sandboxes.codefix import CodeFix

    return CodeFix(**options)


def _household(**options: Any) -> Sandbox:
    from bpo.sandboxes.household import Household

    return Household(**options)


def _toy(**options: Any) -> Sandbox:
    from bpo.sandboxes.toy import ToyTree

    return ToyTree(**options)


def _shell(**options: Any) -> Sandbox:
    from bpo.sandboxes.shell import Shell

    return Shell(**options)


def _swebench(**options: Any) -> Sandbox:
    from bpo.sandboxes.swebench import SweBench

    return SweBench(**options)


def _webshop(**options: Any) -> Sandbox:
    from bpo.sandboxes.webshop import WebShop

    return WebShop(**options)


def _stock_household(**options: Any) -> Sandbox:
    from bpo.sandboxes.household.stock import StockHousehold

    return StockHousehold(**options)


SANDBOXES: dict[str, Callable[..., Sandbox]] = {
    "codefix": _codefix,
    "household": _household,
    "shell": _shell,
    "swebench": _swebench,
    "toy": _toy,
    "webshop": _webshop,
}
OPTIONS = {
    "codefix": ("data", "difficulty", "actions", "choices", "visible", "max_steps", "tier", "allow_unsafe"),
    "household": ("difficulty", "data", "max_steps"),
    "shell": (
        "tree",
        "instruction",
        "check",
        "commands",
        "max_steps",
        "readable",
        "tier",
        "limits",
        "stateful",
        "allow_unsafe",
        "image",
    ),
    "swebench": ("rows", "repos", "instances", "fenced", "max_steps", "seconds", "test_seconds", "tier"),
    "toy": ("returns", "width"),
    "webshop": ("data", "size", "goals", "splits", "observation", "protocol", "max_steps", "page_size", "queries"),
}


def demonstration(name: str) -> Callable[[Any, int], Sequence[str]]:
    """What plays a sandbox for a warm start: (game, seed) -> winning actions; BadInput for a sandbox without such."""
    if name == "household":
        from bpo.sandboxes.household import demonstration as play
    elif name == "codefix":
        from bpo.sandboxes.codefix import demonstration as play
    elif name == "webshop":
        from bpo.sandboxes.webshop import demonstration as play
    else:
        raise BadInput(f"the sandbox {name!r} has no demonstrations, so its policy cannot be warm-started")
    return play


def factory(name: str, options: Mapping[str, Any] | None = None) -> Callable[[], Sandbox]:
    """A function that makes sandboxes `name` with these options; BadInput names an unknown sandbox or option."""
    maker = SANDBOXES[choose("sandbox", name, SANDBOXES)]
    for key in options or {}:
        choose(f"option of sandbox {name}", key, OPTIONS[name])
    if name == "toy" and not (options or {}).get("returns"):
        raise BadInput("the toy sandbox needs the option returns, a list with one number per leaf")
    return lambda: maker(**(options or {}))


def fork_check(
    name: str, games: int, steps: int, data: str | None
) -> tuple[Callable[[], Sandbox], Callable[[], Sandbox], list[str]]:
    """What `bpo check-fork` walks in: the sandbox, the reference that replays its paths, and the tasks.

    household is replayed on the stock engine, in rooms of full size or in official games of valid_seen; the others are
    replayed by themselves, from the start. The step limit is raised so that random walks are not cut short.
    """
    # A walk at random in swebench would need a language that it draws commands from; its forks are those of shell.
    choose("sandbox to walk in", name, [other for other in SANDBOXES if other != "swebench"])
    if data is not None and "data" not in OPTIONS[name]:
        raise BadInput(f"--data {data!r}: the sandbox {name!r} reads no data")
    if name == "toy":
        make = factory(name, {"returns": [float(i % 3 == 0) for i in range(2**10)]})
        return make, make, list(make().tasks("train"))
    options = {"max_steps": max(50, 2 * steps), **({"data": data} if data else {})}
    if name == "shell":
        make = factory(name, options)
        # One tree, walked in anew for every game.
        return make, make, ["tree"] * games
    if name == "codefix" and data is not None:
        raise BadInput("check-fork plays listed actions, and for programs of a collection none are listed: leave --data out")
    if name in ("codefix", "webshop"):
        make = factory(name, options)
        with contextlib.closing(make()) as probe:
            return make, make, list(probe.tasks("train"))
    options |= {} if data else {"difficulty": "full"}
    make = factory(name, options)
    probe = make()
    tasks = probe.tasks("valid_seen" if data else "train")
    probe.close()
    return make, lambda: _stock_household(**options), list(tasks if data else tasks[:games])
