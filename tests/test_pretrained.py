"""Any causal language model from a folder: the same run, with the field's prompt and free writing, and fine-tuned first."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
import yaml

from bpo import checkpoint, experiment
from bpo.config import load_preset
from bpo.errors import BadInput
from bpo.initial import initial_policy
from bpo.policies.lm import LMPolicy
from bpo.policies.settings import WarmStart
from bpo.policies.warmstart import warm_start
from bpo.sandboxes import demonstration, factory
from bpo.train import Trainer, read_metrics

OPTIONS = {"difficulty": "tiny"}
START = {"games": 30, "demonstrations": 1, "epochs": 2, "lr": 5e-3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved model, as save_pretrained writes it."""
    recipe = WarmStart(games=12, demonstrations=1, epochs=1, vocab_size=400, size="micro")
    policy = warm_start(factory("household", OPTIONS), recipe, demonstrate=demonstration("household"), cache=False)
    path = tmp_path_factory.mktemp("model")
    policy.save(path)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {entry.name for entry in path.iterdir()}
    return path


def preset(tmp_path, policy, start=None):
    section = {"scale": "test", "options": OPTIONS, "policy": {"kind": "hf", "max_action_tokens": 12, **policy}}
    section |= {"warm_start": start} if start else {}
    plain = {
        "description": "test",
        "settings": {
            "updates": 2,
            "tasks_per_update": 2,
            "eval_tasks": 2,
            "curve_every": 1,
            "curve_tasks": 2,
            "concurrency": 2,
        },
        "sandboxes": {"household": section},
        "methods": {"bpo_split": {"points": 2, "width": 2, "gap": 8, "unit": "tokens", "floor": 0.05}},
        "sweep": {"seeds": [0], "rows": [{"label": "one", "method": "bpo_split"}]},
    }
    path = tmp_path / "preset.yaml"
    path.write_text(yaml.safe_dump(plain))
    return load_preset(str(path))


@pytest.mark.parametrize(("prompt", "writing"), [("windowed", "free"), ("windowed", "constrained"), ("transcript", "free")])
def test_a_model_folder_is_trained_in_every_way_of_acting(folder, tmp_path, prompt, writing):
    config = preset(tmp_path, {"model": str(folder), "prompt": prompt, "writing": writing}).run("bpo_split", "household", 0)
    result = experiment.run(config, tmp_path / "run")
    assert [row["update"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [0, 1, 2]
    assert result["ledger"]["generated"] > 0
    assert set(result["evaluation"]) == {"valid_seen", "valid_unseen"}
    saved = json.loads((tmp_path / "run" / "policy" / "policy.json").read_text())
    assert (saved["prompt"], saved["writing"]) == (prompt, writing)
    assert LMPolicy.load(tmp_path / "run" / "policy").settings["prompt"] == prompt


def test_a_pretrained_model_is_fine_tuned_on_demonstrations_first(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("BPO_CACHE", str(tmp_path / "cache"))
    start = {"games": 4, "demonstrations": 1, "epochs": 1, "lr": 1.0e-3, "text_weight": 0.0}
    config = preset(tmp_path, {"model": str(folder)}, start).run("bpo_split", "household", 0)
    said = []
    experiment.run(config, tmp_path / "run", report=lambda phase, done, total: said.append(phase))
    assert said.index("demonstrations") < said.index("imitation") < said.index("train")


def winning(config, **settings):
    """The configuration with so many tasks that some games are won and some lost."""
    return replace(config, settings=replace(config.settings, tasks_per_update=16, lr=1e-2, **settings))


def test_adapters_are_trained_by_preset_and_merged_where_the_policy_is_saved(folder, tmp_path):
    pytest.importorskip("peft", reason="peft is not installed: pip install 'bpo[smollm]'")
    made = preset(tmp_path, {"model": str(folder), "adapter_rank": 4}, START)
    config = winning(made.run("bpo_split", "household", 0))
    policy = initial_policy(config)
    names = policy.state_dict()
    assert all("lora" in name for name in names)
    assert sum(p.numel() for p in policy.parameters()) == sum(p.numel() for p in names.values())
    # The warm start's own adapters are in the weights already.
    given, started = LMPolicy.load(folder).model.state_dict(), policy.model.get_base_model().state_dict()
    name = "model.layers.0.self_attn.q_proj"
    assert not torch.equal(given[f"{name}.weight"], started[f"{name}.base_layer.weight"])

    experiment.run(config, tmp_path / "run")
    state = checkpoint.load(tmp_path / "run", "latest")
    assert state["policy"].keys() == names.keys()
    assert any(not torch.equal(state["policy"][name], names[name]) for name in names)
    policy.load_state_dict(state["policy"])
    saved = LMPolicy.load(tmp_path / "run" / "policy")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        torch.testing.assert_close(saved.model(ids).logits, policy.model(ids).logits, atol=1e-4, rtol=0)


def test_a_run_of_adapters_that_was_interrupted_ends_the_same(folder, tmp_path):
    pytest.importorskip("peft", reason="peft is not installed: pip install 'bpo[smollm]'")
    config = preset(tmp_path, {"model": str(folder), "adapter_rank": 4}, START).run("bpo_split", "household", 0)
    config = winning(config, checkpoint_every=1)
    ends = []
    for name, stop in (("whole", 2), ("parts", 1)):
        for updates in sorted({stop, 2}):
            part = replace(config, settings=replace(config.settings, updates=updates))
            trainer = Trainer(part, tmp_path / name)
            trainer.run()
            trainer.close()
        ends.append(trainer.policy.state_dict())
    assert any(bool(row["grad_norm"]) for row in read_metrics(tmp_path / "whole" / "metrics.jsonl")[1:])
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])


@pytest.mark.parametrize(("kind", "rank"), [("hf", -1), ("tiny", 4)])
def test_adapters_that_cannot_be_are_refused(folder, tmp_path, kind, rank):
    with pytest.raises(BadInput, match=f"preset.yaml: sandboxes.household.policy.adapter_rank is {rank}; "):
        preset(tmp_path, {"kind": kind, "model": str(folder), "adapter_rank": rank}, START)
