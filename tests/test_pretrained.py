"""Any causal language model from a folder: the same run, with the field's prompt and free writing, and fine-tuned first."""

from __future__ import annotations

import json

import pytest
import yaml

from bpo import experiment
from bpo.config import load_preset
from bpo.policies.lm import LMPolicy
from bpo.policies.settings import WarmStart
from bpo.policies.warmstart import warm_start
from bpo.sandboxes import demonstration, factory
from bpo.train import read_metrics

OPTIONS = {"difficulty": "tiny"}


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
