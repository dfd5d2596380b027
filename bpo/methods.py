"""THE TABLE: every method is where the tree grows, who gets credit and how the policy moves.

Notebooks, the command line and the documentation read METHODS; nothing else knows a method's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bpo import credit, select
from bpo.credit import CreditRule
from bpo.errors import KINDS, BadInput, choose, scalar
from bpo.rollout import Growth
from bpo.select import Spacing


@dataclass(frozen=True)
class Method:
    """One row of the table.

    growth    parameters -> Growth
    credit    parameters -> credit rule
    objective key of bpo.objective.OBJECTIVES; clip and KL weight belong to the run, so that methods share them
    defaults  every parameter with its default; no others are accepted
    citation  where the method comes from
    fidelity  how far this follows its source, and what is our own reading
    bias      whether the gradient estimate is unbiased for grad J (at ratio 1 and without KL), and if not why
    """

    summary: str
    growth: Callable[[Mapping[str, Any]], Growth]
    credit: Callable[[Mapping[str, Any]], CreditRule]
    defaults: Mapping[str, Any]
    citation: str
    fidelity: str
    bias: str
    objective: str = "ppo_clip"


@dataclass(frozen=True)
class BuiltMethod:
    """A method with its parameters filled in: what the training loop runs."""

    name: str
    parameters: Mapping[str, Any]
    growth: Growth
    credit: CreditRule
    objective: str


# Where to branch, by the name used in configurations. The number in `selector_value` is nats, a quantile, a probability or
# a number of steps, as each selector needs.
CAUSAL = {
    "threshold": lambda value, spacing: select.Threshold(value, spacing),
    "quantile": lambda value, spacing: select.QuantileThreshold(value, spacing),
    "coin": lambda value, spacing: select.Coin(value, spacing),
    "every": lambda value, spacing: select.Every(int(value), spacing),
    "root_only": lambda value, spacing: select.RootOnly(spacing),
}
POST_HOC = {
    "top_entropy": select.TopEntropy,
    "top_window": select.TopWindow,
    "lowest_entropy": select.LowestEntropy,
    "random": select.RandomChoice,
    "equally_spaced": select.EquallySpaced,
}
# What `selector_value` may be beyond LOWEST, by selector: in words, and as a test.
VALUES = {
    "quantile": ("a quantile between 0 and 1", lambda value: 0 <= value <= 1),
    "coin": ("a probability between 0 and 1", lambda value: 0 <= value <= 1),
    "every": ("a whole number of steps, 1 or more", lambda value: value >= 1 and value == int(value)),
}
# Parameters that take one of a few words.
WORDS = {
    "unit": ("steps", "tokens"),
    "suffix": ("broadcast", "zero", "nearest"),
    "prefix": ("backbone", "off"),
    "fill": ("none", "root"),
    "weights": ("even", "planned"),
    "root_baseline": ("trees", "running", "zero"),
}
# What the parameters mean, for --help texts and documentation.
MEANING = {
    "returns": "rollouts per task",
    "points": "branch points per tree at most (M); with a root branch point, the root is one of them",
    "width": "children of a branch point, the one that was there included (K)",
    "selector": "where to branch",
    "selector_value": "nats (threshold), quantile of earlier boundaries, probability (coin) or number of steps (every)",
    "gap": "least distance of two branch points on a path, in `unit`",
    "unit": "what `gap` counts",
    "floor": "least entropy of a branch point, in nats",
    "fill": "what happens with returns that found no boundary: nothing, or more rollouts from the root",
    "suffix": "advantage of steps after a branch point: the point's, none, the nearest point's (the paper is silent)",
    "prefix": "advantage of steps before a branch point: the backbone's, discounted by lam, or none",
    "lam": "discount per step of the prefix rule",
    "root": "whether the root is a branch point",
    "weights": "share of a child in its parent's mass: 1/K, or the share of the returns that was planned below it",
    "nested": "whether children of branch points may branch in turn",
    "trees": "trees per task",
    "root_baseline": "baseline of steps above the first branch point: the task's other trees, mean of earlier trees, none",
    "shrink": "part of the level above in the sibling baseline; saves variance where `width` is small",
}
# Smallest and largest value that make sense.
LOWEST = {
    "returns": 2,
    "points": 0,
    "width": 2,
    "gap": 0,
    "floor": 0.0,
    "lam": 0.0,
    "trees": 1,
    "selector_value": 0.0,
    "shrink": 0.0,
}
HIGHEST = {"lam": 1.0, "shrink": 1.0}


def _spacing(p: Mapping[str, Any]) -> Spacing:
    return Spacing(gap=p["gap"], unit=p["unit"], floor=p["floor"])


def _independent(p: Mapping[str, Any]) -> Growth:
    return Growth(select.RootOnly(), points=1, width=p["returns"], root=True)


def _literal(p: Mapping[str, Any]) -> Growth:
    selector = POST_HOC[choose("selector", p["selector"], POST_HOC)](_spacing(p))
    return Growth(selector, points=p["points"], width=p["width"], fill=p["fill"])


def _split(p: Mapping[str, Any]) -> Growth:
    selector = CAUSAL[choose("selector", p["selector"], CAUSAL)](p["selector_value"], _spacing(p))
    return Growth(
        selector,
        points=p["points"],
        width=p["width"],
        root=p["root"],
        weights=p["weights"],
        nested=p["nested"],
        trees=p["trees"],
    )


METHODS: dict[str, Method] = {
    "rloo": Method(
        summary="N rollouts from the root, leave-one-out baseline",
        growth=_independent,
        credit=lambda p: credit.rloo,
        defaults={"returns": 13},
        citation="Ahmadian et al. 2024, arXiv 2402.14740",
        fidelity="full; the paper uses REINFORCE, which equals PPO-clip at one update per batch",
        bias="unbiased",
    ),
    "grpo": Method(
        summary="N rollouts from the root, advantage (R - mean) / population std",
        growth=_independent,
        credit=lambda p: credit.grpo,
        defaults={"returns": 8},
        citation="Shao et al. 2024, arXiv 2402.03300",
        fidelity="full for the advantage (BPO's Eq. 2); the loss sums over steps, no division by the response length",
        bias="biased: the own return is in mean and std",
    ),
    "drgrpo": Method(
        summary="GRPO without the division by the std",
        growth=_independent,
        credit=lambda p: credit.drgrpo,
        defaults={"returns": 8},
        citation="Liu et al. 2025, arXiv 2503.20783",
        fidelity="full",
        bias="biased by the constant factor (N-1)/N",
    ),
    "bpo": Method(
        summary="one backbone, forks at its M most uncertain boundaries, sibling baseline (the literal reading)",
        growth=_literal,
        credit=lambda p: partial(credit.bpo, suffix=p["suffix"], prefix=p["prefix"], lam=p["lam"]),
        defaults={
            "points": 4,
            "width": 4,
            "selector": "top_entropy",
            "gap": 64,
            "unit": "tokens",
            "floor": 0.0,
            "fill": "none",
            "suffix": "broadcast",
            "prefix": "backbone",
            "lam": 0.95,
        },
        citation="He et al. 2026, arXiv 2607.14171",
        fidelity="Eqs. 3 to 5 literally; new here: what steps after a branch point get (broadcast), ratios by token",
        bias="biased: post hoc selection, steps counted several times, unbranched steps untrained",
    ),
    "bpo_split": Method(
        summary="causal branch points and mass splitting: the unbiased repair",
        growth=_split,
        credit=lambda p: partial(credit.bpo_split, root_baseline=p["root_baseline"], shrink=p["shrink"]),
        defaults={
            "points": 4,
            "width": 4,
            "selector": "quantile",
            "selector_value": 0.5,
            "gap": 64,
            "unit": "tokens",
            "floor": 0.0,
            "root": True,
            "weights": "even",
            "nested": False,
            "trees": 1,
            "root_baseline": "trees",
            "shrink": 0.0,
        },
        citation="new here (importance splitting: Kahn and Harris 1951; Glasserman et al. 1999)",
        fidelity="new here",
        bias="unbiased",
    ),
}


def build(name: str, overrides: Mapping[str, Any] | None = None, where: str = "") -> BuiltMethod:
    """The method `name` with `overrides` on its defaults; BadInput names an unknown method, parameter or unusable value."""
    method = METHODS[choose("method", name, METHODS)]
    parameters = dict(method.defaults)
    for key, value in (overrides or {}).items():
        choose(f"parameter of {where}{name}:", key, parameters)
        parameters[key] = _checked(f"{where}{name}.{key}", key, value, method.defaults[key])
    if parameters.get("selector") in VALUES:
        selector, value = parameters["selector"], parameters["selector_value"]
        words, fits = VALUES[selector]
        if not fits(value):
            raise BadInput(f"{where}{name}.selector_value is {value!r}; for selector = {selector} it must be {words}")
    growth = method.growth(parameters)
    if name == "bpo_split" and not parameters["root"] and parameters["root_baseline"] == "trees" and growth.trees < 2:
        raise BadInput(f"{where}{name}.root_baseline: 'trees' needs trees >= 2 or root = true (trees is {growth.trees})")
    return BuiltMethod(name, parameters, growth, method.credit(parameters), method.objective)


def allowed(name: str, key: str) -> str:
    """The values that parameter `key` of method `name` may have, in words."""
    default = METHODS[name].defaults[key]
    if key == "selector":
        return ", ".join(POST_HOC if default in POST_HOC else CAUSAL)
    if key in WORDS:
        return ", ".join(WORDS[key])
    bounds = [f"{word} {table[key]:g}" for word, table in (("at least", LOWEST), ("at most", HIGHEST)) if key in table]
    return ", ".join([KINDS[type(default)], *bounds])


def _checked(where: str, key: str, value: Any, default: Any) -> Any:
    if key in WORDS and value not in WORDS[key]:
        raise BadInput(f"{where} is {value!r}; it must be one of {', '.join(WORDS[key])}")
    value = scalar(type(default), value, where, f", like {default!r}")
    if key in LOWEST and value < LOWEST[key]:
        raise BadInput(f"{where} is {value!r}; it must be at least {LOWEST[key]!r}")
    if key in HIGHEST and value > HIGHEST[key]:
        raise BadInput(f"{where} is {value!r}; it must be at most {HIGHEST[key]!r}")
    return value
