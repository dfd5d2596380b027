"""Numbers that are none: a run stops before they are used, what was good is kept, and no file holds one."""

import ast
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from places import ROOT
from typer.testing import CliRunner

from bpo import checkpoint, experiment, finite, update
from bpo.cli import app
from bpo.config import load_preset
from bpo.errors import BadInput
from bpo.files import to_json, write_json
from bpo.finite import NotFinite
from bpo.policies.decode import draw
from bpo.policies.tabular import TabularPolicy
from bpo.sandbox import Observation
from bpo.sandboxes.toy import ToyTree
from bpo.train import Trainer, read_metrics

DIVERGING = {"lr": 1000.0, "epochs": 3, "beta": 0.05, "checkpoint_every": 1, "curve_every": 0}


def config(method="grpo", **settings):
    preset = load_preset("smoke")
    return replace(preset, settings=replace(preset.settings, **{"updates": 12, **settings})).run(method, "toy", 0)


def strictly(text: str):
    """JSON as every other reader takes it: NaN and Infinity are no values."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_run_whose_gradient_is_bad_stops_before_the_step_and_keeps_its_last_checkpoint(tmp_path):
    run = config(**DIVERGING)
    with pytest.raises(
        NotFinite, match=r"^update \d+: the (loss|gradient's norm) is .*the last checkpoint is kept.*lr than 1000$"
    ):
        experiment.run(run, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {"config.yaml", "metrics.jsonl", "trees.jsonl", "tensorboard", ".lock"}
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_the_last_good_checkpoint_is_kept_and_can_be_gone_on_from(tmp_path, monkeypatch):
    run = config(lr=0.1, checkpoint_every=1, curve_every=0, updates=6)
    experiment.run(run, tmp_path / "whole")
    backward = update.backward
    calls = []

    def bad_at_the_fourth(policy, *rest):
        facts = backward(policy, *rest)
        calls.append(1)
        return {**facts, "loss": math.nan} if len(calls) == 4 else facts

    monkeypatch.setattr("bpo.update.backward", bad_at_the_fourth)
    with pytest.raises(NotFinite, match=r"^update 4: the loss is nan"):
        experiment.run(run, tmp_path / "cut")
    state = checkpoint.load(tmp_path / "cut", "latest")
    assert state["update"] == 3
    assert all(row.isfinite().all() for row in state["policy"].values())
    assert [row["update"] for row in map(strictly, (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines())] == [1, 2, 3]
    # The cause is gone: the rest of the run is what it would have been.
    again, whole = experiment.run(run, tmp_path / "cut"), strictly((tmp_path / "whole" / "result.json").read_text())
    assert again["metrics"] == whole["metrics"]


def test_a_diverging_run_is_one_sentence_and_exit_code_two(tmp_path):
    settings = [part for name, value in DIVERGING.items() for part in ("--set", f"settings.{name}={value}")]
    command = ["train", "--method", "grpo", "--sandbox", "toy", "--preset", "smoke", "--out", str(tmp_path), *settings]
    found = CliRunner().invoke(app, command)
    assert isinstance(found.exception, BadInput)
    assert "\n" not in str(found.exception)
    assert not list(tmp_path.rglob("result.json"))


@pytest.mark.parametrize("what", ["gradient", "return", "advantage", "weight"])
def test_whatever_is_no_number_stops_the_update_before_anything_is_kept(what, tmp_path, monkeypatch):
    run = config(lr=0.1, beta=0.0, curve_every=0, checkpoint_every=1)
    trainer = Trainer(run, tmp_path)
    before = trainer.policy.state_dict()
    if what == "gradient":
        backward = update.backward

        def bad(policy, *rest):
            facts = backward(policy, *rest)
            next(p for p in policy.parameters() if p.grad is not None).grad[0] = math.inf
            return facts

        monkeypatch.setattr("bpo.update.backward", bad)
    elif what == "return":
        monkeypatch.setattr(ToyTree, "step", bad_reward(ToyTree.step))
    elif what == "advantage":
        trainer.method = replace(trainer.method, credit=bad_credit(trainer.method.credit))
    else:
        monkeypatch.setattr(
            trainer.learner.optimizer, "step", lambda: next(iter(trainer.policy.parameters())).data.fill_(math.nan)
        )
    said = "step.* gives the reward nan" if what == "return" else f"^update 1.*{what}"
    with pytest.raises(NotFinite, match=said):
        trainer.run()
    assert checkpoint.paths(tmp_path) == []
    assert read_metrics(tmp_path / "metrics.jsonl") == []
    if what != "weight":
        assert all(torch.equal(before[state], row) for state, row in trainer.policy.state_dict().items())


def bad_reward(step):
    def stepped(self, action):
        outcome = step(self, action)
        return replace(outcome, reward=math.nan) if outcome.done else outcome

    return stepped


def bad_credit(rule):
    def credits(trees, *rest):
        found = rule(trees, *rest)
        return [replace(credit, advantage=np.where(credit.has_signal, np.inf, credit.advantage)) for credit in found]

    return credits


def test_a_gradient_too_large_to_be_clipped_is_refused():
    """Its squares overflow in float32, so clipping would turn it into zero and AdamW would step on its momentum alone."""
    huge = torch.nn.Parameter(torch.zeros(4))
    huge.grad = torch.full((4,), 1e25)
    torch.nn.utils.clip_grad_norm_([huge], 1.0)
    assert not huge.grad.any()
    with pytest.raises(NotFinite, match="the gradient's norm is inf"):
        finite.require_step(1, 0.0, 1e25, 0.1)
    finite.require_step(1, 0.0, 1e18, 0.1)


def test_no_action_is_drawn_from_logits_that_are_no_numbers():
    rngs = [np.random.default_rng(0)] * 2
    for logits in ([[0.0, math.nan, 0.0], [0.0, 0.0, 0.0]], [[0.0] * 3, [math.inf] * 3], [[-math.inf] * 3, [0.0] * 3]):
        for choices in ([None, None], [(0, 1, 2), (0, 1, 2)]):
            with pytest.raises(NotFinite, match="no action can be drawn"):
                draw(torch.tensor(logits), choices, rngs, 1.0)
    for row in ([math.nan, 0.0], [math.inf, math.inf]):
        policy = TabularPolicy()
        policy.load_state_dict({"s": torch.tensor(row)})
        with pytest.raises(NotFinite, match="no action can be drawn"):
            policy.act([Observation("s", ("a", "b"), "", 0)], rngs[:1])
    # An action that is never drawn is no error.
    assert draw(torch.tensor([[0.0, -math.inf]]), [None], rngs[:1], 1.0)[0] == [0]


def test_json_says_null_where_there_is_no_value_and_names_what_is_infinite(tmp_path):
    value = {"a": [1.5, math.nan, (math.nan, "NaN")], "b": {"c": None}, "d": np.float64("nan")}
    assert strictly(to_json(value)) == {"a": [1.5, None, [None, "NaN"]], "b": {"c": None}, "d": None}
    for bad, where in (({"a": [0.0, {"b": math.inf}]}, r"a\[1\]\.b is inf"), ({"a": -math.inf}, "a is -inf")):
        with pytest.raises(BadInput, match=where):
            write_json(tmp_path / "x.json", bad)
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_leaves_is_json_for_every_reader(tmp_path):
    experiment.run(config("rloo", lr=0.1, updates=2, curve_every=1, checkpoint_every=1), tmp_path)
    strictly((tmp_path / "result.json").read_text())
    for name in ("metrics.jsonl", "trees.jsonl"):
        assert [strictly(line) for line in (tmp_path / name).read_text().splitlines()]


# Where text is hashed, compared or handed to a process of ours, and no file is written.
NO_FILES = {
    "bpo/config.py",
    "bpo/files.py",
    "bpo/reading.py",
    "bpo/policies/warmstart.py",
    "bpo/sandboxes/codefix/judge.py",
    "bpo/sandboxes/codefix/problems.py",
    "bpo/sandboxes/household/translation.py",
    "bpo/sandboxes/shell/copies.py",
    "bpo/sandboxes/webshop/catalogue.py",
    "bpo/sandboxes/webshop/pages.py",
    "bpo/tree_log.py",
    "bpo/lab/cells.py",
    "bpo/sandboxes/swebench/witness.py",
    "bpo/lab/laboratory.py",
    "reproduce/collect.py",
    "reproduce/plan.py",
}


def test_every_writer_of_json_refuses_what_is_not_json():
    loose = set()
    for folder in ("bpo", "reproduce", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.dump", "json.dumps"):
                    strict = any(word.arg == "allow_nan" and ast.unparse(word.value) == "False" for word in node.keywords)
                    if not strict:
                        loose.add(str(path.relative_to(ROOT)))
    assert loose <= NO_FILES
