"""The arithmetic of the floor, on numbers that can be checked by hand, and what its tables hold."""

from __future__ import annotations

import importlib
import sys

import pytest
from places import ROOT

from bpo.policies.prefix_sharing import plan

sys.path.insert(0, str(ROOT / "benchmarks"))
figures = importlib.import_module("floor_figures")
floor = importlib.import_module("floor")
sys.path.remove(str(ROOT / "benchmarks"))

SMALL = figures.Model(layers=2, width=4, heads=4, keys=2, inner=6, vocabulary=10)


def test_what_sequences_share_is_read_once_and_attends_once():
    todo = figures.work(plan([(1, 2, 3, 4), (1, 2, 5)], shortest=1), asked=2)
    # Two shared tokens see 1 and 2 tokens, then 3 and 4 on one path, 3 on the other.
    assert (todo.tokens, todo.pairs, todo.asked) == (5, 1 + 2 + 3 + 4 + 3, 2)


def test_the_operations_of_a_small_model_are_those_counted_by_hand():
    todo = figures.Work(tokens=5, pairs=13, asked=2)
    keys_and_values, others = 2 * 4 * 2, 2 * 4 * 4 + 3 * 4 * 6
    linear = 5 * (2 * keys_and_values + others) + 2 * others
    attention = 2 * 4 * 13 * (1 + 2 / 5)
    assert figures.operations(SMALL, todo) == pytest.approx(2 * (linear + attention + 2 * 4 * 10))
    # Where all tokens have a choice, every weight is used for every token.
    every = figures.operations(SMALL, figures.Work(tokens=5, pairs=0, asked=5))
    assert every == pytest.approx(2 * 5 * (2 * (keys_and_values + others) + 4 * 10))


def one(rollout: float, update: float, log_prob: float, tokens=(3,)) -> dict:
    todo = {"tokens": 5, "pairs": 13, "asked": 2}
    return {
        "seconds": {"rollout": rollout, "update": update},
        "work": {"rollout": todo, "update": todo},
        "drawn": [[list(tokens), [log_prob]]],
    }


def test_an_update_reads_four_times_and_rows_say_how_far_above_the_floor_it_is():
    found = {"rloo": {"updates": [one(1.0, 2.0, 0.0)] * 3}}
    needed = figures.operations(SMALL, figures.Work(5, 13, 2))
    rows = figures.rows_of(found, SMALL, rate=needed)
    assert [row["floor_s"] for row in rows] == pytest.approx([1.0, 4.0])
    assert [row["times"] for row in rows] == pytest.approx([1.0, 0.5])


def test_shares_of_the_parts_and_the_rest_add_up_to_one():
    parts = {"seconds": {"rollout": 1.0, "update": 3.0}, "parts": {"sandbox": 1.0, "attention": 0.5}}
    shares = figures.shares({"rloo": {"parts": parts}})["rloo"]
    assert shares == pytest.approx({"sandbox": 0.25, "attention": 0.125, "the rest": 0.625})


def test_a_comparison_takes_neighbours_and_what_both_drew_alike():
    now = [one(1.0, 1.0, -0.5), one(1.0, 1.0, -0.5), one(2.0, 2.0, -0.7, tokens=(4,))]
    then = [one(2.0, 4.0, -0.5), one(3.0, 5.0, -0.5 - 1e-6), one(4.0, 4.0, -0.1)]
    found = floor.compared(now, then)
    assert (found["ratio"], found["halves"]) == (3.0, {"rollout": 2.0, "update": 4.0})
    assert found["log_probs"] == pytest.approx(1e-6)
    assert (found["alike"], found["decisions"]) == (2, 3)


def test_parts_leave_out_what_parts_inside_them_take(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(floor.time, "process_time", lambda: float(next(clock)))
    parts, stack = {"outer": 0.0, "inner": 0.0}, [0.0]
    inner = floor._timed(lambda: None, "inner", parts, stack)
    floor._timed(lambda: (inner(), inner()), "outer", parts, stack)()
    assert parts == {"outer": 3.0, "inner": 2.0}
