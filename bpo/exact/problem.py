"""A full decision tree with a tabular policy: small enough that everything about it is known exactly."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bpo.errors import BadInput, at_least, choose, scalar, shown
from bpo.policy import Decision
from bpo.reading import read_json

# Largest tree that is taken: 3 actions to depth 6.
MAX_LEAVES = 729
# Largest size of a return: its fourth power, in the error of a variance, is still a number.
MAX_RETURN = 1e75
FIELDS = ("p", "r", "ends", "threshold")
# A report can be read as a spec again: these it adds, and a sentence about it.
REPORTED = ("J", "about", "entropies", "estimators", "gradient", "theorem2")


def read_spec(path: Path) -> dict[str, Any]:
    """The decision tree that a file describes, as `report` takes it; BadInput names what is wrong."""
    spec = read_json(path, "a JSON file with p, r and threshold")
    if not isinstance(spec, dict):
        raise BadInput(f"{path} is {shown(spec)}; the file must hold an object with p, r and threshold")
    reportable(spec, str(path))
    return spec


def reportable(spec: Mapping[str, Any], where: str) -> tuple[Problem, float]:
    """The problem of {p, r, threshold}, and the threshold: the entropy in nats from which causal rows branch."""
    problem = Problem.from_spec(spec, where)
    if problem.ends:
        raise BadInput(f"{where}: ends is given; the report is about trees in which all episodes have the same length")
    if "threshold" not in spec:
        raise BadInput(f"{where}: field 'threshold' is missing")
    threshold = scalar(float, spec["threshold"], f"{where}: threshold", ": the entropy in nats that a branch point needs")
    at_least(f"{where}: threshold", threshold, 0.0)
    return problem, threshold


@dataclass(frozen=True, eq=False)
class Problem:
    """A tree in which every state of depth < T has the same number A of actions (theory.md, section 8).

    probabilities  float64 [S, A], pi(a|s); states in breadth-first order, numbered by `child`
    returns        float64 [A**T], return of every leaf in lexicographic order
    logistic       two actions with one logit per state, log pi(1|s) / pi(0|s); else one softmax logit per action
    ends           inner states in which the episode is over, by name, with its return; what lies below is never reached
    """

    probabilities: np.ndarray
    returns: np.ndarray
    logistic: bool = False
    ends: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], where: str = "the problem") -> Problem:
        """From {p, r} and perhaps {ends}; BadInput names what is wrong.

        p holds P(action 1) per state, or a list of probabilities per state; r the returns of the leaves; ends returns by state.
        """
        if not isinstance(spec, Mapping):
            raise BadInput(f"{where} is {shown(spec)}; it must be a mapping with p and r")
        for key in spec:
            if key not in REPORTED:
                choose(f"field of {where}:", key, FIELDS)
        p, r = _numbers(spec, "p", where), _numbers(spec, "r", where)
        if r.ndim != 1:
            raise BadInput(f"{where}: r must be a flat list with one return per leaf")
        if p.ndim not in (1, 2) or (p.ndim == 2 and p.shape[1] < 2):
            raise BadInput(f"{where}: p must be a list of P(action 1) per state, or of lists with a probability per action")
        table = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
        width, leaves, states, depth = table.shape[1], 1, 0, 0
        while leaves < len(r):
            states, leaves, depth = states + leaves, leaves * width, depth + 1
        if leaves != len(r) or depth == 0:
            raise BadInput(f"{where}: r has {len(r)} returns, which is not a power of the {width} actions")
        if len(table) != states:
            raise BadInput(f"{where}: p has {len(table)} states; {len(r)} leaves with {width} actions need {states}")
        if leaves > MAX_LEAVES:
            raise BadInput(f"{where}: {leaves} leaves are too many for exact moments (at most {MAX_LEAVES})")
        for number, row in enumerate(table):
            if (row <= 0).any() or (row >= 1).any() or abs(row.sum() - 1) > 1e-9:
                raise BadInput(
                    f"{where}: p[{number}] is {p[number].tolist()!r}; probabilities lie strictly between 0 and 1 and sum to 1"
                )
        return cls(table, r, logistic=p.ndim == 1, ends=_ends(spec.get("ends", {}), depth, table.shape[1], where))

    @property
    def width(self) -> int:
        """Number A of actions."""
        return self.probabilities.shape[1]

    @cached_property
    def depth(self) -> int:
        """Number T of actions of an episode."""
        return round(np.log(len(self.returns)) / np.log(self.width))

    @cached_property
    def states(self) -> tuple[str, ...]:
        """Names of the states, breadth first: the actions that led there ("" is the root)."""
        digits = [str(action) for action in range(self.width)]
        return tuple("".join(path) for d in range(self.depth) for path in itertools.product(digits, repeat=d))

    @cached_property
    def number(self) -> dict[str, int]:
        """Breadth-first number of every state by name."""
        return {name: i for i, name in enumerate(self.states)}

    @cached_property
    def value(self) -> np.ndarray:
        """float64 [S + leaves], V(s) = E[G | s] under the policy; returns where an episode is over."""
        value = np.concatenate([np.zeros(len(self.states)), self.returns])
        for state in range(len(self.states) - 1, -1, -1):
            name = self.states[state]
            over = name in self.ends
            value[state] = self.ends[name] if over else self.probabilities[state] @ value[self.children(state)]
        return value

    @property
    def J(self) -> float:
        """Expected return."""
        return float(self.value[0])

    @cached_property
    def reach(self) -> np.ndarray:
        """float64 [S + leaves], probability of passing through a state; 0 below an early end."""
        reach = np.zeros(len(self.value))
        reach[0] = 1
        for state, name in enumerate(self.states):
            if name not in self.ends:
                reach[self.children(state)] = reach[state] * self.probabilities[state]
        return reach

    @cached_property
    def over(self) -> np.ndarray:
        """bool [S + leaves], whether the episode is over there."""
        return np.array([name in self.ends for name in self.states] + [True] * len(self.returns))

    @cached_property
    def entropy(self) -> np.ndarray:
        """float64 [S], nats."""
        return -(self.probabilities * np.log(self.probabilities)).sum(axis=1)

    @cached_property
    def score(self) -> np.ndarray:
        """float64 [S, A, F], gradient of log pi(a|s) with respect to the F logits of state s."""
        full = np.eye(self.width)[None] - self.probabilities[:, None, :]
        return full[:, :, 1:] if self.logistic else full

    @cached_property
    def gradient(self) -> np.ndarray:
        """float64 [S, F], grad J = sum_s reach(s) sum_a pi(a|s) Q(s, a) score(s, a), exactly."""
        q = np.stack([self.value[self.children(state)] for state in range(len(self.states))])
        acts = self.reach[: len(q)] * ~self.over[: len(q)]
        return np.einsum("s,sa,sa,saf->sf", acts, self.probabilities, q, self.score)

    @cached_property
    def decisions(self) -> dict[str, list[Decision]]:
        """The decision of every action in every state, as a tabular policy makes it."""
        made = {}
        choices = (tuple(range(self.width)),)
        for number, state in enumerate(self.states):
            logs, entropy = np.log(self.probabilities[number]), float(self.entropy[number])
            made[state] = [Decision(str(a), (a,), (float(logs[a]),), choices, entropy) for a in choices[0]]
        return made

    def child(self, state, action):
        """Number of the state (or leaf; leaves follow the states) that an action leads to; of arrays too."""
        return self.width * state + 1 + action

    def action(self, child):
        """The action that leads to this state or leaf; of arrays too."""
        return (child - 1) % self.width

    def children(self, state: int) -> slice:
        """Numbers of the children of a state."""
        return slice(self.child(state, 0), self.child(state, self.width))

    def variance(self, depth: int | None = None) -> float:
        """Var(V(s_t)) over states of one depth, an episode that ended earlier standing still; without a depth, Var(G)."""
        depth = self.depth if depth is None else depth
        first = (self.width**depth - 1) // (self.width - 1)
        here = np.zeros(len(self.value), bool)
        here[first : first + self.width**depth] = True
        here[:first] = self.over[:first]
        return float(self.reach[here] @ (self.value[here] - self.J) ** 2)


def _ends(given: Any, depth: int, width: int, where: str) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise BadInput(f"{where}: ends is {str(given)[:60]!r}; it must map names of inner states to returns")
    for name, value in given.items():
        actions = [str(a) for a in range(width)]
        if not isinstance(name, str) or not 0 < len(name) < depth or not set(name) <= set(actions):
            raise BadInput(f"{where}: ends[{name!r}] is no inner state below the root; its name is 1 to {depth - 1} actions")
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise BadInput(f"{where}: ends[{name!r}] is {value!r}; it must be a finite return")
    return {name: float(value) for name, value in given.items()}


def _numbers(spec: Mapping[str, Any], key: str, where: str) -> np.ndarray:
    if key not in spec:
        raise BadInput(f"{where}: field {key!r} is missing")
    right = "a list of numbers" + (", or of lists with one number per action" if key == "p" else "")
    rows = _listed(spec[key], f"{where}: {key}", right)
    nested = [isinstance(row, Sequence) and not isinstance(row, str) for row in rows]
    if key == "p" and any(nested):
        table = [_listed(row, f"{where}: p[{i}]", "one of lists with one number per action") for i, row in enumerate(rows)]
        if len({len(row) for row in table}) > 1:
            raise BadInput(f"{where}: p is {shown(spec[key])}; its lists must have equally many numbers, one per action")
        return np.array([[scalar(float, x, f"{where}: p[{i}][{j}]") for j, x in enumerate(row)] for i, row in enumerate(table)])
    numbers = np.array([scalar(float, x, f"{where}: {key}[{i}]") for i, x in enumerate(rows)])
    if (large := np.abs(numbers) > MAX_RETURN).any():
        place = int(large.argmax())
        raise BadInput(f"{where}: {key}[{place}] is {numbers[place]}; it must be at most {MAX_RETURN:g} in size")
    return numbers


def _listed(value: Any, where: str, right: str) -> list[Any]:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise BadInput(f"{where} is {shown(value)}; it must be {right}")
    return [x.item() if isinstance(x, np.generic) else x for x in value]
