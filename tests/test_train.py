"""Training: improvement, bit-for-bit determinism, exact resume after a kill, damaged checkpoints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from bpo import checkpoint, experiment, train, tree_log, update
from bpo.cache import contents_of
from bpo.config import RunConfig, load_preset
from bpo.credit import bpo_split, per_task
from bpo.errors import BadInput
from bpo.files import locked
from bpo.noise import gradient_draws, summary
from bpo.objective import reinforce
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import grow
from bpo.sandboxes.toy import TASKS, ToyTree
from bpo.train import Trainer, read_metrics
from bpo.tree import ROOT


def config(method="bpo_split", seed=0, **settings) -> RunConfig:
    preset = load_preset("smoke")
    settings = {"updates": 12, "lr": 0.1, "checkpoint_every": 4, "curve_every": 0, **settings}
    return replace(preset, settings=replace(preset.settings, **settings)).run(method, "toy", seed)


def timeless(path: Path) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in read_metrics(path)]


def weights(path: Path) -> dict:
    return {name: row.tolist() for name, row in torch.load(path / "policy" / "table.pt", weights_only=True).items()}


@pytest.mark.parametrize("method", ["rloo", "grpo", "drgrpo", "bpo", "bpo_split"])
def test_every_method_learns_the_toy_tree(method, tmp_path):
    """From success 0.5 under uniform actions towards a leaf with reward 1."""
    run = config(method, updates=60, beta=0.0)
    trainer = Trainer(run, tmp_path / run.name)
    trainer.run()
    p = [torch.softmax(trainer.policy.logits[s], 0)[1].item() for s in ("", "0", "1", "00", "01", "10", "11")]
    leaves = np.array([0, 0, 1, 0, 1, 1, 0, 1])
    reach = np.ones(1)
    for depth in range(3):
        level = np.array(p[2**depth - 1 : 2 ** (depth + 1) - 1])
        reach = np.stack([reach * (1 - level), reach * level], 1).ravel()
    assert float(reach @ leaves) > 0.8


def test_two_runs_are_equal_bit_for_bit(tmp_path):
    run = config()
    for name in ("a", "b"):
        Trainer(run, tmp_path / name).run()
    assert timeless(tmp_path / "a" / "metrics.jsonl") == timeless(tmp_path / "b" / "metrics.jsonl")
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


def test_a_killed_run_resumes_to_the_same_numbers(tmp_path):
    """SIGKILL in the middle; the second start continues from a checkpoint and ends where an undisturbed run ends."""
    preset = yaml.safe_load(Path(experiment.__file__).with_name("presets").joinpath("smoke.yaml").read_text())
    preset["settings"] |= {"updates": 300, "lr": 0.02, "checkpoint_every": 7, "curve_every": 50}
    file = tmp_path / "long.yaml"
    file.write_text(yaml.safe_dump(preset))
    command = [sys.executable, "-m", "bpo", "train", "--method", "bpo_split", "--sandbox", "toy", "--preset", str(file)]
    name = load_preset(str(file)).run("bpo_split", "toy", 0).name

    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "killed")], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    metrics = tmp_path / "killed" / name / "metrics.jsonl"
    deadline = time.time() + 120
    while time.time() < deadline and (not metrics.exists() or len(metrics.read_text().splitlines()) < 60):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    seen = len(read_metrics(metrics))
    assert 60 <= seen < 300, "the run must be killed in the middle"

    (begun,) = checkpoint.paths(tmp_path / "killed" / name)[-1:]
    again = subprocess.run([*command, "--out", str(tmp_path / "killed")], check=True, capture_output=True, text=True)
    assert again.stdout.splitlines()[0] == f"goes on from {begun}"
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True)
    assert timeless(metrics) == timeless(tmp_path / "whole" / name / "metrics.jsonl")
    assert weights(tmp_path / "killed" / name) == weights(tmp_path / "whole" / name)
    trees = (tmp_path / "whole" / name / tree_log.FILE).read_text()
    assert trees.count("\n") == 300 * tree_log.PER_UPDATE
    assert (tmp_path / "killed" / name / tree_log.FILE).read_text() == trees
    killed, whole = (json.loads((tmp_path / which / name / "result.json").read_text()) for which in ("killed", "whole"))
    for field in ("evaluation", "ledger", "metrics", "parameters"):
        assert killed[field] == whole[field]


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    run = config()
    (tmp_path / "run").mkdir()
    with locked(tmp_path / "run" / experiment.LOCK):
        with pytest.raises(BadInput, match=r"another process works on .*run: wait until it has ended"):
            experiment.run(run, tmp_path / "run")
        assert [path.name for path in (tmp_path / "run").iterdir()] == [experiment.LOCK]
    assert experiment.run(run, tmp_path / "run")["metrics"]


def test_a_checkpoint_cut_in_half_is_one_clear_error_and_the_previous_one_is_used_on_request(tmp_path):
    run = config()
    whole = tmp_path / "whole"
    Trainer(run, whole).run()
    folder = tmp_path / "cut"
    Trainer(run, folder).run()
    latest = checkpoint.paths(folder)[-1]
    assert [path.name for path in checkpoint.paths(folder)] == ["checkpoint-000008.pt", "checkpoint-000012.pt"]
    latest.write_bytes(latest.read_bytes()[: latest.stat().st_size // 2])
    with pytest.raises(BadInput, match=r"checkpoint-000012.pt is damaged .* --checkpoint previous"):
        Trainer(run, folder).run()
    Trainer(run, folder).run("previous")
    assert timeless(folder / "metrics.jsonl") == timeless(whole / "metrics.jsonl")
    assert weights(folder) == weights(whole)
    assert (folder / tree_log.FILE).read_text() == (whole / tree_log.FILE).read_text()


def test_a_run_begun_by_other_code_is_not_continued(tmp_path, monkeypatch):
    run = config()
    Trainer(run, tmp_path).run()
    monkeypatch.setattr("bpo.checkpoint.code_fingerprint", lambda config: "0123456789ab")
    with pytest.raises(BadInput, match=r"was begun by other code \([0-9a-f]{12}, now 0123456789ab\)"):
        Trainer(run, tmp_path).run()


def test_a_run_begun_with_other_packages_is_not_continued(tmp_path, monkeypatch):
    """Its result would name the new ones alone. A checkpoint of a time when none were written down goes on."""
    run = config()
    trainer = Trainer(run, tmp_path)
    trainer.run()
    state = checkpoint.load(tmp_path, "latest")
    now = checkpoint.versions()
    for changed, said in (({"numpy": "0.1"}, "numpy 0.1, not "), ({"gone": "3"}, r"gone 3, not \(none\)")):
        begun = {**state, "origin": {**state["origin"], "versions": now | changed}}
        with pytest.raises(BadInput, match=f"was begun with {said}.*: go on with what it was begun with"):
            trainer.load_state(begun)
    before = {name: value for name, value in state["origin"].items() if name not in ("versions", "data")}
    trainer.load_state({**state, "origin": before})


def test_a_run_begun_with_other_data_is_not_continued(tmp_path):
    """The content counts, not the time at which a file was written."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "games").write_text("one")
    begun = contents_of({"data": str(data)})
    (data / "games").write_text("one")
    assert contents_of({"data": str(data)}) == begun
    (data / "games").write_text("two")
    assert contents_of({"data": str(data)}) != begun
    assert contents_of({"data": None, "model": "smollm2", "repos": str(data)}) == {}
    run = config()
    trainer = Trainer(run, tmp_path / "run")
    trainer.run()
    state = checkpoint.load(tmp_path / "run", "latest")
    assert state["origin"]["data"] == {}
    with pytest.raises(BadInput, match="was begun with other files in data than are there now: go on with"):
        trainer.load_state({**state, "origin": {**state["origin"], "data": begun}})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda own, other: other, "is of another run: settings.lr is 0.2 there, not 0.1"),
        (lambda own, other: own[:40], "put the right one back, or delete it"),
        (lambda own, other: b"\xff", "is not text in UTF-8"),
        (lambda own, other: b"x: 1", "is of another run: config is None there"),
    ],
)
def test_a_run_whose_config_was_replaced_is_not_continued(content, said, tmp_path):
    """The result is gone too, so that nothing else tells; without a config.yaml the checkpoint goes on by itself."""
    own, path = config("rloo"), tmp_path / "one" / "config.yaml"
    result = experiment.run(own, tmp_path / "one")
    experiment.run(config("rloo", lr=0.2), tmp_path / "two")
    (tmp_path / "one" / "result.json").unlink()
    path.write_bytes(content(path.read_bytes(), (tmp_path / "two" / "config.yaml").read_bytes()))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(BadInput, match=said):
        experiment.run(own, tmp_path / "one")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    path.unlink()
    again = experiment.run(own, tmp_path / "one")
    assert (again["evaluation"], again["metrics"]) == (result["evaluation"], result["metrics"])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"method": "grpo"}, "method 'rloo', not 'grpo'"),
        ({"seed": 1}, "seed 0, not 1"),
        ({"lr": 0.2}, "settings.lr 0.1, not 0.2"),
        ({"beta": 0.5}, "settings.beta 0.05, not 0.5"),
        ({"updates": 13}, "settings.updates 12, not 13"),
        ({"parameters": {"returns": 5}}, "parameters.returns [0-9]+, not 5"),
    ],
)
def test_a_run_begun_with_another_configuration_is_not_continued(changes, told, tmp_path):
    """By none of the ways of the library; and the folder is as it was."""
    begun = config("rloo", beta=0.05)
    experiment.run(begun, tmp_path)
    settings = {name: value for name, value in changes.items() if name in ("lr", "beta", "updates")}
    other = config(changes.get("method", "rloo"), changes.get("seed", 0), **{"beta": 0.05, **settings})
    other = replace(other, parameters=changes.get("parameters", other.parameters))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for go_on in (
        lambda: experiment.run(other, tmp_path),
        lambda: Trainer(other, tmp_path).run("previous"),
        lambda: Trainer(other, tmp_path).load_state(checkpoint.load(tmp_path, "latest")),
    ):
        with pytest.raises(BadInput, match=f"was begun with {told}: "):
            go_on()
    assert experiment.finished(other, tmp_path) is None
    assert experiment.finished(begun, tmp_path) is not None
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_no_previous_checkpoint_is_said(tmp_path):
    with pytest.raises(BadInput, match="has no previous checkpoint"):
        checkpoint.load(tmp_path, "previous")


