"""The pipeline from a preset to its table, on the toy sandbox."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bpo.errors import BadInput
from bpo.sandboxes import spec

pytest.importorskip("papermill")
from reproduce import driver, findings, markdown, official, report, tables
from reproduce.__main__ import app
from reproduce.collect import Collected, RowRuns, collect
from reproduce.plan import TableRow, add_equal, add_matched, difference, make_plan, mean_returns
from reproduce.processes import ROOT, Notebook, WorkerPool, check_parameters

# The branching row has three returns per tree; GRPO matches it, and RLOO at three returns has to be added.
PRESET = """
description: two short runs
settings: {updates: 2, tasks_per_update: 2, lr: 0.1, beta: 0.05, curve_every: 1, curve_tasks: 8, eval_tasks: 8,
           checkpoint_every: 1, concurrency: 8}
sandboxes:
  toy: {scale: "toy: numbers mean nothing", options: {returns: [0, 0, 1, 0, 1, 1, 0, 1]}, policy: {kind: tabular}}
methods: {bpo_split: {points: 1, width: 3, gap: 1, unit: steps}}
sweep:
  seeds: [0]
  noise_draws: 4
  noise_tasks: 2
  rows:
    - {label: split K3, method: bpo_split}
    - {label: grpo N3, method: grpo, parameters: {returns: 3}}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "tiny.yaml").write_text(PRESET)
    return folder


@pytest.fixture(scope="module")
def first(world):
    """What one call says that runs the preset from nothing."""
    return reproduce(world)


def reproduce(world, runs="runs", results="results", *more):
    places = ["--runs", str(world / runs), "--results", str(world / results)]
    return CliRunner().invoke(app, ["run", "--preset", str(world / "tiny.yaml"), "--sandbox", "toy", *places, *more])


def plan_of(world, runs="runs", results="results"):
    return make_plan(str(world / "tiny.yaml"), "toy", world / runs, world / results)


def jobs_of(world):
    plan = plan_of(world)
    return plan.jobs(plan.rows)


def table_of(world, results="results"):
    return json.loads((world / results / "tiny-toy" / "table.json").read_text())


def test_everything_is_made(world, first):
    assert first.exit_code == 0, first.output
    assert "3 runs trained, 0 were finished" in first.output
    table, place = table_of(world), world / "results" / "tiny-toy"
    assert [row["label"] for row in table["rows"]] == ["warm start", "split K3", "grpo N3", "rloo N3"]
    assert table["missing"] == []
    assert [set(one["areas"]) for one in table["sets"]] == [{"split K3", "grpo N3", "rloo N3"}]
    assert [row["noise"]["draws"] for row in table["rows"][1:]] == [4, 4, 4]
    assert [row["returns_per_tree"] for row in table["rows"][1:]] == [{"planned": 3, "used": 3}] * 3
    assert [row["matched_to"] for row in table["rows"][1:]] == [[], ["split K3"], ["split K3"]]
    assert all((place / name).stat().st_size for name in report.written(table))
    assert len(list((place / "notebooks").glob("10_train-*.ipynb"))) == 3
    # Paths in published notebooks are relative to the notebooks' folder.
    assert f'"{world}' not in (place / "notebooks" / "11_tables.ipynb").read_text().replace("\\", "")
    assert "ALFWorld" not in markdown.success_table(table)[0][1]


def test_a_second_call_does_nothing_and_is_quick(world, first):
    stamps = {path: path.stat().st_mtime_ns for path in world.rglob("*.*") if path.is_file()}
    start = time.monotonic()
    again = reproduce(world)
    assert again.exit_code == 0, again.output
    assert "0 runs trained, 3 were finished" in again.output
    assert time.monotonic() - start < 30
    assert stamps == {path: path.stat().st_mtime_ns for path in world.rglob("*.*") if path.is_file()}


