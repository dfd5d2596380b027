"""What a dry run checks, and every run before its first file: values, policy, sandbox, splits, sizes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from bpo.errors import BadInput, at_least, at_most, shown
from bpo.policies.settings import MOST
from bpo.pool import POOL, split_tasks, training_tasks

if TYPE_CHECKING:
    from bpo.config import RunConfig

# Most returns that may be planned for a task; the methods of the field have 4 to 64.
RETURNS = 10_000


def check_run(config: RunConfig, noise_draws: int = 0, noise_tasks: int = 1) -> dict[str, int]:
    """Number of tasks per split of a run that can start here; BadInput names what keeps it from that.

    Whether this machine has the policy's device is looked at last, so that all else has been checked where it has not.
    """
    counts = check_elsewhere(config, noise_draws, noise_tasks)
    check_machine(config)
    return counts


def check_machine(config: RunConfig) -> None:
    """BadInput where this machine lacks the device of a run."""
    from bpo.policies import check_device

    try:
        check_device(config.policy.device)
    except BadInput as error:
        raise BadInput(f"{error}; all else of this run is valid") from None


def check_elsewhere(config: RunConfig, noise_draws: int = 0, noise_tasks: int = 1) -> dict[str, int]:
    """As `check_run`, for a run that is to be carried out on a machine that has the policy's device.

    One sandbox is made and closed; nothing is written and no weights are read. What it leaves to the run itself: whether a
    model's weights can be loaded and whether memory and disk are large enough.
    """
    from bpo.cache import check_cache
    from bpo.config import checked
    from bpo.initial import check_initial
    from bpo.sandboxes import factory

    checked(config)
    for name, value, low in (("noise_draws", noise_draws, 0), ("noise_tasks", noise_tasks, 1)):
        if type(value) is not int:
            raise BadInput(f"{name} is {shown(value)}; it must be a whole number")
        at_least(name, value, low)
        at_most(name, value, MOST)
    check_initial(config)
    if config.warm_start:
        check_cache()
    growth = config.recipe().growth
    at_most("the number of returns per task that the method plans", growth.planned_returns * growth.trees, RETURNS)
    with contextlib.closing(factory(config.sandbox, config.sandbox_options)()) as sandbox:
        return _counts(config, sandbox)


def _counts(config: RunConfig, sandbox: Any) -> dict[str, int]:
    settings, start = config.settings, config.warm_start
    splits = ("train", settings.curve_split, *settings.eval_splits, *((start.split,) if start else ()))
    counts = {split: len(split_tasks(sandbox, split, settings, config.seed)) for split in splits}
    if POOL in counts and not settings.train_tasks:
        raise BadInput(f"the split {POOL!r} is the run's own training tasks, of which train_tasks says how many; it is 0")
    trained = len(training_tasks(sandbox, settings, config.seed))
    for split, count in counts.items():
        if not count:
            raise BadInput(f"the split {split!r} of {config.sandbox} with these options has no tasks")
    if settings.tasks_per_update > trained:
        raise BadInput(f"tasks_per_update is {settings.tasks_per_update}; there are {trained} training tasks")
    if start and start.games > counts[start.split]:
        raise BadInput(f"warm_start: games is {start.games}; the split {start.split!r} has {counts[start.split]} tasks")
    return counts
