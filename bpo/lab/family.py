"""A finite decision process with everything that a comparison needs to know of it, and the builder that lists its states."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

# In `Family.following`: the episode is over.
OVER = -1


@dataclass(frozen=True, eq=False)
class Family:
    """A process whose states come in layers: every action leads to the next layer or to the end.

    name, meaning  how it is called, and what decides in it, as one sentence
    decisive       depths of the actions that the return depends on
    names          S names of states, in order of depth; state 0 is where episodes begin
    depth          int64 [S], actions since the beginning
    following      int64 [S, A, C], the state that each of C outcomes of chance leads to; OVER where the episode ends
    chance         float64 [S, A, C], probability of each outcome; rows sum to one
    reward         float64 [S, A, C]
    right          int64 [S], the action that counts where the state's depth is decisive
    start          float64 [S, A], logits of the policy that training begins with
    features       float64 [S, F], what the linear policy sees of a state
    price          float64 [S], price of an action in each state
    fork           price of going on from a stored state below the root
    """

    name: str
    meaning: str
    decisive: tuple[int, ...]
    names: tuple[str, ...]
    depth: np.ndarray
    following: np.ndarray
    chance: np.ndarray
    reward: np.ndarray
    right: np.ndarray
    start: np.ndarray
    features: np.ndarray
    price: np.ndarray
    fork: float

    @property
    def width(self) -> int:
        """Number A of actions."""
        return self.start.shape[1]

    @property
    def horizon(self) -> int:
        """Number T of actions of the longest episode."""
        return int(self.depth[-1]) + 1

    @cached_property
    def layers(self) -> tuple[slice, ...]:
        """The states of each depth."""
        edges = np.searchsorted(self.depth, np.arange(self.horizon + 1))
        return tuple(slice(int(low), int(high)) for low, high in pairwise(edges))

    @cached_property
    def number(self) -> dict[str, int]:
        """Number of every state by name."""
        return {name: i for i, name in enumerate(self.names)}


# A state as rules see it: its depth, the actions that count there, and an outcome of chance.
Key = Hashable


@dataclass(frozen=True)
class Rules:
    """What a process is made of, as functions of a state's depth t and its key (whatever tells states of one depth apart).

    An episode is judged when it ends: its return is 1 or 0, and what fortune has added.

    noise    probability that an end is judged the other way round
    advance  (t, key, action) -> [(next key, probability), ...]
    success  (key, action) -> whether an episode that ends so should be judged 1
    fortune  key -> what is added to the return
    right    (t, key) -> action
    start    (t, key) -> A logits
    feature  (t, key) -> what the linear policy sees; states with equal features share their weights
    price    t -> price of an action
    label    key -> name of a state within its depth
    """

    width: int
    horizon: int
    noise: float
    root: Key
    advance: Callable[[int, Key, int], Sequence[tuple[Key, float]]]
    success: Callable[[Key, int], bool]
    fortune: Callable[[Key], float]
    right: Callable[[int, Key], int]
    start: Callable[[int, Key], Sequence[float]]
    feature: Callable[[int, Key], Hashable]
    price: Callable[[int], float]
    label: Callable[[Key], str]


def listed(name: str, meaning: str, decisive: Iterable[int], rules: Rules, fork: float) -> Family:
    """The family that rules describe: every state that can be reached, in order of depth and of the actions that lead there."""
    layers: list[dict[Key, int]] = [{rules.root: 0}]
    # Per state and action: (state that follows, probability, reward) of every outcome.
    outcomes: list[list[list[tuple[int, float, float]]]] = []
    count = 1
    for t in range(rules.horizon):
        found: dict[Key, int] = {}
        for key in layers[t]:
            row = []
            for action in range(rules.width):
                if t == rules.horizon - 1:
                    row.append(_judged(rules, key, action))
                else:
                    following = rules.advance(t, key, action)
                    row.append([(found.setdefault(k, count + len(found)), chance, 0.0) for k, chance in following])
            outcomes.append(row)
        count += len(found)
        layers.append(found)
    states = [(t, key) for t, layer in enumerate(layers[: rules.horizon]) for key in layer]
    following, chance, reward = _arrays(outcomes)
    seen = {feature: i for i, feature in enumerate(dict.fromkeys(rules.feature(t, key) for t, key in states))}
    features = np.zeros((len(states), len(seen)))
    features[np.arange(len(states)), [seen[rules.feature(t, key)] for t, key in states]] = 1.0
    return Family(
        name=name,
        meaning=meaning,
        decisive=tuple(decisive),
        names=tuple(f"{t}:{rules.label(key)}" for t, key in states),
        depth=np.array([t for t, _ in states], np.int64),
        following=following,
        chance=chance,
        reward=reward,
        right=np.array([rules.right(t, key) for t, key in states], np.int64),
        start=np.array([rules.start(t, key) for t, key in states], float),
        features=features,
        price=np.array([rules.price(t) for t, _ in states], float),
        fork=fork,
    )


def _judged(rules: Rules, key: Key, action: int) -> list[tuple[int, float, float]]:
    success, fortune = rules.success(key, action), rules.fortune(key)
    return [(OVER, 1 - rules.noise, fortune + success), (OVER, rules.noise, fortune + (not success))]


def _arrays(outcomes: Sequence[Sequence[Sequence[tuple[int, float, float]]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(following, chance, reward), [S, A, C]; where an action has fewer outcomes than C, the others have no chance."""
    most = max(len(one) for row in outcomes for one in row)
    padded = np.array([[[*one, *[(OVER, 0.0, 0.0)] * (most - len(one))] for one in row] for row in outcomes])
    return padded[..., 0].astype(np.int64), padded[..., 1], padded[..., 2]