def test_a_failure_leaves_the_rest_intact_and_is_made_up_for_alone(world, first):
    """One result is deleted and its checkpoint damaged: that run fails and is named; once the file is whole, it alone runs."""
    before = table_of(world)
    kept, damaged = jobs_of(world)
    (damaged.folder / "result.json").unlink()
    newest = sorted(damaged.folder.glob("checkpoint-*.pt"))[-1]
    whole = newest.read_bytes()
    newest.write_bytes(whole[:100])
    stamp = (kept.folder / "result.json").stat().st_mtime_ns

    failed = reproduce(world)
    assert failed.exit_code == 1, failed.output
    assert "0 runs trained, 2 were finished" in failed.output
    assert "failed: grpo N3, seed 0: Damaged" in " ".join(failed.output.split())
    executed = nbformat.read(damaged.folder / "notebook.ipynb", as_version=4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert any(output.output_type == "error" and "is damaged" in output.evalue for output in outputs)
    table = table_of(world)
    assert table["missing"] == ["grpo N3, seed 0"]
    assert "**Missing runs:** grpo N3, seed 0." in (world / "results" / "tiny-toy" / "table.md").read_text()
    assert table["rows"][1]["success"] == before["rows"][1]["success"]

    newest.write_bytes(whole)
    made_up = reproduce(world)
    assert made_up.exit_code == 0, made_up.output
    assert "1 runs trained, 2 were finished" in made_up.output
    assert tables.strip_times(table_of(world)) == tables.strip_times(before)
    assert (kept.folder / "result.json").stat().st_mtime_ns == stamp


def test_a_rerun_from_nothing_gives_the_same_numbers(world, first):
    plan = plan_of(world, "runs2", "results2")
    driver.warm_starts(plan, 2, Console(quiet=True))
    outcome = driver.train(plan, plan.rows, 2, 600.0, Console(quiet=True))
    assert outcome == driver.SweepOutcome(trained=2, skipped=0, failures=())
    used = {label: mean_returns(runs) for label, runs in driver.complete(plan, plan.rows).items()}
    added = plan.jobs(add_matched(plan, plan.rows, used)[2:])[0].folder  # a third run would prove no more
    shutil.copytree(world / "runs" / "tiny-toy" / added.name, added)
    report.write(collect(plan), plan.results)
    one, two = table_of(world), table_of(world, "results2")
    assert tables.strip_times(one) == tables.strip_times(two)
    assert markdown.markdown(tables.strip_times(one)) == markdown.markdown(tables.strip_times(two))
    for name in ("curves.csv", "noise.csv", "by_type.csv", "by_task.csv", "curves-equal-returns.png", "noise.png"):
        assert (world / "results" / "tiny-toy" / name).read_bytes() == (plan.results / name).read_bytes()
    for job in jobs_of(world):
        mine, theirs = (
            json.loads((folder / "result.json").read_text()) for folder in (job.folder, plan.runs / job.folder.name)
        )
        assert tables.strip_times(mine) == tables.strip_times(theirs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "smok"], "unknown preset 'smok'; did you mean 'smoke'?"),
        (["--preset", "smoke", "--sandbox", "house"], "unknown sandbox 'house'"),
        (["--preset", "smoke", "--sandbox", "toy", "--only", "grpo N31"], "did you mean 'grpo N13'?"),
        (["--preset", "smoke", "--sandbox", "toy", "--only", "bpo", "--dry-run"], "unknown row of preset smoke: 'bpo'"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(tmp_path, arguments, message):
    places = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    result = CliRunner().invoke(app, ["run", *arguments, *places])
    assert isinstance(result.exception, BadInput)
    assert message in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_bad_input_is_one_line_and_exit_code_two(tmp_path):
    command = [sys.executable, "-m", "reproduce", "tables", "--preset", "smok", "--runs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("reproduce: unknown preset 'smok'")


def test_tables_without_runs_say_what_to_do(tmp_path):
    arguments = ["--preset", "smoke", "--sandbox", "toy", "--runs", str(tmp_path), "--results", str(tmp_path)]
    result = CliRunner().invoke(app, ["tables", *arguments])
    assert isinstance(result.exception, BadInput)
    assert "python -m reproduce run --preset smoke --sandbox toy" in str(result.exception)


def test_unknown_notebook_parameter_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"10_train.ipynb has no parameter 'sead' \(it has: preset, sandbox, method, seed"):
        check_parameters(Notebook("10_train.ipynb", tmp_path / "out.ipynb", {"seed": 1, "sead": 2}))


def test_unused_parameters_are_noticed_in_the_result(world, first):
    job = jobs_of(world)[0]
    result = json.loads((job.folder / "result.json").read_text())
    assert difference(job, result) is None
    assert difference(job, {**result, "noise": []}) == "number of gradient draws used: 0; asked: 4"
    used = {**result["config"], "seed": 5}
    assert difference(job, {**result, "config": used}).startswith("configuration used")


def test_runs_of_other_code_are_set_aside_not_continued(tmp_path):
    (tmp_path / "tiny.yaml").write_text(PRESET)
    job = jobs_of(tmp_path)[0]
    job.folder.mkdir(parents=True)
    (job.folder / "config.yaml").write_text("origin: {code: '0123'}\n")
    (job.folder / "checkpoint-000001.pt").write_text("old")
    driver.set_aside(job)
    assert not job.folder.exists()
    assert (job.folder.parent / "stale" / f"{job.folder.name}-0123" / "checkpoint-000001.pt").read_text() == "old"


def notebook(folder: Path, name: str, *sources: str) -> Notebook:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / f"{name}.ipynb")
    return Notebook(str(folder / f"{name}.ipynb"), folder / "out" / f"{name}.ipynb")


