"""The table of methods: what rows say of themselves, what their parameters refuse, and that runs keep their names."""

from __future__ import annotations

import math

import pytest

from bpo.config import load_preset
from bpo.errors import BadInput
from bpo.methods import METHODS, SELECTORS, build
from bpo.provenance import parts
from bpo.select import Spacing

# Hashes that finished runs have in their folders' names.
HASHES = {
    ("smoke", "toy"): {
        "bpo": "71ab0010",
        "bpo_split": "b18f72af",
        "drgrpo": "e0426e82",
        "grpo": "80033a7b",
        "rloo": "d7958252",
    },
    ("smoke", "codefix"): {
        "bpo": "fc4c2df8",
        "bpo_split": "8d3faac7",
        "drgrpo": "2f37df04",
        "grpo": "39c9202a",
        "rloo": "b57ba65b",
    },
    ("quick", "household"): {
        "bpo": "819baa4a",
        "bpo_split": "9d70b505",
        "drgrpo": "9d2b4f2f",
        "grpo": "bca1fe23",
        "rloo": "14d6bbd3",
    },
}


@pytest.mark.parametrize(("preset", "sandbox"), HASHES)
def test_a_run_keeps_the_hash_that_it_had_before(preset, sandbox):
    """The default of every parameter is part of the hash, so a changed default would set finished runs aside."""
    found = {name: load_preset(preset).run(name, sandbox, 0).hash for name in HASHES[preset, sandbox]}
    assert found == HASHES[preset, sandbox]


@pytest.mark.parametrize("name", METHODS)
def test_every_row_explains_itself(name):
    row, built = METHODS[name], build(name)
    assert METHODS.origin(name) == "bpo"
    assert row.citation
    assert row.fidelity
    assert row.bias.startswith(("biased", "unbiased"))
    assert row.bias.startswith("unbiased") <= built.growth.causal
    assert all(parameter.meaning and parameter.allowed for parameter in row.parameters.values())
    assert built.parameters == row.defaults
    assert built.mechanism
    assert all(one.meaning for one in built.mechanism.values())
    assert parts(built.objective)[0][0].__module__.startswith("bpo.objective.")
    assert built.growth.planned_returns >= 8


def test_every_method_keeps_parameters_of_its_own():
    """The same word may have another default, meaning or bound in another row."""
    assert (METHODS["rloo"].defaults["returns"], METHODS["grpo"].defaults["returns"]) == (13, 8)
    assert set(METHODS["bpo"].parameters["selector"].choices) | set(METHODS["bpo_split"].parameters["selector"].choices) == set(
        SELECTORS
    )
    assert not set(METHODS["bpo"].parameters["selector"].choices) & set(METHODS["bpo_split"].parameters["selector"].choices)


@pytest.mark.parametrize("name", SELECTORS)
def test_a_selector_is_of_the_kind_that_its_row_says(name):
    row = SELECTORS[name]
    selector = row.make(Spacing(gap=3), math.nan if row.value is None else row.value.default)
    assert selector.causal == row.causal
    assert selector.spacing.gap == 3


@pytest.mark.parametrize(("selector", "value"), [("quantile", 1.5), ("coin", 3.0), ("every", 0.0), ("every", 0.5)])
def test_a_selector_refuses_a_value_that_it_cannot_use(selector, value):
    with pytest.raises(BadInput, match=f"selector_value is {value}; for selector = {selector}"):
        build("bpo_split", {"selector": selector, "selector_value": value})


def test_a_number_of_steps_may_be_written_with_a_point():
    assert build("bpo_split", {"selector": "every", "selector_value": 2.0}).growth.selector.every == 2


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("grpo", {"returns": 1}, "grpo.returns is 1; it must be at least 2"),
        ("grpo", {"returns": 8.0}, "grpo.returns is 8.0; it must be a whole number, like 8"),
        ("bpo", {"lam": math.nan}, "bpo.lam is nan; it must be a finite number"),
        ("bpo", {"lam": 1.5}, "bpo.lam is 1.5; it must be at most 1.0"),
        ("bpo", {"selector": "quantile"}, "bpo.selector is 'quantile'; it must be one of top_entropy, "),
        ("bpo_split", {"floor": math.inf}, "bpo_split.floor is inf; it must be a finite number"),
        ("bpo_split", {"weights": "odd"}, "bpo_split.weights is 'odd'; it must be one of even, planned"),
        ("bpo_split", {"root": False}, "bpo_split.root_baseline: 'trees' needs trees >= 2 or root = true (trees is 1)"),
        ("rloo", {"width": 3}, "unknown parameter of rloo: 'width'"),
        ("rlo", {}, "unknown method 'rlo'; did you mean 'rloo'?"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(method, parameters, message):
    with pytest.raises(BadInput) as error:
        build(method, parameters)
    assert str(error.value).startswith(message)
