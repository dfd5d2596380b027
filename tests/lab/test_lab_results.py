"""From cells to tables: rates by the written rule, verdicts, resuming, the command line, and the results that are committed."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bpo import cli
from bpo.errors import BadInput
from bpo.lab import cells, laboratory, table, verdict
from bpo.lab.families import FAMILIES
from bpo.lab.report import page
from bpo.lab.suite import FULL, QUICK, Suite

# Smaller than `--quick`: what is tested is the way, not the numbers.
TINY = replace(QUICK, families=("shared",), seeds=(0, 1), again=(100, 101), truth=tuple(range(2000, 2006)), map_draws=20)
TINY = replace(TINY, truth_of=(("shared", "linear"),), map_seeds=(0, 1), map_updates=5, truth_methods=("bpo_split", "rloo"))
COMMITTED = Path(__file__).parents[2] / "results" / "lab" / laboratory.FILE


def results(areas, method="rloo", rule="own", family="late", policy="linear", failed=""):
    named = {"family": family, "policy": policy, "method": method, "rule": rule, "failed": failed, "seeds": []}
    return {**named, **{f"area_{axis}": list(areas) for axis in ("returns", "steps", "cost")}}


def canned(values):
    """A runner whose cells have measured `values[method, rate]` on every seed; None: the budget was not reached."""

    def run(wanted, phase):
        found = {}
        for cell in wanted:
            value = values[cell.method, cell.lr]
            failed = "weights are no numbers" if value == "failed" else ""
            rows = [] if failed else [{"area_steps": value} for _ in cell.seeds]
            found[cell] = {"rows": rows, "failed": failed}
        return found

    return run


def test_the_rate_with_the_largest_area_is_chosen_and_of_equal_ones_the_smallest():
    suite = replace(TINY, rates=(0.1, 0.2, 0.4))
    rates = {
        ("rloo", 0.1): 0.3,
        ("rloo", 0.2): 0.6,
        ("rloo", 0.4): 0.6,
        ("grpo", 0.1): 0.2,
        ("grpo", 0.2): 0.3,
        ("grpo", 0.4): 0.5,
    }
    rows = {row["method"]: row for row in table.choose_rates(suite, ["rloo", "grpo"], canned(rates))}
    assert (rows["rloo"]["own"], rows["rloo"]["edge"]) == (0.2, False)
    assert (rows["grpo"]["own"], rows["grpo"]["edge"]) == (0.4, True)
    assert {row["common"] for row in rows.values()} == {0.4}
    assert rows["grpo"]["tried"] == [0.2, 0.3, 0.5]


def test_a_rate_that_fails_or_misses_the_budget_is_not_chosen_nor_common():
    suite = replace(TINY, rates=(0.1, 0.2, 0.4))
    rates = {
        ("rloo", 0.1): 0.3,
        ("rloo", 0.2): 0.6,
        ("rloo", 0.4): "failed",
        ("bpo", 0.1): 0.2,
        ("bpo", 0.2): 0.1,
        ("bpo", 0.4): None,
    }
    rows = {row["method"]: row for row in table.choose_rates(suite, ["rloo", "bpo"], canned(rates))}
    assert (rows["rloo"]["own"], rows["bpo"]["own"], rows["bpo"]["common"]) == (0.2, 0.1, 0.2)
    nothing = {(method, lr): "failed" for method in ("rloo", "bpo") for lr in suite.rates}
    assert {row["own"] for row in table.choose_rates(suite, ["rloo", "bpo"], canned(nothing))} == {None}


def test_verdicts_of_a_table_are_corrected_for_all_its_pairs():
    rng = np.random.default_rng(0)
    rows = [
        results(0.5 + 0.01 * rng.normal(size=20), "rloo"),
        results(0.6 + 0.01 * rng.normal(size=20), "bpo"),
        results(0.5 + 0.01 * rng.normal(size=20), "grpo"),
        results(0.9 + 0.01 * rng.normal(size=20), "bpo", rule="common"),
    ]
    found = verdict.of_table(rows, "steps", "own")
    assert {key[2:]: one.sign for key, one in found.items()} == {("rloo", "bpo"): -1, ("rloo", "grpo"): 0, ("bpo", "grpo"): 1}
    assert found["late", "linear", "rloo", "bpo"].adjusted == pytest.approx(
        3 * min(one.difference.p for one in found.values()), rel=2
    )


def test_a_method_that_did_not_spend_the_budget_is_in_no_verdict():
    rows = [results([0.5, 0.6]), results([0.5, None], "bpo"), results([], "grpo", failed="NaN"), results([0.1, 0.3], "drgrpo")]
    assert [key[2:] for key in verdict.of_table(rows, "steps", "own")] == [("rloo", "drgrpo")]


def test_agreement_tells_same_none_one_sided_and_opposite_verdicts_apart():
    rng = np.random.default_rng(1)

    def of(means):
        rows = [results(mean + 0.01 * rng.normal(size=20), name) for name, mean in means.items()]
        return verdict.of_table(rows, "steps", "own")

    one = of({"a": 0.1, "b": 0.5, "c": 0.5})
    alike = {"same": 2, "none": 1, "one_only": 0, "opposite": 0, "pairs": 3, "opposed": []}
    assert verdict.agreement(one, of({"a": 0.1, "b": 0.5, "c": 0.5})) == alike
    found = verdict.agreement(one, of({"a": 0.9, "b": 0.5, "c": 0.9}))
    assert (found["same"], found["opposite"], found["one_only"]) == (0, 1, 2)
    assert found["opposed"] == [["late", "linear", "a", "b"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    return folder, laboratory.run(TINY, laboratory.PARTS, folder, 1)


def numbers(found):
    return {key: value for key, value in found.items() if key not in ("cpu_s", "wall_s", "origin")}


def test_a_laboratory_has_every_part_and_says_where_it_comes_from(made):
    _, found = made
    assert {row["rule"] for row in found["table"]} == {"own", "common"}
    assert [row["seeds"] for row in found["again"]] == [[100, 101]] * len(found["methods"])
    assert {row["method"] for row in found["truth"]} == {"bpo_split", "rloo"}
    assert len(found["map"]) == 2 * len(TINY.map_forks)
    assert {"commit", "dirty", "code", "versions", "host", "date"} <= set(found["origin"])
    assert all(value >= 0 for value in found["cpu_s"].values())


def test_an_interrupted_run_ends_with_the_same_numbers(made, tmp_path, monkeypatch):
    whole_run, ran = cells.run, []

    def stops(cell):
        if len(ran) == 5:
            raise KeyboardInterrupt
        ran.append(cell)
        return whole_run(cell)

    monkeypatch.setattr(cells, "run", stops)
    with pytest.raises(KeyboardInterrupt):
        laboratory.run(TINY, laboratory.PARTS, tmp_path, 1)
    assert len(list((tmp_path / "cells").iterdir())) == 5
    again = []
    monkeypatch.setattr(cells, "run", lambda cell: again.append(cell) or whole_run(cell))
    found = laboratory.run(TINY, laboratory.PARTS, tmp_path, 1)
    assert numbers(found) == numbers(made[1])
    assert not set(again) & set(ran)


def test_two_processes_find_what_one_does(made, tmp_path):
    found = laboratory.run(TINY, ("table",), tmp_path, 2)
    assert found["table"] == made[1]["table"]


def test_a_part_is_kept_when_another_one_is_run_and_dropped_when_the_suite_has_changed(made):
    folder, found = made
    again = laboratory.run(TINY, ("table",), folder, 1)
    assert again["map"] == found["map"]
    assert "map" not in laboratory.run(replace(TINY, seeds=(0, 2)), ("table",), folder, 1)
    laboratory.run(TINY, laboratory.PARTS, folder, 1)


def test_a_cell_is_named_by_its_content_and_by_the_code_behind_it(monkeypatch):
    cell = cells.Cell("late", "linear", "rloo", (("returns", 13),), 0.4, 2, (0, 1))
    assert cell.name == replace(cell).name
    names = {cell.name, replace(cell, lr=0.5).name, replace(cell, seeds=(0, 2)).name, replace(cell, family="early").name}
    monkeypatch.setattr(cells, "code", lambda *given: "other code")
    assert len(names | {cell.name}) == 5


def test_a_damaged_cell_is_refused_by_name(made, tmp_path):
    cell = cells.Cell("late", "linear", "rloo", (("returns", 13),), 0.4, 2, (0, 1))
    path = tmp_path / f"{cell.name}.json"
    for text in ("{", "[]", json.dumps({"cell": {**asdict(cell), "lr": 9.0}, "rows": []})):
        path.write_text(text)
        with pytest.raises(BadInput, match=cell.name):
            cells.finished(cell, tmp_path)


def test_a_rate_that_makes_weights_infinite_fails_with_its_reason():
    found = cells.run(cells.Cell("shared", "linear", "rloo", (("returns", 13),), 1e308, 2, (0, 1)))
    assert found["rows"] == []
    assert found["failed"].startswith("seed 0: ")


def test_the_page_has_a_section_per_part_and_names_what_cannot_be_run(made):
    found = {**made[1], "unable": {"poet": "NotImplementedError: it needs words"}}
    text = page(found)
    for head in ("Families", "verdicts", "Learning rates", "What was spent", "Two disjoint sets", "trusted", "The map"):
        assert any(line.startswith("## ") and head in line for line in text.splitlines()), head
    assert "n/a: poet (NotImplementedError: it needs words)" in text
    short = [row | {"area_steps": [None, None]} if row["method"] == "bpo" else row for row in found["table"]]
    assert "the budget was not reached" in page({**found, "table": short})
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1


def test_the_figure_of_the_map_is_drawn(made, tmp_path):
    pytest.importorskip("matplotlib")
    from bpo.lab.figure import chart
    from bpo.viz.plots import save

    figure = chart(made[1]["map"])
    assert len(figure.axes) == 2 * len(TINY.map_forks)
    save(figure, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"


def bpo(*arguments):
    return CliRunner().invoke(cli.app, ["lab", *map(str, arguments)])


def test_help_has_examples():
    shown = bpo("--help")
    assert shown.exit_code == 0
    assert "bpo lab --quick" in shown.output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("tabel",), "did you mean 'table'"),
        (("--processes", 0), "--processes is 0"),
        (("--processes", 100000), "--processes is 100000"),
        (("--tables", "--out", "nowhere"), "run `bpo lab --out nowhere` first"),
        (("--out", "file"), "--out 'file'"),
        (("--tables", "--out", "damaged"), "is no result of the laboratory"),
    ],
)
def test_bad_input_is_one_sentence(arguments, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("damaged").mkdir()
    (Path("damaged") / laboratory.FILE).write_text("{}")
    result = bpo(*arguments)
    assert isinstance(result.exception, BadInput)
    assert named in str(result.exception)
    assert "\n" not in str(result.exception)


def test_tables_are_written_again_from_the_numbers_alone(made, tmp_path):
    folder, found = made
    (tmp_path / laboratory.FILE).write_text((folder / laboratory.FILE).read_text())
    assert bpo("--tables", "--out", tmp_path).exit_code == 0
    assert (tmp_path / "lab.md").read_text() == page(json.loads((folder / laboratory.FILE).read_text()))
    # Another test may have run the same laboratory again meanwhile: all but its date and times is the same.
    assert numbers(found) == numbers(json.loads((tmp_path / laboratory.FILE).read_text()))


def committed():
    return json.loads(COMMITTED.read_text())


def test_the_committed_run_is_of_the_suite_that_the_code_has_and_its_page_of_its_numbers():
    found = committed()
    assert found["suite"] == json.loads(json.dumps(asdict(FULL)))
    assert (COMMITTED.parent / "lab.md").read_text() == page(found)
    assert (found["suite"]["families"], len(found["suite"]["seeds"])) == (list(FAMILIES), 20)


def test_the_committed_table_tells_methods_apart_and_a_second_set_of_seeds_agrees():
    found = committed()
    one, two = (verdict.of_table(found[part], table.PRIMARY, "own") for part in ("table", "again"))
    assert set(found["suite"]["seeds"]).isdisjoint(found["suite"]["again"])
    repeated = [key for key, first in one.items() if first.sign and first.sign == two[key].sign]
    assert len(repeated) >= 10
    assert verdict.agreement(one, two)["opposite"] == 0


def test_the_committed_intervals_hold_a_known_truth_and_a_method_seldom_differs_from_itself():
    found = committed()
    assert all(len(row["seeds"]) == 500 for row in found["truth"])
    pairs = len(verdict.of_table(found["table"], table.PRIMARY, "own"))
    rows = verdict.trust(found["truth"], len(found["suite"]["seeds"]), pairs, table.PRIMARY)
    differences, methods = ([row for row in rows if ("alarms" in row) == alone] for alone in (False, True))
    # Intervals stand beside differences alone: that of a method whose runs sometimes collapse does not hold enough.
    assert [0.90 <= row["coverage"] <= 0.97 for row in differences] == [True] * len(differences)
    assert len(differences) == 1
    assert [row["alarms"] <= 0.05 and row["alarms_family"] <= 0.05 for row in methods] == [True] * len(methods)


def test_the_quick_suite_goes_the_same_way_as_the_full_one():
    assert [field for field, value in asdict(QUICK).items() if value == asdict(FULL)[field]] == [
        *("truth_methods", "map_luck", "map_forks"),
    ]
    assert isinstance(QUICK, Suite)