def test_a_process_is_judged_by_how_it_ended(tmp_path):
    sources = {"good": "1 + 1", "error": "1 / 0", "killed": "import os; os._exit(3)"}
    notebooks = [notebook(tmp_path, name, source) for name, source in sources.items()]
    messages = {}
    with WorkerPool(2, 300.0) as pool:
        pool.run(notebooks, messages.__setitem__, lambda: None)
    assert messages[0] is None
    assert messages[1] == "ZeroDivisionError: division by zero"
    assert messages[2].startswith("DeadKernelError")
    assert notebooks[1].target.is_file()


def test_a_process_has_a_time_limit(tmp_path):
    messages = {}
    with WorkerPool(1, 3.0) as pool:
        pool.run([notebook(tmp_path, "slow", "import time; time.sleep(99)")], messages.__setitem__, lambda: None)
    assert "time limit" in messages[0]


def test_kernels_end_with_the_driver(tmp_path):
    slow = notebook(
        tmp_path, "slow", f"import os, time; open(r'{tmp_path / 'pid'}', 'w').write(str(os.getpid())); time.sleep(99)"
    )

    class Stop(Exception):
        pass

    def stop_once_it_runs():
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            raise Stop

    with pytest.raises(Stop), WorkerPool(1, 60.0) as pool:
        pool.run([slow], lambda index, message: None, stop_once_it_runs)
    kernel = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while _lives(kernel) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _lives(kernel)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# Pure parts, on results written by hand.


