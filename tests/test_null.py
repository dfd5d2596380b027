"""One method against itself under two names, in draws of seeds and tasks from the runs behind the committed tables."""

import csv
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


def test_rows_that_are_far_apart_are_told_apart_with_tasks_drawn_again(areas):
    """The rule is no rule that never says anything: the highest and the lowest row differ in most draws.

    They do not have equal returns.
    """
    means = {row: values.mean() for row, values in areas.items()}
    high, low = areas[max(means, key=means.get)], areas[min(means, key=means.get)]
    rng, seeds = np.random.default_rng(1), range(len(high))
    found = [compare.paired(drawn(high, seeds, rng), drawn(low, seeds, rng)).p <= compare.ALPHA for _ in range(DRAWS)]
    assert np.mean(found) > 0.5
