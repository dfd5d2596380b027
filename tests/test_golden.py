"""Every row of the table on one recorded forest, against numbers that a program of its own worked out from the formulas."""

from __future__ import annotations

import ast
import itertools
import json
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from places import ROOT

from bpo import update
from bpo.methods import METHODS, build
from bpo.policy import Decision
from bpo.tree import NO_PARENT, Step, Tree

REFERENCE = ROOT / "tests" / "reference"
sys.path.insert(0, str(REFERENCE))
import golden  # noqa: E402

STORED = json.loads((REFERENCE / "golden.json").read_text())
CASES = STORED["cases"]


def recorded() -> list[Tree]:
    """The trees of forest.json as the library has them."""
    return [tree_of(raw) for raw in json.loads((REFERENCE / "forest.json").read_text())["trees"]]


def tree_of(raw: dict) -> Tree:
    nodes = raw["nodes"]

    def column(name, kind):
        return np.array([node[name] for node in nodes], kind)

    tree = Tree(
        task=raw["task"],
        index=raw["index"],
        parent=column("parent", np.int64),
        sibling_index=column("rank", np.int64),
        weight=column("weight", float),
        reward=column("reward", float),
        entropy=np.where(column("ended", bool), np.nan, 0.5),
        actions=np.where(column("ended", bool), 0, 2),
        position=np.zeros(len(nodes), np.int64),
        steps=tuple(None if node["parent"] == NO_PARENT else step(number, node, nodes) for number, node in enumerate(nodes)),
        outcome=({},) * len(nodes),
        auxiliary=column("auxiliary", bool),
        ended=column("ended", bool),
        state_key=tuple(node["state"] for node in nodes),
    )
    tree.validate()
    return tree


@dataclass(frozen=True, eq=False)
class Shown:
    """A context: what was observed, and what a policy says of the tokens that follow."""

    text: str
    tokens: list[list[float]]


def step(number: int, node: dict, nodes: list[dict]) -> Step:
    old = tuple(token[0] for token in node["tokens"])
    count = len(old)
    return Step(
        Shown(str(nodes[node["parent"]]["state"]), node["tokens"]),
        Decision(f"action {number}", tuple(range(count)), old, ((0, 1, 2),) * count, 0.5),
    )


class Recorded:
    """A policy whose log-probs are those of the forest: `column` 1 is the one that is trained, 2 the reference."""

    def __init__(self, column: int):
        self.column, self.taken = column, []

    def logprob(self, steps):
        values = [token[self.column] for context, _ in steps for token in context.tokens]
        owner = [i for i, (context, _) in enumerate(steps) for _ in context.tokens]
        leaf = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        self.taken.append((steps, leaf))
        return leaf.clone(), torch.tensor(owner)

    def batches(self, steps):
        return [list(range(len(steps)))]


def learned(case: dict) -> dict:
    """What the library makes of a case."""
    trees = [recorded()[t] for t in case["trees"]]
    method = build(case["method"], case["parameters"])
    memory = method.memory()
    if case["values"]:
        memory.values = lambda trees: [np.array(values) for values in case["values"]]
    credits = method.credit(trees, memory)
    policy, settings = Recorded(1), {name: STORED[name] for name in ("clip", "beta")}
    facts = update.backward(policy, Recorded(2), update.make_batch(trees, credits), method.objective, settings)
    steps, leaf = next((steps, leaf) for steps, leaf in policy.taken if leaf.grad is not None)
    parts = leaf.grad.split([len(decision.free) for _, decision in steps])
    slopes = {id(context): part.tolist() for (context, _), part in zip(steps, parts, strict=True)}
    gradient = [[[] if one is None else slopes.get(id(one.context), []) for one in tree.steps] for tree in trees]
    return {
        "advantage": [credit.advantage.tolist() for credit in credits],
        "weight": [credit.weight.tolist() for credit in credits],
        "loss": facts["loss"],
        "gradient": gradient,
    }


def flat(values) -> list[float]:
    return [x for one in values for x in flat(one)] if isinstance(values, list) else [values]


@pytest.mark.parametrize("name", CASES)
def test_advantages_weights_loss_and_gradient_are_those_of_the_formula(name):
    case, found = CASES[name], learned(CASES[name])
    for what in ("advantage", "weight", "loss"):
        assert flat(found[what]) == pytest.approx(flat(case[what]), rel=1e-10, abs=1e-11), what
    assert flat(found["gradient"]) == pytest.approx(flat(case["gradient"]), rel=1e-10, abs=1e-11)
    assert max(map(abs, flat(case["gradient"]))) > 1e-3


def test_every_row_has_golden_numbers_at_its_defaults_and_they_are_those_of_the_program():
    assert {case["method"] for name, case in CASES.items() if name == case["method"]} == set(METHODS)
    assert (REFERENCE / "golden.json").read_text() == golden.text(), "python tests/reference/golden.py"


def test_the_program_imports_nothing_of_the_library():
    tree = ast.parse((REFERENCE / "golden.py").read_text())
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)


def test_cases_with_the_same_numbers_say_so_and_why():
    """On the trees that two cases share: weight times advantage of every edge, and the gradient."""
    for (one, first), (other, second) in itertools.combinations(CASES.items(), 2):
        if first["method"] == second["method"] and first["parameters"] == second["parameters"]:
            continue
        same = first["trees"] == second["trees"] and all(
            flat(first[what]) == pytest.approx(flat(second[what]), abs=1e-9) for what in ("advantage", "weight", "gradient")
        )
        declared = other in first["same_as"] or one in second["same_as"]
        assert same == declared, (one, other)
        assert all(first["same_as"].values())


def direction(method: str) -> np.ndarray:
    """The gradient at the policy that acted, of length one, on the trees that branch at the root alone."""
    trees, built = recorded()[:2], build(method, {"returns": 4} if method == "rebel" else {})
    policy, batch = Recorded(0), update.make_batch(trees, built.credit(trees, built.memory()))
    update.backward(policy, None, batch, built.objective, {"clip": STORED["clip"]})
    found = next(leaf.grad for _, leaf in policy.taken if leaf.grad is not None).numpy()
    return found / np.linalg.norm(found)


def test_rows_with_one_direction_at_the_policy_that_acted_say_so_and_why():
    """Nobody else has another's direction; what is declared from row to row holds along the chain."""
    directions = {method: direction(method) for method in METHODS}
    kin = {method: {method, *METHODS[method].equals} for method in METHODS}
    for _ in METHODS:
        kin = {one: {far for near in METHODS if near in kin[one] or one in kin[near] for far in kin[near]} for one in METHODS}
    for one, other in itertools.combinations(METHODS, 2):
        parallel = float(directions[one] @ directions[other]) > 1 - 1e-9
        assert parallel == (other in kin[one]), (one, other)
    assert all(reason.count(":") == 1 for row in METHODS.values() for reason in row.equals.values())


def test_no_two_rollouts_of_the_forest_return_the_same():
    for tree in recorded():
        returns = tree.returns[tree.leaves].tolist()
        assert len(set(np.round(returns, 9))) == len(returns) > 1


def test_the_forest_lets_every_bound_act():
    """Ratios on both sides of the clip, and one above the dual bound of a token with a negative advantage."""
    trees, method = recorded()[:2], build("dapo", {"dual": 3.0})
    batch = update.make_batch(trees, method.credit(trees))
    facts = update.backward(Recorded(1), None, batch, method.objective, {"clip": STORED["clip"]})
    assert facts["clipped"] > facts["clipped_high"] > 0
    assert facts["clipped_dual"] > 0