def run_of(method, wins, curve, returns=3.0, seed=0, noise=None, steps=9, settings=None):
    episodes = [
        {"task": f"t{i}", "sample": 0, "success": bool(win), "score": 0.5 + 0.5 * win, "task_type": "toy"}
        for i, win in enumerate(wins)
    ]
    share = sum(wins) / len(wins)
    split = {"episodes": episodes, "success": share, "by_type": {"toy": [share, len(wins)]}}
    ledger = {"returns": returns, "env_steps": steps, "prefilled": 4, "generated": 4, "computed": 9}
    metrics = [{"update": 0, "curve": curve[0], "curve_by_task": [curve[0]]}]
    for number, point in enumerate(curve[1:], start=1):
        row = {"update": number, "curve": point, "curve_by_task": [point], "ledger": ledger, "returns_per_tree": returns}
        metrics.append({**row, "grad_norm": 2.0 * (number % 2), "kl": 0.01})
    plan = make_plan("smoke", "toy", Path("runs"), Path("results"))
    draw = {"norm": 1.0, "returns": 1, "env_steps": 1, "tokens": 1}
    return {
        "config": plan.config(TableRow("x", method, settings=settings or {}), seed).plain(),
        "parameters": {},
        "origin": {"code": "c", "commit": "d", "dirty": False, "versions": {}, "host": "h", "date": "now"},
        "metrics": metrics,
        "noise": noise and {"tasks": 2, "draws": [draw] * len(noise), "gram": noise},
        "evaluation": dict.fromkeys(("pool", "valid_seen", "valid_unseen"), split),
        "seconds": {"total": 3.0, "rollout": 1.0, "update": 1.0},
    }


def wins(count):
    return [1] * count + [0] * (40 - count)


def collected():
    """Three seeds. Warm starts at 20 %, a branching row at 80 %, one baseline at 20 % and one in between; bpo takes 4 steps
    where the others take 9, so that it is also there with twice its tasks.
    """
    seeds = (0, 1, 2)

    def row(label, method, count, curve, seed_shift=0.01, returns=13.0, **more):
        told = {"settings": {"tasks_per_update": 4}, "equal": "env_steps", "of": "bpo"} if ", " in label else {}
        runs = {
            seed: run_of(
                method,
                wins(count + seed),
                [point + seed_shift * seed for point in curve],
                returns,
                seed,
                steps=4 if method == "bpo" and not told else 9,
                settings=told.get("settings"),
                **more,
            )
            for seed in seeds
        }
        return RowRuns(TableRow(label, method, **told), 13, runs)

    rows = [
        row("bpo", "bpo", 32, [0.2, 0.6, 0.7], returns=12.8, noise=[[4.0, 1.0], [1.0, 4.0]]),
        row("rloo N13", "rloo", 8, [0.2, 0.3, 0.3], noise=[[1.0, 0.5], [0.5, 1.0]]),
        row("grpo N13", "grpo", 10, [0.2, 0.31, 0.3], seed_shift=0.03),
        row("bpo, equal steps", "bpo", 36, [0.2, 0.8, 0.9], returns=12.8),
    ]
    starts = {seed: run_of("rloo", wins(8 + seed), [0.2], seed=seed) for seed in seeds}
    missing = ("grpo N8, seed 0",)
    return Collected(
        "smoke", "household", "by hand", seeds, starts, tuple(rows), "rloo N13", ("env_steps",), missing, None, None
    )


def test_table_says_what_the_numbers_say():
    table = tables.build(collected())
    start, bpo, rloo, grpo, _ = table["rows"]
    assert start["success"]["pool"]["value"] == pytest.approx(9 / 40)
    assert bpo["vs_start"]["pool"]["verdict"] == tables.ABOVE
    assert bpo["vs_start"]["pool"]["value"] == pytest.approx(24 / 40)
    assert rloo["vs_start"]["pool"]["verdict"] == tables.INSIDE
    assert bpo["noise"]["noise"]["value"] == pytest.approx(3.0)
    assert rloo["noise"]["noise"]["value"] == pytest.approx(1.0)
    assert bpo["noise"]["cosine"]["value"] == pytest.approx(0.25)
    assert grpo["noise"] is None
    assert (bpo["zero_gradient"], bpo["norm_clipped"]) == (0.5, 0.5)
    assert grpo["paper"] == "none at N = 13; 60.5 ± 2.0 (N = 8)"
    toy = tables.build(Collected(**{**vars(collected()), "sandbox": "toy"}))
    assert {row["paper"] for row in toy["rows"]} == {"none"}
    page = markdown.markdown(table)
    assert "**Missing runs:** grpo N8, seed 0." in page
    assert "(a different experiment)" in page


