"""What must happen in a run for its method to be itself: counted in every update, so that a method that never acted is seen.

A clip that never bounds a token, a rule for flat tasks where none was flat, a fork that was never made: such a run is one of
another method, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bpo.credit import Credit
from bpo.tree import ROOT, Tree

# Column of a row of metrics.
FIRED = "fired"


@dataclass(frozen=True)
class Seen:
    """What is known of an update once it is over.

    asked    tasks that the update was given, in order
    trees, credits   what was trained on
    facts    what the learner said
    """

    asked: Sequence[str]
    trees: Sequence[Tree]
    credits: Sequence[Credit]
    facts: Mapping[str, float]


@dataclass(frozen=True)
class Mechanism:
    """Something that a method must do: what is counted, and how often it happened in an update."""

    meaning: str
    count: Callable[[Seen], float]


def fact(name: str, meaning: str) -> Mechanism:
    """A mechanism that the objective or the learner counts itself, under `name`."""
    return Mechanism(meaning, partial(_fact, name))


def fired(mechanisms: Mapping[str, Mechanism], seen: Seen) -> dict[str, float]:
    """How often each mechanism fired in an update."""
    return {name: float(one.count(seen)) for name, one in mechanisms.items()}


def inactive(mechanisms: Mapping[str, Mechanism], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the mechanisms that fired in no update of a run, given its rows of metrics."""
    return [name for name in mechanisms if not any(row.get(FIRED, {}).get(name) for row in rows)]


def _fact(name: str, seen: Seen) -> float:
    return seen.facts.get(name, 0.0)


def _contrast(seen: Seen) -> float:
    return sum(bool((credit.has_signal & (credit.advantage != 0)).any()) for credit in seen.credits)


def _forks(seen: Seen) -> float:
    return sum(point != ROOT for tree in seen.trees for point in tree.branch_points)


def _values(seen: Seen) -> float:
    return sum(len(begun) > 0 for tree in seen.trees for begun in tree.auxiliary_children)


def _replaced(seen: Seen) -> float:
    return len({tree.task for tree in seen.trees} - set(seen.asked))


CONTRAST = Mechanism("trees with an advantage that is not zero", _contrast)
FORKS = Mechanism("branch points below the root", _forks)
REPLACED = Mechanism("tasks that took the place of one that was set aside", _replaced)
VALUES = Mechanism("states whose value auxiliary rollouts estimated", _values)
