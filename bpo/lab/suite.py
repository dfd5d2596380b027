"""What the laboratory runs: which methods, families, policies, rates and seeds. Chosen before the seeds that are reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bpo.lab.families import FAMILIES
from bpo.lab.policies import POLICIES
from bpo.lab.run import RETURNS, train
from bpo.methods import METHODS, BuiltMethod, build

# What rows of the table are given where they have a parameter of that name: as many returns as the others, and branch points
# that are counted in actions, since an action has no tokens here.
COMMON: Mapping[str, Any] = {"returns": RETURNS, "unit": "steps", "gap": 1}


@dataclass(frozen=True)
class Suite:
    """One laboratory.

    rates     learning rates that are tried, from small to large
    pilot     seeds on which a rate is chosen; seeds and again: two disjoint sets that are reported
    truth     seeds that tell what intervals hold, the (family, policy) they are run in, and the methods
    updates   policy -> updates of the budget, see `run.Budget`
    map_*     what the map varies: horizon and depths of the decision, K, whether there is luck, prices of a fork in steps; its
              seeds, pilot seeds and rates, updates at most, and trees that a prediction is drawn from
    """

    families: tuple[str, ...] = tuple(FAMILIES)
    policies: tuple[str, ...] = POLICIES
    rates: tuple[float, ...] = (0.1, 0.2, 0.4)
    pilot: tuple[int, ...] = tuple(range(1000, 1003))
    seeds: tuple[int, ...] = tuple(range(20, 40))
    again: tuple[int, ...] = tuple(range(120, 140))
    truth: tuple[int, ...] = tuple(range(2000, 2500))
    truth_of: tuple[tuple[str, str], ...] = (("luck", "linear"),)
    truth_methods: tuple[str, ...] = ("bpo_split", "rloo")
    updates: Mapping[str, int] = field(default_factory=lambda: {"tabular": 12, "linear": 12})
    map_depths: tuple[tuple[int, tuple[int, ...]], ...] = ((4, (1, 2, 3)), (8, (1, 4, 7)))
    map_widths: tuple[int, ...] = (2, 4)
    map_luck: tuple[bool, ...] = (False, True)
    map_forks: tuple[float, ...] = (0.0, 1.0, 4.0)
    map_seeds: tuple[int, ...] = tuple(range(8))
    map_pilot: tuple[int, ...] = tuple(range(1000, 1002))
    map_rates: tuple[float, ...] = (0.2, 0.4, 0.8)
    map_updates: int = 120
    map_draws: int = 500


FULL = Suite()
# Seconds, for whoever wants to see it work: the numbers are no results.
QUICK = Suite(
    families=("late", "early"),
    policies=("linear",),
    rates=(0.4, 0.8),
    pilot=(1000,),
    seeds=(0, 1, 2),
    again=(100, 101, 102),
    truth=tuple(range(2000, 2012)),
    truth_of=(("late", "linear"),),
    updates={"linear": 2},
    map_depths=((3, (2,)),),
    map_widths=(2,),
    map_seeds=(0, 1, 2),
    map_pilot=(1000,),
    map_rates=(0.4, 0.8),
    map_updates=20,
    map_draws=50,
)


def parameters_of(name: str) -> dict[str, Any]:
    """What the laboratory sets of a method's parameters; the others have their defaults."""
    return {key: value for key, value in COMMON.items() if key in METHODS[name].parameters}


def built(name: str, parameters: Mapping[str, Any]) -> BuiltMethod:
    """The method, fresh."""
    return build(name, parameters)


def expressible(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """(methods that can be run here, method -> why it cannot be) of some rows of the table: each is tried for two updates."""
    able: list[str] = []
    unable: dict[str, str] = {}
    family = FAMILIES["shared"]()
    for name in names:
        try:
            for kind in POLICIES:
                train(family, kind, built(name, parameters_of(name)), 0.1, 0, lambda updates, spent, value: updates == 2)
        except Exception as error:  # whatever a row asks for that is not here: its reason is shown in the table
            unable[name] = " ".join(f"{type(error).__name__}: {error}".split())
        else:
            able.append(name)
    return able, unable