def test_comparisons_are_at_equal_returns_and_at_equal_steps():
    table = tables.build(collected())
    returns, steps = table["sets"]
    assert list(returns["areas"]) == ["bpo", "rloo N13", "grpo N13"]
    assert list(steps["areas"]) == ["bpo, equal steps", "rloo N13", "grpo N13"]
    assert (returns["budget"], steps["budget"]) == (2, 18)
    assert returns["areas"]["bpo"]["value"] == pytest.approx((0.2 + 2 * 0.6 + 0.7) / 4 + 0.01)
    assert returns["areas"]["bpo"]["seeds"] == pytest.approx([0.525, 0.535, 0.545])
    found = {(pair["set"], pair["a"], pair["b"]): pair for pair in table["pairs"] if pair["measure"] == "area"}
    assert len(found) == 6
    assert found["equal returns", "bpo", "rloo N13"]["value"] == pytest.approx(0.525 - 0.275)
    assert found["equal returns", "bpo", "rloo N13"]["sign"] == 1
    # Its difference changes from seed to seed by as much as it is long.
    assert found["equal returns", "rloo N13", "grpo N13"]["sign"] == 0
    assert found["equal steps", "bpo, equal steps", "rloo N13"]["value"] == pytest.approx(0.675 - 0.275)
    text = " ".join(findings.findings(table))
    assert "At equal returns, by area under the curve: bpo 53.5, grpo N13 31.0, rloo N13 28.5." in text
    assert "bpo is above rloo N13 by 25.0" in text
    assert "order is no ranking: rloo N13 and grpo N13" in text
    heads, rows = markdown.set_table(table, steps)
    assert heads[2] == "area minus rloo N13"
    assert [row[0] for row in rows] == ["rloo N13", "grpo N13", "bpo, equal steps"]
    assert [row[4] for row in rows] == ["2", "2", "4"]
    assert rows[2][2].startswith("+40.0 [")
    assert rows[2][2].endswith(": above")
    assert rows[0][2] == markdown.NONE


def test_a_row_with_other_returns_is_compared_with_its_own_baselines_alone():
    facts = collected()
    bpo, rloo, grpo, _ = facts.rows
    few = RowRuns(bpo.row, 13, {seed: run_of("bpo", wins(8), [0.2, 0.3], 6.0, seed) for seed in facts.seeds})
    own = TableRow("rloo N6", "rloo", matched_to=("bpo",))
    matched = RowRuns(own, 6, {seed: run_of("rloo", wins(8), [0.2, 0.3], 6.0, seed) for seed in facts.seeds})
    table = tables.build(Collected(**{**vars(facts), "rows": (few, rloo, grpo, matched)}))
    assert [(one["name"], list(one["areas"])) for one in table["sets"]] == [
        ("equal returns", ["rloo N13", "grpo N13"]),
        ("the returns of bpo", ["bpo", "rloo N6"]),
    ]


def test_one_seed_has_values_and_no_intervals():
    facts = collected()
    rows = tuple(RowRuns(row.row, row.planned, {0: row.runs[0]}) for row in facts.rows)
    table = tables.build(Collected(**{**vars(facts), "rows": rows, "seeds": (0,), "starts": {0: facts.starts[0]}}))
    assert table["pairs"] == []
    area = table["sets"][0]["areas"]["bpo"]
    assert area == {"value": pytest.approx(0.525), "low": None, "high": None, "seeds": [pytest.approx(0.525)]}
    page = markdown.markdown(table)
    assert "There is one seed, so there are no intervals" in page
    assert "| bpo | 52.5 |" in page


def test_a_start_that_all_seeds_share_is_the_start_of_each():
    facts = collected()
    table = tables.build(Collected(**{**vars(facts), "starts": {0: facts.starts[0]}}))
    assert table["rows"][0]["success"]["pool"]["seeds"] == [0.2]
    assert table["rows"][2]["vs_start"]["pool"]["value"] == pytest.approx(1 / 40)


