"""The families: what each is for stands in its `meaning`. Their sizes were fixed before the first run whose result is shown.

Except where a family says otherwise an episode has HORIZON actions, there are WIDTH of them in every state, a state is the
sequence of actions so far, the policy begins uniform, and the return is 1 where the actions that count were right, else 0; with
probability NOISE an episode is judged the other way round, so that one return proves nothing. Which action is right depends on
the depth and on the action before, so a linear policy that sees those two can learn everything, and what it learns in one
state carries over to all that look like it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from bpo.lab.family import Family, Rules, listed

WIDTH, HORIZON = 3, 5
NOISE = 0.2
# A state below the root is gone on from at the price of one action.
FORK = 1.0

Path = tuple[int, ...]


def right(t: int, last: int) -> int:
    """The action that counts at depth t after the action `last` (0 at the root)."""
    return (last + t + 1) % WIDTH


def hits(path: Sequence[int]) -> list[bool]:
    """For every action of a path whether it was right."""
    return [action == right(t, path[t - 1] if t else 0) for t, action in enumerate(path)]


def leaning(action: int, share: float) -> list[float]:
    """Logits with which one action has the probability `share` and the others share the rest."""
    return [math.log(share) if a == action else math.log((1 - share) / (WIDTH - 1)) for a in range(WIDTH)]


def uniform(t: int, path: Path) -> list[float]:
    """No preference."""
    return [0.0] * WIDTH


def _last(path: Path) -> int:
    return path[-1] if path else 0


def _histories(success: Callable[[Path], bool], start: Callable[[int, Path], Sequence[float]] = uniform) -> Rules:
    """A state for every sequence of actions; `success` says of a finished one whether it should be judged 1."""
    return Rules(
        width=WIDTH,
        horizon=HORIZON,
        noise=NOISE,
        root=(),
        advance=lambda t, path, action: [((*path, action), 1.0)],
        success=lambda path, action: success((*path, action)),
        fortune=lambda path: 0.0,
        right=lambda t, path: right(t, _last(path)),
        start=start,
        feature=lambda t, path: (t, _last(path)),
        price=lambda t: 1.0,
        label=lambda path: "".join(map(str, path)),
    )


def late() -> Family:
    """The last action alone."""
    last = HORIZON - 1
    return listed("late", "only the last action decides", [last], _histories(lambda path: hits(path)[last]), FORK)


def early() -> Family:
    """The first action alone."""
    return listed("early", "only the first action decides", [0], _histories(lambda path: hits(path)[0]), FORK)


def two() -> Family:
    """An early and a late one."""
    steps = (1, HORIZON - 1)
    rules = _histories(lambda path: all(hits(path)[t] for t in steps))
    return listed("two", "two actions decide, the second and the last: both must be right", steps, rules, FORK)


def lock() -> Family:
    """All of them; the start knows each half of the time."""
    rules = _histories(lambda path: all(hits(path)), lambda t, path: leaning(right(t, _last(path)), 0.5))
    meaning = "every action must be right; the policy begins with a half for each right one"
    return listed("lock", meaning, range(HORIZON), rules, FORK)


def majority() -> Family:
    """Any three of five."""
    rules = _histories(lambda path: sum(hits(path)) > HORIZON / 2)
    return listed("majority", "more than half of the actions must be right, whichever", range(HORIZON), rules, FORK)


# The two fortunes are worth this and nothing, with equal chances.
FORTUNE = 2.0
# Fortune falls after this action.
FALLS = 1


def luck() -> Family:
    """The last action, after a fortune that nobody can influence and that weighs twice as much."""
    last = HORIZON - 1
    plain = _histories(lambda path: hits(path)[last])

    def advance(t: int, key: tuple[Path, float], action: int) -> list[tuple[tuple[Path, float], float]]:
        path, fortune = key
        falls = [(0.0, 0.5), (FORTUNE, 0.5)] if t == FALLS else [(fortune, 1.0)]
        return [(((*path, action), value), chance) for value, chance in falls]

    rules = replace(
        plain,
        root=((), 0.0),
        advance=advance,
        success=lambda key, action: plain.success(key[0], action),
        fortune=lambda key: key[1],
        right=lambda t, key: plain.right(t, key[0]),
        start=lambda t, key: plain.start(t, key[0]),
        feature=lambda t, key: plain.feature(t, key[0]),
        label=lambda key: f"{plain.label(key[0])}{'+' if key[1] else ''}",
    )
    meaning = f"only the last action decides, after a chance of a half of {FORTUNE:g} more that no action changes"
    return listed("luck", meaning, [last], rules, FORK)


# Where the decision lies in the two families about entropy, and how sure the policy is where it is sure.
DECISION, SURE = 3, 0.9


def informs() -> Family:
    """High entropy where it matters."""
    rules = _histories(
        lambda path: hits(path)[DECISION],
        lambda t, path: uniform(t, path) if t == DECISION else leaning(t % WIDTH, SURE),
    )
    meaning = f"only action {DECISION + 1} decides; there the policy begins uniform, elsewhere with {SURE:g} on one action"
    return listed("informs", meaning, [DECISION], rules, FORK)


def misleads() -> Family:
    """High entropy everywhere else; where it matters the policy is sure of something wrong."""
    rules = _histories(
        lambda path: hits(path)[DECISION],
        lambda t, path: leaning((right(t, _last(path)) + 1) % WIDTH, 0.8) if t == DECISION else uniform(t, path),
    )
    meaning = f"only action {DECISION + 1} decides; there the policy begins with 0.8 on a wrong action, elsewhere uniform"
    return listed("misleads", meaning, [DECISION], rules, FORK)


# Routine steps before the decision, what one of them costs, and how sure the policy is of each.
ROUTINE, CHEAP, ROUTINE_SURE = 8, 0.1, 0.98


def prefix() -> Family:
    """Routine first: steps that lead on whatever is done, cheap and nearly certain, then three actions of which two decide."""
    horizon = ROUTINE + 3
    steps = (horizon - 2, horizon - 1)

    def decided(path: Path) -> bool:
        return all(path[t - ROUTINE] == right(t, path[t - ROUTINE - 1]) for t in steps)

    plain = _histories(decided)
    rules = replace(
        plain,
        horizon=horizon,
        advance=lambda t, path, action: [((*path, action) if t >= ROUTINE else (), 1.0)],
        start=lambda t, path: leaning(0, ROUTINE_SURE) if t < ROUTINE else uniform(t, path),
        price=lambda t: CHEAP if t < ROUTINE else 1.0,
    )
    meaning = f"{ROUTINE} routine steps at a tenth of the price, nearly certain, then three actions; the last two decide"
    return listed("prefix", meaning, steps, rules, FORK)


def shared() -> Family:
    """`majority` with histories merged: a state is the depth, the number of right actions, and the last action."""
    plain = _histories(lambda path: False)
    rules = replace(
        plain,
        root=(0, 0),
        advance=lambda t, key, action: [((key[0] + (action == right(t, key[1])), action), 1.0)],
        success=lambda key, action: key[0] + (action == right(HORIZON - 1, key[1])) > HORIZON / 2,
        right=lambda t, key: right(t, key[1]),
        start=lambda t, key: [0.0] * WIDTH,
        feature=lambda t, key: (t, key[1]),
        label=lambda key: f"{key[0]} right, last {key[1]}",
    )
    meaning = "as majority, but histories with equally many right actions and the same last one are one state"
    return listed("shared", meaning, range(HORIZON), rules, FORK)


@dataclass(frozen=True)
class Decision:
    """A family of the map: one action of a binary tree decides, with or without a fortune that falls after the first one.

    depth, horizon  of the decision and of an episode, in actions
    """

    depth: int
    horizon: int
    lucky: bool

    @property
    def name(self) -> str:
        return f"depth {self.depth} of {self.horizon}{' after luck' if self.lucky else ''}"


@cache
def decision(one: Decision) -> Family:
    """The family of a place of the map; the right action is the one that was not taken last."""
    rules = Rules(
        width=2,
        horizon=one.horizon,
        noise=NOISE,
        root=((), 0.0),
        advance=lambda t, key, action: [
            (((*key[0], action), fortune), chance)
            for fortune, chance in ([(0.0, 0.5), (FORTUNE, 0.5)] if one.lucky and t == 0 else [(key[1], 1.0)])
        ],
        success=lambda key, action: _turns((*key[0], action), one.depth),
        fortune=lambda key: key[1],
        right=lambda t, key: 1 - _last(key[0]),
        start=lambda t, key: [0.0, 0.0],
        feature=lambda t, key: (t, _last(key[0])),
        price=lambda t: 1.0,
        label=lambda key: f"{''.join(map(str, key[0]))}{'+' if key[1] else ''}",
    )
    meaning = f"only action {one.depth + 1} of {one.horizon} decides{', after luck' if one.lucky else ''}"
    return listed(one.name, meaning, [one.depth], rules, FORK)


def _turns(path: Path, depth: int) -> bool:
    return path[depth] != (path[depth - 1] if depth else 0)


FAMILIES: dict[str, Callable[[], Family]] = {
    one.__name__: cache(one) for one in (late, early, two, lock, majority, luck, informs, misleads, prefix, shared)
}
