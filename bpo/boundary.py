"""What a program of somebody else's gives us, checked where it is taken: sandboxes, policies and plans in one sentence each.

A sandbox of one's own is most often written wrong in the same few places. Each check costs about a microsecond, so that every
step is checked; none changes a value.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bpo.errors import BadInput, having, listed, named, shown
from bpo.finite import NotFinite
from bpo.sandbox import Observation, Outcome

# Steps of a path after which an episode counts as one that never ends, for sandboxes that say nothing else. The longest
# episodes of the field have some hundred.
MOST_STEPS = 10_000
# What is asked of a sandbox that only plays, of a policy while trees grow, and of a growth.
PLAYED = ("reset", "step", "close")
POLICY = ("begin", "extend", "act", "context_size", "evict_except")
PLANNED = ("plan", "trees", "planned_returns", "causal")
SANDBOX = ("reset", "step", "snapshot", "restore", "state_key")


def key_of_streams(key: Any) -> list[int]:
    """The integers from which random streams are spawned, each a whole number from 0."""
    right = "a list of whole numbers from 0, like (seed, iteration)"
    if isinstance(key, str) or not isinstance(key, Sequence | np.ndarray):
        raise BadInput(f"key is {shown(key)}; it must be {right}")
    for place, part in enumerate(key):
        if isinstance(part, bool) or not isinstance(part, int | np.integer) or part < 0:
            raise BadInput(f"key[{place}] is {shown(part)}; key must be {right}")
    return [int(part) for part in key]


def task_ids(tasks: Any) -> list[str]:
    """The task ids of a call, as a list of texts."""
    found = listed("tasks", tasks, "a list of task ids, like sandbox.tasks('train')[:4]")
    for place, task in enumerate(found):
        if not isinstance(task, str):
            raise BadInput(f"tasks[{place}] is {shown(task)}; it must be a task id, which is text")
    return found


def sandboxes_to_grow_in(sandboxes: Any) -> list[Any]:
    """The sandboxes of a call of `grow`: one at least, each another."""
    right = "a list of sandboxes, one for each tree that grows at once"
    found = listed("sandboxes", sandboxes, right)
    if not found:
        raise BadInput("grow is given no sandboxes; it needs one at least, and grows as many trees at once as there are")
    for place, one in enumerate(found):
        having(f"sandboxes[{place}]", one, SANDBOX, "a sandbox (see bpo.sandbox)")
        if any(one is other for other in found[:place]):
            raise BadInput(f"sandboxes[{place}] is there twice; every tree grows in a sandbox of its own: make one for each")
    return found


def made(where: str, make: Any, names: Iterable[str] = SANDBOX) -> Any:
    """The sandbox that a function of no arguments makes."""
    if not callable(make):
        raise BadInput(f"{where} is {named(make)}; it must make a sandbox when it is called without arguments")
    try:
        inspect.signature(make).bind()
    except ValueError:
        pass  # a function that is not written in Python may tell nothing of itself
    except TypeError as error:
        raise BadInput(f"{where} must make a sandbox when it is called without arguments: {error}") from None
    return having(f"what {where} makes", make(), names, "a sandbox (see bpo.sandbox)")


def tasks_of(sandbox: Any, split: str) -> Sequence[str]:
    """The task ids of a split as the sandbox gives them."""
    found = sandbox.tasks(split)
    if isinstance(found, str) or not (hasattr(found, "__len__") and hasattr(found, "__getitem__")):
        raise BadInput(f"{_of(sandbox)}: tasks({split!r}) gives {shown(found)}; it must be a list of task ids")
    return found


def observation_of(sandbox: Any, call: str, value: Any, ended: bool = False) -> Observation:
    """What `reset` or `restore` gave, or an outcome holds; `ended`: whether no action need be possible any more."""
    if not isinstance(value, Observation):
        raise BadInput(f"{_of(sandbox)}: {call} gives {_given(value)}; it must be an Observation")
    actions = value.actions
    if not isinstance(value.text, str):
        raise BadInput(f"{_of(sandbox)}: {call} gives the text {shown(value.text)}; it must be text")
    if actions is None:
        return value
    if isinstance(actions, str) or not isinstance(actions, Sequence):
        raise BadInput(
            f"{_of(sandbox)}: {call} gives the actions {shown(actions)}; they must be a tuple of texts, or None for any text"
        )
    for action in actions:
        if not isinstance(action, str):
            raise BadInput(f"{_of(sandbox)}: {call} lists the action {shown(action)}; an action must be text")
    if not actions and not ended:
        raise BadInput(
            f"{_of(sandbox)}: {call} lists no actions though the episode goes on; list one at least, give None where any text "
            "is allowed, or end the episode with done = True"
        )
    return value


def outcome_of(sandbox: Any, action: str, value: Any) -> Outcome:
    """What `step` gave: an outcome with a finite reward."""
    # Spelled only where something is wrong.
    if not isinstance(value, Outcome):
        raise BadInput(f"{_of(sandbox)}: step({shown(action)}) gives {_given(value)}; it must be an Outcome")
    if not isinstance(value.done, bool | np.bool_):
        raise BadInput(f"{_of(sandbox)}: step({shown(action)}) gives done = {shown(value.done)}; it must be true or false")
    reward = value.reward
    try:
        finite = not isinstance(reward, str) and math.isfinite(reward)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        finite = False
    if not finite:
        raise NotFinite(f"{_of(sandbox)}: step({shown(action)}) gives the reward {shown(reward)}; it must be a finite number")
    if not hasattr(value.info, "keys"):
        raise BadInput(f"{_of(sandbox)}: step({shown(action)}) gives info = {shown(value.info)}; it must be a mapping of facts")
    observation_of(sandbox, "step", value.observation, bool(value.done))
    return value


def key_of_state(sandbox: Any) -> Any:
    """What `state_key` gave, which must be hashable."""
    key = sandbox.state_key()
    try:
        hash(key)
    except TypeError:
        raise BadInput(f"{_of(sandbox)}: state_key gives {shown(key)}; it must be hashable, like a tuple") from None
    return key


def forks_of(sandbox: Any, count: int) -> list[Any]:
    """`count` forks of a sandbox."""
    forks = sandbox.fork(count)
    if isinstance(forks, str) or not isinstance(forks, Sequence) or len(forks) != count:
        given = f"{len(forks)} sandboxes" if isinstance(forks, list | tuple) else _given(forks)
        raise BadInput(f"{_of(sandbox)}: fork({count}) gives {given}; it must be a list of {count}")
    return list(forks)


def steps_allowed(sandbox: Any) -> float:
    """Steps after which an episode of this sandbox counts as endless: MOST_STEPS, or its own `max_steps` where that is more."""
    own = getattr(sandbox, "max_steps", None)
    return max(own, MOST_STEPS) if isinstance(own, int | float) else MOST_STEPS


def require_end(sandbox: Any, task: str, steps: int, allowed: float) -> None:
    """BadInput where a path has had as many steps as its sandbox allows, and has not ended."""
    if steps >= allowed:
        raise BadInput(
            f"{_of(sandbox)}: task {shown(task)} has not ended after {steps:,} steps; end episodes with done = True at a step "
            "limit, or, where they are that long, say so in the sandbox's attribute max_steps"
        )


def _of(sandbox: Any) -> str:
    return f"the sandbox {type(sandbox).__name__}"


def _given(value: Any) -> str:
    return "nothing (None)" if value is None else named(value)