def repairs(*boxes):
    """The runs above as if they had been made in boxes: the warm start in the first, each row in the next."""
    facts = collected()
    first, *rest = boxes
    for results, used in zip([facts.starts, *(row.runs for row in facts.rows)], (first, *rest, first), strict=True):
        for result in results.values():
            result["origin"]["boxes"] = [used]
    options = {"difficulty": "easy", "actions": "constrained", "choices": 6, "max_steps": 10}
    facts.start["config"] |= {"sandbox": "codefix", "sandbox_options": options}
    return Collected(**{**vars(facts), "sandbox": "codefix"})


def test_program_repair_is_told_apart_from_the_paper_s_benchmark():
    table = tables.build(repairs(*["tier overlay, by bubblewrap"] * 4))
    assert table["games"] == "mutated HumanEval programs (easy)"
    heads, rows = markdown.success_table(table)
    assert heads[1:3] == ["mutated HumanEval programs (easy): pool", "minus warm start, pool"]
    assert heads[-1] == "paper: success, Qwen2.5-7B, SWE-bench Verified, 3 seeds, ± std (a different experiment)"
    assert [row[-1] for row in rows] == [
        "14.6 ± 1.0 (SFT)",
        "29.8 ± 1.0 (M = 4, K = 4)",
        "none at N = 13; 22.8 ± 1.2 (N = 8)",
        "none at N = 13; 24.0 ± 1.1 (N = 8)",
        "29.8 ± 1.0 (M = 4, K = 4)",
    ]
    said = " ".join(findings.deviations(table))
    assert "mutated HumanEval programs (easy) instead of the 500 issues of SWE-bench Verified" in said
    assert "at most 6 edits of single lines, the repair always among them" in said
    assert "instead of 5,000 of 128" in said
    assert "instead of 3,000 of 128" in " ".join(findings.deviations(tables.build(collected())))


def test_the_table_names_every_kind_of_box_that_a_run_used():
    table = tables.build(
        repairs("tier overlay, by b", "tier overlay, by b", "tier landlock, by Landlock 3", "tier overlay, by b")
    )
    assert table["origin"]["boxes"] == ["tier landlock, by Landlock 3", "tier overlay, by b"]
    assert "Boxes of all runs: tier landlock, by Landlock 3; tier overlay, by b. " in markdown.head(table)
    plain = tables.build(collected())
    assert "boxes" not in plain["origin"]
    assert "oxes" not in markdown.markdown(plain)


def test_table_admits_when_nothing_beats_the_warm_start():
    facts = collected()
    table = tables.build(Collected(**{**vars(facts), "rows": facts.rows[1:2]}))
    assert "No row is above the warm start" in " ".join(findings.findings(table))


def test_graded_scores_and_rule_policies_stand_beside_success():
    """Only sandboxes with rule policies have scores that are not success: half a point of every loss here."""
    plain = tables.build(collected())
    assert "score" not in markdown.markdown(plain)
    ends = {split: {"success": 12.5, "score": 34.25, "steps": 3.0} for split in plain["splits"]}
    rules = {
        "rows": {"first hit": ends},
        "max_steps": 15,
        "shared_with_train": dict.fromkeys(plain["splits"], "0 of 3 products"),
    }
    table = tables.build(Collected(**{**vars(collected()), "rules": rules}))
    assert table["rows"][0]["score"]["valid_seen"]["value"] == pytest.approx(0.5 + 0.5 * 9 / 40)
    heads, rows = markdown.success_table(table)
    assert heads[3:5] == ["score, pool", "score minus warm start, pool"]
    assert rows[0][3].startswith("61.2 [")
    assert rows[1][4].startswith("+30.0 [")
    text = markdown.summary(table)
    assert "| first hit | 12.5 | 34.2 | 3.0 | 12.5 | 34.2 | 3.0 | 12.5 | 34.2 | 3.0 |" in text
    assert "seen and train: 0 of 3 products" in text