def test_all_methods_meet_the_same_training_tasks():
    one, other = (Trainer(config(method, seed=3), Path("unused")) for method in ("rloo", "bpo"))
    assert [one.tasks_of(n) for n in range(5)] == [other.tasks_of(n) for n in range(5)]
    assert one.tasks_of(0) != one.tasks_of(1)


def test_several_epochs_leave_ratio_one_and_clipping_becomes_active(tmp_path):
    run = config("rloo", updates=4, epochs=6, lr=0.5)
    Trainer(run, tmp_path).run()
    assert max(row["clip_fraction"] or 0 for row in read_metrics(tmp_path / "metrics.jsonl")) > 0.05
    on_policy = config("rloo", updates=4, lr=0.5)
    Trainer(on_policy, tmp_path / "one").run()
    assert max(row["clip_fraction"] or 0 for row in read_metrics(tmp_path / "one" / "metrics.jsonl")) == 0


def test_the_kl_term_holds_the_policy_back(tmp_path):
    ends = {}
    for beta in (0.0, 5.0):
        trainer = Trainer(config("rloo", updates=40, beta=beta, epochs=2), tmp_path / str(beta))
        trainer.run()
        ends[beta] = max(float(row.detach().abs().max()) for row in trainer.policy.logits.values())
    assert ends[5.0] < 0.5 * ends[0.0]


