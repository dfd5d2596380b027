"""The policy that a run starts from: its settings and warm start, joined with what its sandbox's record brings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bpo.config import RunConfig
from bpo.errors import BadInput
from bpo.policies import check_device, check_kind, make_policy
from bpo.policy import Policy
from bpo.sandboxes import demonstration, factory, spec


def initial_policy(config: RunConfig, report: Callable[[str, int, int], None] | None = None) -> Policy:
    """The initial policy of a run; `report` is called as report(what, done, total)."""
    check_initial(config)
    check_device(config.policy.device)
    options, table = config.sandbox_options, spec(config.sandbox).table_of_logits
    return make_policy(
        config.policy,
        config.warm_start.of_run(config.seed) if config.warm_start else None,
        sandbox=factory(config.sandbox, options),
        demonstrate=demonstration(config.sandbox, options) if config.warm_start else None,
        table=partial(table, options) if table else None,
        report=report,
    )


def check_initial(config: RunConfig) -> None:
    """Raise BadInput where the initial policy could not be made, or not act in the run's sandbox; reads no weights.

    Whether this machine has its device is not looked at, so that a run can be checked where it is not to be carried out.
    """
    found = spec(config.sandbox)
    check_kind(config.policy, table=found.table_of_logits is not None)
    reason = found.needs_writing(config.sandbox_options)
    if reason and config.policy.writing != "free":
        raise BadInput(f"{reason}, which needs policy: writing: free")
    if config.warm_start:
        demonstration(config.sandbox, config.sandbox_options)
