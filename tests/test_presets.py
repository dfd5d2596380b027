"""The presets of the package: every row of every table is a run that can start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bpo.config import load_preset, preset_names
from bpo.errors import BadInput

# PRESET/SANDBOX/METHOD, or PRESET/SANDBOX/row LABEL, to the configuration's hash: runs that exist are found by it.
HASHES = json.loads(Path(__file__).with_name("preset_hashes.json").read_text())
PAIRS = [(name, sandbox) for name in preset_names() for sandbox in load_preset(name).sandboxes]
# Returns that are planned by rows, as their labels say.
RETURNS = {"bpo M4 K4": 13, "bpo_split root+3 K4": 13, **{f"{m} N{n}": n for m in ("rloo", "grpo") for n in (8, 12, 13)}}


@pytest.mark.parametrize(("name", "sandbox"), PAIRS)
def test_every_row_is_a_valid_run_with_the_returns_of_its_label(name, sandbox):
    preset = load_preset(name)
    sweep = preset.sweep_of(sandbox)
    assert len(sweep.rows) >= 4
    for row in sweep.rows:
        config = preset.run(row.method, sandbox, sweep.seeds[0], row.parameters)
        assert config.recipe().growth.planned_returns == RETURNS[row.label]
    # Rows of one table differ by nothing but the method.
    shared = {
        (str(config.settings), str(config.policy), str(config.warm_start), str(config.sandbox_options))
        for row in sweep.rows
        for config in [preset.run(row.method, sandbox, 0, row.parameters)]
    }
    assert len(shared) == 1


@pytest.mark.parametrize("name", ["smoke", "quick", "laptop"])
def test_program_repair_branches_without_a_floor(name):
    """A policy that is sure of most steps would leave branches unused; the methods are those of the web shop's table."""
    preset = load_preset(name)
    assert [row.method for row in preset.sweep_of("codefix").rows] == [row.method for row in preset.sweep_of("webshop").rows]
    for row in preset.sweep_of("codefix").rows:
        if row.method in ("bpo", "bpo_split"):
            assert preset.run(row.method, "codefix", 0, row.parameters).recipe().parameters["floor"] == 0.0


def test_the_paper_s_preset_does_not_pass_off_program_repair_as_swe_bench():
    with pytest.raises(BadInput, match="preset 'paper' has no settings for sandbox 'codefix'"):
        load_preset("paper").section("codefix")


@pytest.mark.parametrize("name", preset_names())
def test_every_configuration_keeps_the_hash_that_its_finished_runs_are_found_by(name):
    preset, checked = load_preset(name), 0
    for place, asked in HASHES.items():
        told, sandbox, method = place.split("/", 2)
        if told == name:
            rows = {f"row {row.label}": row for row in preset.sweep_of(sandbox).rows}
            row = rows.get(method)
            config = preset.run(row.method, sandbox, 0, row.parameters) if row else preset.run(method, sandbox, 0)
            assert config.hash == asked, place
            checked += 1
    assert checked >= 20