def test_a_batch_without_contrast_changes_nothing(tmp_path):
    preset = load_preset("smoke")
    sandboxes = {"toy": replace(preset.sandboxes["toy"], options={"returns": [1, 1, 1, 1]})}
    run = replace(preset, sandboxes=sandboxes, settings=replace(preset.settings, curve_every=0)).run("grpo", "toy", 0)
    trainer = Trainer(run, tmp_path)
    trainer.run()
    assert all(float(row.detach().abs().max()) == 0 for row in trainer.policy.logits.values())
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert all(row["grad_norm"] == 0 for row in rows)
    # No token was in the batch, so there is no mean over tokens: not a KL of 0.
    assert all(row[name] is None for row in rows for name in ("kl", "approx_kl", "clip_fraction"))


def test_the_gradient_of_a_batch_is_the_mean_of_the_trees_gradients():
    """The normaliser is the number of trees, whatever grew."""
    policy = TabularPolicy.bernoulli(dict.fromkeys(("", "0", "1", "00", "01", "10", "11"), 0.4))
    growth = config().recipe().growth
    values = [0.1, 0.9, 0.4, 0.3, 0.0, 1.0, 0.2, 0.6]
    trees, _ = grow(TASKS[:3], [ToyTree(values) for _ in range(3)], policy, growth, (0,))

    def gradient(some):
        update.zero_grad(policy)
        batch = update.make_batch(some, per_task(bpo_split)(some))
        update.backward(policy, None, batch, reinforce, {})
        return torch.cat([p.grad if p.grad is not None else torch.zeros(2, dtype=torch.float64) for p in policy.parameters()])

    whole = gradient(trees)
    parts = torch.stack([gradient([tree]) for tree in trees]).mean(0)
    assert whole.tolist() == pytest.approx(parts.tolist(), abs=1e-12)


