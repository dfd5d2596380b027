"""Pools of training tasks and warm starts of their own: a function of the seed alone, the same for all methods."""

from dataclasses import replace

import numpy as np
import pytest

from bpo.config import RunConfig, Settings, load_preset
from bpo.errors import BadInput
from bpo.policies.settings import PolicySettings, WarmStart
from bpo.policies.warmstart import demonstrations
from bpo.pool import POOL, evaluation_tasks, split_tasks, training_tasks
from bpo.preflight import check_run
from bpo.sandbox import Observation, Outcome
from bpo.sandboxes.toy import ToyTree
from bpo.train import Trainer

SETTINGS = Settings(updates=2, train_tasks=3, tasks_per_update=2, lr=0.1, curve_every=1, curve_split=POOL, curve_samples=2)


def config(settings=SETTINGS, seed=0, method="rloo"):
    options = {"returns": [0, 0, 1, 0, 1, 1, 0, 1]}
    return RunConfig(method, {}, "toy", options, PolicySettings(kind="tabular"), None, settings, seed)


class Numbered:
    """A sandbox of so many tasks, each won by its own number."""

    def __init__(self, count=1000):
        self.count, self.task = count, ""

    def tasks(self, split):
        return [f"{split}/{number}" for number in range(self.count)]

    def reset(self, task):
        self.task = task
        return Observation("go", (task,), task, 0)

    def step(self, action):
        return Outcome(Observation("end", (), self.task, 1), float(action == self.task), True, {})


def test_a_pool_is_drawn_by_the_seed_and_nothing_else():
    pools = [training_tasks(Numbered(), replace(SETTINGS, train_tasks=32), seed) for seed in (0, 0, 1)]
    assert pools[0] == pools[1] != pools[2]
    assert len(set(pools[0])) == 32
    assert all(task.startswith("train/") for task in pools[0])
    others = replace(SETTINGS, train_tasks=32, tasks_per_update=7, lr=1.0, updates=9)
    assert training_tasks(Numbered(), others, 0) == pools[0]
    assert list(split_tasks(Numbered(), POOL, others, 0)) == pools[0]


def test_without_a_pool_all_tasks_are_trained_on_and_the_first_are_evaluated():
    plain = replace(SETTINGS, train_tasks=0)
    assert len(training_tasks(Numbered(), plain, 5)) == 1000
    assert evaluation_tasks(Numbered(), "valid", 4, plain, 5) == Numbered().tasks("valid")[:4]


def test_evaluation_tasks_are_drawn_by_the_seed_where_there_is_a_pool():
    first, again, other = (evaluation_tasks(Numbered(), "valid", 20, SETTINGS, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert len(set(first)) == 20
    assert set(evaluation_tasks(Numbered(), "seen", 20, SETTINGS, 0)) != {task.replace("valid", "seen") for task in first}
    assert evaluation_tasks(Numbered(7), "valid", 20, SETTINGS, 0) == Numbered(7).tasks("valid")
    assert len(evaluation_tasks(Numbered(), POOL, 20, SETTINGS, 0)) == 3


def test_a_run_trains_on_its_pool_alone_and_its_curve_tells_every_task(tmp_path):
    trainer = Trainer(config(), tmp_path)
    met = {task for number in range(20) for task in trainer.tasks_of(number)}
    assert met == set(training_tasks(trainer.sandboxes[0], SETTINGS, 0))
    point = trainer.curve()
    assert len(point["curve_by_task"]) == 3
    assert point["curve"] == pytest.approx(np.mean(point["curve_by_task"]))
    assert {2 * share for share in point["curve_by_task"]} <= {0.0, 1.0, 2.0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train_tasks": 0}, "the split 'pool' is the run's own training tasks, of which train_tasks says how many; it is 0"),
        ({"tasks_per_update": 4}, "tasks_per_update is 4; there are 3 training tasks"),
        ({"train_tasks": 10**6}, "train_tasks is 1000000, but there are"),
    ],
)
def test_pools_that_cannot_be_are_refused(changes, said):
    with pytest.raises(BadInput, match=said):
        check_run(config(replace(SETTINGS, **changes)))


def test_settings_that_are_not_used_leave_the_name_of_a_run_as_it_was():
    plain = config(replace(SETTINGS, train_tasks=0, curve_samples=1)).plain()["settings"]
    assert not {"train_tasks", "curve_samples", "mini_batches"} & set(plain)
    assert config().plain()["settings"]["train_tasks"] == 3


def test_every_seed_has_games_and_weights_of_its_own_where_the_recipe_says_so():
    recipe = WarmStart(games=5, demonstrations=1, per_seed=True)
    assert [recipe.of_run(seed).seed for seed in (0, 3)] == [0, 3]
    assert WarmStart(seed=4).of_run(3) == WarmStart(seed=4)

    def games(seed):
        episodes = demonstrations(Numbered(), recipe.of_run(seed), lambda game, _: [game])
        return [episode[0][1] for episode in episodes]

    assert games(0) == games(0)
    assert len(set(games(0)) | set(games(1))) == 10
    shared = demonstrations(Numbered(), replace(recipe, per_seed=False), lambda game, _: [game])
    assert [episode[0][1] for episode in shared] == Numbered().tasks("train")[:5]


def test_the_household_s_pools_do_not_repeat_between_seeds():
    preset = load_preset("smoke")
    seen = [task for seed in range(20) for task in training_tasks(ToyTree(range(8)), SETTINGS, seed)]
    assert len(seen) == 60
    settings = replace(preset.settings, train_tasks=32)
    from bpo.sandboxes.household import Household

    pools = [set(training_tasks(Household(), settings, seed)) for seed in range(10)]
    assert len(set.union(*pools)) > 0.99 * 320
