"""What a sandbox, a policy or a plan of somebody else's gives: one sentence that names it, and what would be right."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bpo import (
    METHODS,
    Growth,
    Household,
    Observation,
    QuantileThreshold,
    RootOnly,
    TabularPolicy,
    Threshold,
    TopEntropy,
    ToyTree,
    Tree,
    bpo_split,
    build,
    check_fork,
    check_unbiased,
    grow,
    grpo,
    leave_one_out,
    moments,
    rloo,
    tree_lines,
)
from bpo.boundary import MOST_STEPS
from bpo.errors import BadInput
from bpo.exact import Problem
from bpo.replay import ReplaySandbox
from bpo.sandbox import Outcome, SnapshotError
from bpo.sandboxes.shell import Shell
from bpo.select import Spacing

GROWTH = Growth(Threshold(0.5), points=2, width=2, root=True)
PROBLEM = Problem.from_spec({"p": [0.3, 0.4, 0.6], "r": [0.0, 1.0, 1.0, 0.0]})
LEAVES = [0.0, 1.0, 1.0, 0.0]


class Changed(ToyTree):
    """A toy tree, of which something is another thing than it must be; a string of changes names what."""

    def __init__(self, **changes):
        super().__init__(LEAVES)
        self.changes = changes

    def reset(self, task):
        return self._or("reset", super().reset(task))

    def restore(self, snapshot):
        return self._or("restore", super().restore(snapshot))

    def step(self, action):
        outcome = super().step(action)
        changed = {name: self.changes[name] for name in ("reward", "done", "info", "observation") if name in self.changes}
        return self._or("step", replace(outcome, **changed))

    def fork(self, n):
        return self._or("fork", super().fork(n))

    def state_key(self):
        return self._or("state_key", super().state_key())

    def _or(self, call, value):
        if call not in self.__dict__.get("changes", {}):
            return value
        change = self.changes[call]
        return change(value) if callable(change) else change


WRONG = [
    ({"step": None}, "step('0') gives nothing (None); it must be an Outcome"),
    ({"step": lambda outcome: (outcome.observation, 0.0, True, {})}, "step('0') gives a tuple; it must be an Outcome"),
    ({"reward": "1"}, "step('0') gives the reward '1'; it must be a finite number"),
    ({"reward": None}, "gives the reward None; it must be a finite number"),
    ({"reward": float("nan")}, "gives the reward nan; it must be a finite number"),
    ({"reward": float("inf")}, "gives the reward inf; it must be a finite number"),
    ({"reward": -np.inf}, "it must be a finite number"),
    ({"reward": [1.0]}, "gives the reward [1.0]; it must be a finite number"),
    ({"reward": 10**400}, "it must be a finite number"),
    ({"reward": 1j}, "gives the reward 1j; it must be a finite number"),
    ({"done": "no"}, "gives done = 'no'; it must be true or false"),
    ({"done": None}, "gives done = None; it must be true or false"),
    ({"info": None}, "gives info = None; it must be a mapping of facts"),
    ({"info": ["won"]}, "gives info = ['won']; it must be a mapping of facts"),
    ({"observation": "a room"}, "step gives a str; it must be an Observation"),
    ({"observation": None}, "step gives nothing (None); it must be an Observation"),
    ({"reset": None}, "reset gives nothing (None); it must be an Observation"),
    ({"reset": lambda seen: (seen, {})}, "reset gives a tuple; it must be an Observation"),
    ({"reset": lambda seen: replace(seen, actions=())}, "reset lists no actions though the episode goes on"),
    ({"reset": lambda seen: replace(seen, actions="01")}, "reset gives the actions '01'; they must be a tuple of texts"),
    ({"reset": lambda seen: replace(seen, actions=(0, 1))}, "reset lists the action 0; an action must be text"),
    ({"reset": lambda seen: replace(seen, actions=7)}, "reset gives the actions 7; they must be a tuple of texts"),
    ({"reset": lambda seen: replace(seen, text=None)}, "reset gives the text None; it must be text"),
    ({"observation": Observation("", (), "", 1)}, "step lists no actions though the episode goes on"),
    ({"state_key": [1]}, "state_key gives [1]; it must be hashable"),
]
FORKS = [
    ({"fork": []}, "fork(1) gives 0 sandboxes; it must be a list of 1"),
    ({"fork": lambda forks: forks * 2}, "fork(1) gives 2 sandboxes; it must be a list of 1"),
    ({"fork": None}, "fork(1) gives nothing (None); it must be a list of 1"),
    ({"fork": lambda forks: forks[0]}, "fork(1) gives a Changed; it must be a list of 1"),
    ({"restore": None}, "restore gives nothing (None); it must be an Observation"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_sandbox_that_gives_something_else_is_named_where_trees_grow(changes, said):
    with pytest.raises(BadInput) as error:
        grow(["tree-00"], [Changed(**changes)], TabularPolicy({"": [50.0, 0.0]}), GROWTH, (0,))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("changes", "said"), [*WRONG, *FORKS], ids=[said for _, said in [*WRONG, *FORKS]])
def test_a_sandbox_that_gives_something_else_is_named_where_forks_are_checked(changes, said):
    with pytest.raises(BadInput) as error:
        check_fork(
            partial(Changed, **changes),
            ["tree-00"],
            games=1,
            branches=2,
            steps=20,
            seed=1,
            propose=lambda seen, rng: "0",
        )
    assert said in str(error.value)
    assert "\n" not in str(error.value)


class Corridor:
    """It has no end, and no step limit."""

    def tasks(self, split):
        return ("walk",)

    def reset(self, task):
        self.steps = 0
        return self._seen()

    def step(self, action):
        self.steps += 1
        return Outcome(self._seen(), 0.0, self.steps == getattr(self, "ends_at", None))

    def snapshot(self):
        return self.steps

    def restore(self, snapshot):
        self.steps = snapshot
        return self._seen()

    def state_key(self):
        return self.steps

    def _seen(self):
        return Observation("", ("on", "back"), "walk", self.steps)


def test_an_episode_that_never_ends_is_stopped_and_the_sandbox_named():
    with pytest.raises(BadInput, match=r"the sandbox Corridor: task 'walk' has not ended after 10,000 steps.* max_steps"):
        grow(["walk"], [Corridor()], TabularPolicy(), Growth(RootOnly(), points=0, width=1), (0,))


def test_a_sandbox_whose_episodes_are_longer_says_so():
    sandbox = Corridor()
    sandbox.max_steps = sandbox.ends_at = MOST_STEPS + 5
    (tree,), ledger = grow(["walk"], [sandbox], TabularPolicy(), Growth(RootOnly(), points=0, width=1), (0,))
    assert ledger.env_steps == len(tree) - 1 == MOST_STEPS + 5


def grown(**changed):
    given = {
        "tasks": ["tree-00"],
        "sandboxes": [ToyTree(LEAVES)],
        "policy": TabularPolicy(),
        "growth": GROWTH,
        "key": (0,),
    }
    return partial(grow, **(given | changed))


ONE = ToyTree(LEAVES)
(TREE,), _ = grow(["tree-00"], [ONE], TabularPolicy(), GROWTH, (0,))
MAKE = partial(ToyTree, LEAVES)
HOUSE = partial(Household, "tiny")


def at_start(sandbox):
    sandbox.reset(sandbox.tasks("train")[0])
    return sandbox


def checked_forks(make=MAKE, tasks=("tree-00",), **changed):
    return partial(check_fork, make, tasks, **({"games": 1, "branches": 1, "steps": 1, "seed": 0} | changed))


CALLS = [
    (grown(key=0), "key is 0; it must be a list of whole numbers from 0, like (seed, iteration)"),
    (grown(key=(-1,)), "key[0] is -1; key must be a list of whole numbers from 0"),
    (grown(key=("a",)), "key[0] is 'a'"),
    (grown(key=(1.5,)), "key[0] is 1.5"),
    (grown(key=(0, True)), "key[1] is True"),
    (grown(key="12"), "key is '12'"),
    (grown(key=None), "key is None"),
    (grown(sandboxes=ToyTree), "sandboxes is the class ToyTree itself; it must be a list of sandboxes"),
    (grown(sandboxes=ONE), "sandboxes is a ToyTree; it must be a list of sandboxes"),
    (grown(sandboxes=[ToyTree]), "sandboxes[0] is the class ToyTree itself; it must be a sandbox"),
    (grown(sandboxes=[None]), "sandboxes[0] is a NoneType, which has no `reset`"),
    (grown(sandboxes=[ONE, ONE]), "sandboxes[1] is there twice; every tree grows in a sandbox of its own"),
    (grown(tasks="tree-00"), "tasks is 'tree-00'; it must be a list of task ids"),
    (grown(tasks=[3]), "tasks[0] is 3; it must be a task id, which is text"),
    (grown(tasks=None), "tasks is a NoneType; it must be a list"),
    (grown(policy=None), "policy is a NoneType, which has no `begin`"),
    (grown(policy=TabularPolicy), "policy is the class TabularPolicy itself; it must be a policy"),
    (grown(growth=Threshold(0.5)), "growth is a Threshold, which has no `plan`; it must be a Growth"),
    (grown(growth=build("rloo")), "growth is a BuiltMethod, which has no `plan`"),
    (grown(growth=Growth), "growth is the class Growth itself"),
    (
        grown(sandboxes=[ToyTree(range(9), 3)], policy=TabularPolicy.uniform(LEAVES)),
        "the policy has 2 logits for the state '', in which the sandbox lists 3 actions: it was made for another sandbox",
    ),
    (
        grown(sandboxes=[Changed(reset=lambda seen: replace(seen, actions=None))]),
        "a table of logits is given a state in which any text is allowed; it needs listed actions",
    ),
    (lambda: Growth(None, 1, 2), "selector is a NoneType; it must be a Selector"),
    (lambda: Growth(Threshold, 1, 2), "selector is the class Threshold itself"),
    (lambda: Growth(Threshold(0.5), "3", 2), "points is '3'; it must be a whole number"),
    (lambda: Growth(Threshold(0.5), True, 2), "points is True; it must be a whole number"),
    (lambda: Growth(Threshold(0.5), 1, 10**12), "width is 1000000000000; it must be at most 1000000"),
    (lambda: Growth(Threshold(0.5), 1, 2, root="yes"), "root is 'yes'; it must be true or false"),
    (lambda: Growth(Threshold(0.5), 1, 2, nested=3), "nested is 3; it must be true or false"),
    (lambda: Threshold("x"), "threshold is 'x'; it must be a number from 0"),
    (lambda: Threshold(0.5, 3), "spacing is a int; it must be a Spacing"),
    (lambda: TopEntropy("x"), "spacing is a str; it must be a Spacing"),
    (lambda: QuantileThreshold(0.5, memory=-1), "memory is -1; it must be at least 1"),
    (lambda: Spacing(gap=-1), "gap is -1; it must be at least 0"),
    (lambda: Spacing(unit="chars"), "unknown unit 'chars'"),
    (lambda: Spacing(floor=float("nan")), "floor is nan"),
    (lambda: tree_lines([TREE]), "tree is a list; it must be a Tree: grow gives a list of them"),
    (lambda: tree_lines(None), "tree is a NoneType"),
    (lambda: tree_lines(TREE, bpo_split([TREE])), "credit is a list; it must be a Credit"),
    (lambda: tree_lines(TREE, width="a"), "width is 'a'; it must be a whole number"),
    (lambda: bpo_split(TREE), "a credit rule is given a tree; it needs the list of all trees of one task, like [tree]"),
    (lambda: rloo(TREE), "is given a tree"),
    (lambda: grpo([1]), "is given [1]; it needs the list of all trees"),
    (lambda: bpo_split(None), "is given None"),
    (lambda: bpo_split([TREE], shrink=5), "shrink is 5; it must be a number from 0 to 1"),
    (lambda: bpo_split([TREE], shrink=float("nan")), "shrink is nan"),
    (lambda: bpo_split([TREE], root_baseline="x"), "root_baseline is 'x'"),
    (lambda: rloo([TREE]), "needs two or more rollouts from the root and no other branch point"),
    (lambda: leave_one_out([1, 2], [0.5]), "values have the shape (2,), weights (1,)"),
    (lambda: leave_one_out([1, 2], [1, 1]), "weights sum to 2; they must sum to one"),
    (lambda: moments(PROBLEM, Threshold(0.5), rloo), "growth is a Threshold"),
    (lambda: moments({}, GROWTH, rloo), "problem is a dict; it must be a Problem"),
    (lambda: moments(PROBLEM, GROWTH, "rloo"), "rule is a str; it must be a credit rule"),
    (lambda: moments(PROBLEM, GROWTH, METHODS["rloo"].credit), "it must give a list of 1 credits"),
    (lambda: moments(PROBLEM, GROWTH, lambda trees: []), "the credit rule gives []; it must give a list of 1 credits"),
    (lambda: moments(PROBLEM, GROWTH, lambda trees: [3]), "the credit rule gives 3 for tree 0; it must give a Credit"),
    (
        lambda: moments(PROBLEM, GROWTH, lambda trees: [replace(bpo_split(trees)[0], weight=np.ones(2))]),
        "the credit rule gives weight of shape (2,) for tree 0",
    ),
    (lambda: moments(PROBLEM, GROWTH, bpo_split, limit=-1), "limit is -1; it must be at least 0"),
    (lambda: moments(PROBLEM, GROWTH, bpo_split, samples="x"), "samples is 'x'; it must be a whole number"),
    (lambda: moments(PROBLEM, GROWTH, bpo_split, seed=-1), "seed is -1; it must be at least 0"),
    (lambda: moments(PROBLEM, GROWTH, bpo_split, key=0), "key is 0"),
    (lambda: moments(PROBLEM, GROWTH, bpo_split, sampling=3), "sampling is 3; it must be a function"),
    (lambda: moments(PROBLEM, GROWTH, bpo_split, sampling=lambda tree: "a"), "what `sampling` gives is 'a'"),
    (lambda: moments(PROBLEM, Growth(Threshold(0.5), 1, 10**6), bpo_split), "width is 1000000; it must be at most 1000"),
    (lambda: check_unbiased(Threshold(0.5), rloo), "growth is a Threshold"),
    (lambda: check_unbiased(GROWTH, None), "rule is a NoneType; it must be a credit rule"),
    (lambda: check_unbiased(GROWTH, bpo_split, problems=PROBLEM), "problems is a Problem; it must be a list"),
    (lambda: check_unbiased(GROWTH, bpo_split, problems=[]), "problems is []; one problem is needed at least"),
    (lambda: TabularPolicy([1]), "logits is [1]; it must be a mapping"),
    (lambda: TabularPolicy({"": "ab"}), "logits[''] is 'ab'; it must be a list of numbers"),
    (lambda: TabularPolicy({"": [np.nan, 0]}), "logits[''][0] is nan; it must be a finite number"),
    (lambda: TabularPolicy({"": []}), "logits[''] is []"),
    (lambda: TabularPolicy.bernoulli({"": 2}), "p[''] is 2; it must be a probability"),
    (lambda: TabularPolicy.bernoulli([0.5]), "p is [0.5]; it must be a mapping"),
    (lambda: TabularPolicy.uniform(5), "returns is a int; it must be a list"),
    (lambda: TabularPolicy.uniform([0, 1], "x"), "width is 'x'; it must be a whole number"),
    (checked_forks(ToyTree), "make_sandbox must make a sandbox when it is called without arguments: missing"),
    (checked_forks(ONE), "make_sandbox is a ToyTree; it must make a sandbox when it is called"),
    (checked_forks(lambda: None), "what make_sandbox makes is a NoneType, which has no `reset`"),
    (checked_forks(games=0), "games is 0; it must be at least 1"),
    (checked_forks(branches=0), "branches is 0; it must be at least 1"),
    (checked_forks(steps="x"), "steps is 'x'; it must be a whole number"),
    (checked_forks(seed=-1), "seed is -1; it must be at least 0"),
    (checked_forks(tasks="tree-00"), "tasks is 'tree-00'; it must be a list of task ids"),
    (checked_forks(propose=lambda seen, rng: 3), "unknown action 3"),
    (lambda: ONE.tasks("nope"), "unknown split 'nope'"),
    (lambda: at_start(ToyTree(LEAVES)).fork(-1), "the number of forks is -1; it must be at least 0"),
    (lambda: at_start(ReplaySandbox(partial(ToyTree, LEAVES))).fork("a"), "the number of forks is 'a'"),
    (lambda: at_start(HOUSE()).fork(-1), "the number of forks is -1; it must be at least 0"),
    (lambda: at_start(HOUSE()).step(3), "the action is 3; it must be text"),
    (lambda: at_start(HOUSE()).step(None), "the action is None; it must be text"),
    (lambda: HOUSE().reset(3), "unknown task 3"),
]


@pytest.mark.parametrize(("call", "said"), CALLS, ids=[said for _, said in CALLS])
def test_a_call_with_something_else_is_refused_in_one_sentence(call, said):
    start = time.process_time()
    with pytest.raises(BadInput) as error:
        call()
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert time.process_time() - start < 3


@pytest.mark.parametrize("text", ["x", "[]", "3", "null", "{}", '{"parent": 3}', "[" * 100_000], ids=lambda text: text[:9])
def test_what_is_no_tree_is_a_value_error(text):
    with pytest.raises(ValueError):
        Tree.from_json(text)


def test_a_snapshot_of_another_kind_is_a_snapshot_error():
    house, toy = at_start(HOUSE()), at_start(ToyTree(LEAVES))
    for call in (partial(toy.restore, 3), partial(toy.restore, None), partial(house.restore, 3), partial(house.resume, 3)):
        with pytest.raises(SnapshotError):
            call()


def test_actions_and_forks_of_a_box_are_checked_as_those_of_other_sandboxes():
    with Shell(allow_unsafe=True) as shell:
        at_start(shell)
        with pytest.raises(BadInput, match="the action is 3; it must be text"):
            shell.step(3)
        with pytest.raises(BadInput, match="the number of forks is -1"):
            shell.fork(-1)


def test_checks_change_no_value():
    """The trees are those of unchecked calls: numbers of numpy's kinds, rewards that are whole, keys that are arrays."""
    one, _ = grown()()
    other, _ = grown(key=np.array([0]), tasks=("tree-00",), sandboxes=(ToyTree(np.array([0, 1, 1, 0])),))()
    assert one[0].to_json() == other[0].to_json()
    assert leave_one_out([1, 2], [0.5, 0.5]).tolist() == [-1.0, 1.0]