@pytest.mark.parametrize("method", ["bpo", "bpo_split"])
def test_the_logged_return_is_an_unbiased_estimate_of_the_expected_return(method, tmp_path):
    """theory.md, N9: post hoc trees give the backbone's return, causal ones the mass-weighted mean of their leaves."""
    run = config(method, updates=6)
    trainer = Trainer(run, tmp_path)
    logged, backbones, means = [], [], []
    for update_number in range(run.settings.updates):
        key = (train.ROLLOUT, run.seed, update_number)
        tasks = trainer.tasks_of(update_number)
        trees, _ = grow(tasks, trainer.sandboxes, trainer.policy, trainer.method.growth, key)
        backbones.append(np.mean([tree.returns[tree.main_leaf(ROOT)] for tree in trees]))
        means.append(np.mean([tree.value[ROOT] for tree in trees]))
        logged.append(trainer.one_update()[0]["return"])
    trainer.close()
    assert backbones != pytest.approx(means)
    assert logged == pytest.approx(backbones if method == "bpo" else means, abs=1e-12)


def test_gradient_noise_is_measured_at_a_frozen_policy():
    policy = TabularPolicy.uniform(range(8))
    before = policy.state_dict()
    tasks = [TASKS[2 * i : 2 * i + 2] for i in range(8)]
    draws, products = gradient_draws(config().recipe(), policy, [ToyTree(range(8)) for _ in range(2)], tasks)
    assert all(torch.equal(before[name], row) for name, row in policy.state_dict().items())
    norms = np.array([draw.norm for draw in draws])
    assert np.sqrt(np.diag(products)) == pytest.approx(norms)
    assert np.linalg.matrix_rank(products) > 1
    facts = summary(draws)
    assert facts["raw"] == pytest.approx(norms.var())
    assert facts["scale_free"] == pytest.approx(norms.var() / norms.mean() ** 2)
    assert facts["returns"] <= 2 * 10