def test_table_without_times_is_made_of_the_same_text():
    table = tables.build(collected())
    bare = tables.strip_times(table)
    assert "seconds" not in json.dumps(bare)
    assert "seconds" in json.dumps(table)
    assert markdown.markdown(bare).count("\n") == markdown.markdown(table).count("\n")


@pytest.mark.parametrize(
    ("used", "added", "matched"),
    [
        ({"bpo M4 K4": 12.5, "bpo_split root+3 K4": 13.0}, [], {"rloo N13", "grpo N13"}),
        ({"bpo M4 K4": 10.2, "bpo_split root+3 K4": 9.9}, ["rloo N10", "grpo N10"], {"rloo N10", "grpo N10"}),
        ({"bpo M4 K4": 8.1}, ["rloo N8", "grpo N8"], {"rloo N8", "grpo N8"}),
        ({"rloo N13": 13.0}, [], set()),
    ],
)
def test_baselines_are_added_at_the_returns_really_used(used, added, matched):
    plan = make_plan("smoke", "toy", Path("runs"), Path("results"))
    rows = add_matched(plan, plan.rows, used)
    assert [row.label for row in rows[len(plan.rows) :]] == added
    assert {row.label for row in rows if row.matched_to} == matched


def test_rows_get_as_many_tasks_as_it_takes_to_use_as_much_as_the_reference():
    plan = make_plan("smoke", "toy", Path("runs"), Path("results"))
    price = {
        "rloo N13": {"env_steps": 100.0, "computed": 1.0},
        "grpo N13": {"env_steps": 104.0, "computed": 1.0},
        "bpo M4 K4": {"env_steps": 41.0, "computed": 1.0},
        "bpo_split root+3 K4": {"env_steps": 10.0, "computed": 1.0},
    }
    added = add_equal(plan, plan.rows, price)[len(plan.rows) :]
    assert [(row.label, row.settings, row.of, row.equal) for row in added] == [
        ("bpo M4 K4, equal steps", {"tasks_per_update": 5}, "bpo M4 K4", "env_steps"),
        ("bpo_split root+3 K4, equal steps", {"tasks_per_update": 8}, "bpo_split root+3 K4", "env_steps"),  # all of the pool
    ]
    assert [plan.config(row, 0).settings.tasks_per_update for row in added] == [5, 8]
    assert {job.noise_draws for job in plan.jobs(added)} == {0}
    del price["rloo N13"]
    assert add_equal(plan, plan.rows, price) == plan.rows


def test_published_notebooks_carry_no_times(tmp_path):
    cell = nbformat.v4.new_code_cell("1", metadata={"papermill": {"duration": 1.0}, "execution": {"x": "now"}, "tags": ["a"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata={"papermill": {"start_time": "now"}}), tmp_path / "a.ipynb")
    report.publish(tmp_path / "a.ipynb", tmp_path / "b.ipynb")
    read = nbformat.read(tmp_path / "b.ipynb", as_version=4)
    assert read.metadata == {}
    assert read.cells[0].metadata == {"tags": ["a"]}


def test_official_rows_are_labelled_and_begin_with_the_warm_start():
    scores = {"valid_seen": {"success": 0.0, "games": 5, "by_type": {}}}
    table = tables.build(collected())
    table["official"] = {"label": "official ALFWorld games, tiny model", "rows": {"bpo": scores, "warm start": scores}}
    lines = "\n".join(markdown.official(table)).splitlines()
    assert "official ALFWorld games, tiny model: valid_seen" in lines[1]
    assert lines[3:] == ["| warm start | 0.0 % of 5 games |", "| bpo | 0.0 % of 5 games |"]


def test_official_games_are_looked_for_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert spec("household").official.folder() is None
    (tmp_path / "json_2.1.1").mkdir()
    assert spec("household").official.folder() == tmp_path
    assert official.best_row(collected()).row.label == "bpo, equal steps"
