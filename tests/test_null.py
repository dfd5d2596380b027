"""One method against itself under two names, in draws of seeds and tasks from the runs behind the committed tables."""

import csv
from pathlib import Path

import numpy as np
import pytest

from bpo import compare

RESULTS = Path(__file__).resolve().parents[1] / "results"
DRAWS, SEEDS = 200, 5


@pytest.fixture(scope="module")
def areas():
    """row -> float [seeds, tasks]: areas under the learning curve of every task, of both tables' seeds."""
    found: dict[str, dict[tuple[str, str], list[float]]] = {}
    for name in ("quick", "quick-from-20"):
        with (RESULTS / name / "by_task.csv").open() as file:
            for line in csv.DictReader(file):
                found.setdefault(line["row"], {}).setdefault((name, line["seed"]), []).append(float(line["area"]))
    return {row: np.array(list(seeds.values())) for row, seeds in found.items()}


def drawn(values, seeds, rng):
    """float [seeds]: the mean of as many tasks as there are, drawn again for each of these seeds."""
    tasks = values.shape[1]
    return np.array([values[seed, rng.integers(0, tasks, tasks)].mean() for seed in seeds])


def test_two_names_of_one_method_do_not_differ(areas):
    """In at most 5 % of the draws has a table of such pairs, by the rule of all tables, any verdict at all."""
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(DRAWS):
        pairs = {}
        for row, values in areas.items():
            if ", equal" in row:
                continue
            order = rng.permutation(len(values))
            pairs[row] = compare.paired(*(drawn(values, order[half : half + SEEDS], rng) for half in (0, SEEDS)))
        assert len(pairs) == 4
        alarms += any(one.sign for one in compare.verdicts(pairs).values())
    assert alarms <= 0.05 * DRAWS


def test_the_same_draws_tell_methods_apart_that_differ(areas):
    """The rule is no rule that never says anything: the pair that the table finds furthest apart is found in most draws."""
    rng, found = np.random.default_rng(1), 0
    plain = {row: values for row, values in areas.items() if ", equal" not in row}
    means = {row: values.mean() for row, values in plain.items()}
    high, low = max(means, key=means.get), min(means, key=means.get)
    for _ in range(DRAWS):
        seeds = rng.permutation(len(plain[high]))[:SEEDS]
        found += compare.paired(drawn(plain[high], seeds, rng), drawn(plain[low], seeds, rng)).p <= compare.ALPHA
    assert found >= 0.8 * DRAWS
