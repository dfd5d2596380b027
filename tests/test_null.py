"""One method against itself under two names, in draws of seeds and tasks from the runs behind the committed tables."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from bpo import compare

TABLE = Path(__file__).resolve().parents[1] / "results" / "quick"
DRAWS = 200


@pytest.fixture(scope="module")
def areas():
    """row -> float [seeds, tasks]: areas under the learning curve of every task."""
    found: dict[str, dict[str, list[float]]] = {}
    with (TABLE / "by_task.csv").open() as file:
        for line in csv.DictReader(file):
            found.setdefault(line["row"], {}).setdefault(line["seed"], []).append(float(line["area"]))
    return {row: np.array(list(seeds.values())) for row, seeds in found.items()}


def drawn(values, seeds, rng):
    """float [seeds]: the mean of as many tasks as there are, drawn again for each of these seeds."""
    tasks = values.shape[1]
    return np.array([values[seed, rng.integers(0, tasks, tasks)].mean() for seed in seeds])


def table_axis(table, pair):
    """What a comparison's curves are against."""
    return next(one["axis"] for one in table["sets"] if one["name"] == pair["set"])


def test_two_names_of_one_method_do_not_differ(areas):
    """In at most 5 % of the draws has a table of such pairs, by the rule of all tables, any verdict at all.

    The two names share no seed, so each has half of them.
    """
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(DRAWS):
        pairs = {}
        for row, values in areas.items():
            order, half = rng.permutation(len(values)), len(values) // 2
            pairs[row] = compare.paired(*(drawn(values, part, rng) for part in (order[:half], order[half : 2 * half])))
        alarms += any(one.sign for one in compare.verdicts(pairs).values())
    assert alarms <= 0.05 * DRAWS


def test_a_pair_that_the_table_tells_apart_is_told_apart_with_tasks_drawn_again(areas):
    """The rule is no rule that never says anything."""
    table = json.loads((TABLE / "table.json").read_text())
    pairs = [pair for pair in table["pairs"] if pair["measure"] == "area" and table_axis(table, pair) == "update"]
    clear = min(pairs, key=lambda pair: pair["p"])
    rng = np.random.default_rng(1)
    seeds = range(len(areas[clear["a"]]))
    found = [
        compare.paired(*(drawn(areas[clear[name]], seeds, rng) for name in ("a", "b"))).p <= compare.ALPHA for _ in range(DRAWS)
    ]
    assert np.mean(found) >= 0.5
