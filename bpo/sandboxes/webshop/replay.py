"""Recorded sessions against the sandbox: every observation, clickable, reward and done flag must be equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from bpo.errors import BadInput, shown
from bpo.reading import STRICT, read_json, typed
from bpo.sandboxes.webshop.sandbox import WebShop


@dataclass(frozen=True)
class _Available:
    has_search_bar: bool
    clickables: list[str]


@dataclass(frozen=True)
class _Step:
    action: str
    avail: _Available
    obs: str
    reward: float
    done: bool


@dataclass(frozen=True)
class _Trace:
    """A recorded episode; what else it holds is not read."""

    __pydantic_config__: ClassVar = {**STRICT, "extra": "ignore"}

    goal: Annotated[int, Ge(0)]
    obs0: str
    steps: list[_Step]


@dataclass(frozen=True)
class Replay:
    """Steps compared, and a sentence for every step with a difference."""

    steps: int
    mismatches: tuple[str, ...]


def read_traces(path: Path) -> list[Mapping[str, Any]]:
    """The episodes of a trace file (JSON, gzipped or not): {goal, obs0, steps: [{action, avail, obs, reward, done}]}."""
    traces = read_json(path, "a file with recorded sessions (JSON, gzipped or not)")
    if not isinstance(traces, list):
        raise BadInput(f"{path} is {shown(traces)}; it must hold a list of episodes with the fields goal, obs0 and steps")
    typed(list[_Trace], traces, str(path))
    if not any(trace["steps"] for trace in traces):
        raise BadInput(f"{path} holds no steps, so there is nothing to compare")
    return traces


def replay(sandbox: WebShop, traces: Sequence[Mapping[str, Any]]) -> Replay:
    """Play the recorded actions and compare, the first difference of every step; an episode goes on after it.

    The sandbox's step limit must be longer than any episode: recorded flags know the shop's own end alone.
    """
    steps, found = 0, []
    for number, trace in enumerate(traces):
        where = f"episode {number} (goal {trace['goal']})"
        first = sandbox.reset(f"goal/{trace['goal']}")
        if first.text != trace["obs0"]:
            found.append(_difference(f"{where}, start: observation", first.text, trace["obs0"]))
        for place, step in enumerate(trace["steps"], start=1):
            steps += 1
            ours = _played(sandbox, step["action"])
            wrong = next((name for name in ours if ours[name] != step[name]), None)
            if wrong:
                at = f"{where}, step {place} {step['action']!r}: {wrong}"
                found.append(_difference(at, ours[wrong], step[wrong]))
            if sandbox.done:
                break
    return Replay(steps, tuple(found))


def _played(sandbox: WebShop, action: str) -> dict[str, Any]:
    """One step in the words of a trace; what was available is as before the action."""
    clickables = list(sandbox.shop.clickables(sandbox.state))
    avail = {"has_search_bar": sandbox.state.page == "index", "clickables": clickables}
    outcome = sandbox.step(action)
    return {"avail": avail, "obs": outcome.observation.text, "reward": outcome.info["score"], "done": outcome.done}


def _difference(where: str, ours: Any, recorded: Any) -> str:
    """Where two values part, with a little of both around that place."""
    a, b = str(ours), str(recorded)
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, at - 40)
    return f"{where} is ...{a[start : at + 60]!r}, recorded ...{b[start : at + 60]!r}"
