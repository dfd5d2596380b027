import math
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from rooms import demonstration, play, room, streams

from bpo.errors import BadInput
from bpo.policies.lm import LMPolicy
from bpo.policies.prefix_cache import PlainRows
from bpo.sandbox import Observation


def action_log_probs(policy, context) -> dict[str, float]:
    """Log-probability of every admissible action, from the training side."""
    actions = context.observation.actions
    values, owner = policy.logprob([(context, policy.decide(context, action)) for action in actions])
    return {action: values[owner == i].sum().item() for i, action in enumerate(actions)}


@pytest.mark.parametrize("prompt", ["transcript", "windowed"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_constrained_writing_is_a_normalised_distribution_over_admissible_actions(make_policy, prompt, temperature):
    policy = make_policy(prompt=prompt, temperature=temperature)
    for seed in range(3):
        log_probs = action_log_probs(policy, policy.begin(room(seed)))
        assert sum(math.exp(v) for v in log_probs.values()) == pytest.approx(1.0, abs=1e-6)


def test_sampled_actions_have_the_frequencies_their_log_probs_say(make_policy):
    policy = make_policy(seed=3)
    context = policy.begin(room(1))
    n = 4000
    counts = Counter(decision.action for decision in policy.act([context] * n, streams(n)))
    assert set(counts) <= set(context.observation.actions)
    for action, log_prob in action_log_probs(policy, context).items():
        p = math.exp(log_prob)
        assert counts[action] / n == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / n) + 1e-3)


def test_entropy_is_that_of_the_first_token_with_a_choice(make_policy):
    policy = make_policy()
    context = policy.begin(room(2))
    first = Counter()
    for action, log_prob in action_log_probs(policy, context).items():
        first[policy.decide(context, action).tokens[: policy.decide(context, action).free[0] + 1]] += math.exp(log_prob)
    (decision,) = policy.act([context], streams(1))
    assert decision.entropy == pytest.approx(-sum(p * math.log(p) for p in first.values()), abs=1e-5)


@pytest.mark.parametrize("writing", ["constrained", "free"])
@pytest.mark.parametrize("prompt", ["transcript", "windowed"])
def test_rollout_and_training_agree_on_log_probs(make_policy, prompt, writing):
    policy = make_policy(prompt=prompt, writing=writing, temperature=0.7, max_action_tokens=12)
    steps = [step for path in play(policy) for step in path]
    values, owner = policy.logprob(steps)
    rollout = [(i, d.log_probs[j]) for i, (_, d) in enumerate(steps) for j in d.free]
    assert owner.tolist() == [i for i, _ in rollout]
    np.testing.assert_allclose(values.detach().numpy(), [v for _, v in rollout], atol=1e-5)


def test_lower_temperature_sharpens(make_policy):
    context_of = {t: make_policy(temperature=t) for t in (0.25, 1.0, 4.0)}
    entropy = {t: p.act([p.begin(room(0))], streams(1))[0].entropy for t, p in context_of.items()}
    assert entropy[0.25] < entropy[1.0] < entropy[4.0]


def test_reused_keys_and_values_change_nothing(make_policy):
    kept, none = make_policy(), make_policy(cache_bytes=0)
    paths, references = play(kept), play(none)
    for path, reference in zip(paths, references, strict=True):
        for (_, a), (_, b) in zip(path, reference, strict=True):
            assert a.tokens == b.tokens
            np.testing.assert_allclose(a.log_probs, b.log_probs, atol=1e-5)
            assert a.entropy == pytest.approx(b.entropy, abs=1e-5)
    for t in range(len(paths[0])):
        # Two of the rooms differ in their actions alone: their contexts are equal, and one of them is read.
        assert sum(path[t][1].prefilled for path in references) == sum(map(len, {path[t][0].ids for path in references}))
        if t:  # the new observation, and what of the action nothing was drawn after
            known = sum(len(p[t - 1][0].ids) + p[t - 1][1].free[-1] for p in paths if p[t - 1][1].free)
            assert sum(path[t][1].prefilled for path in paths) <= sum(len(path[t][0].ids) for path in paths) - known


def test_a_cacheless_model_writes_the_same(make_policy, monkeypatch):
    cached, plain = make_policy(), make_policy()
    plain._net.kv_shape = None
    for path, reference in zip(play(cached), play(plain), strict=True):
        for (_, a), (_, b) in zip(path, reference, strict=True):
            assert a.tokens == b.tokens
            np.testing.assert_allclose(a.log_probs, b.log_probs, atol=1e-5)


def test_branches_share_their_prefix_and_are_exact(make_policy):
    policy = make_policy()
    (path,) = play(policy, n=1)
    fork = path[1][0]
    decisions = policy.act([fork] * 3, streams(3, seed=5))
    assert [d.prefilled for d in decisions] == [0, 0, 0]  # all known, and so are the logits after its last token
    siblings = [policy.extend(fork, d, room(9, 2)) for d in decisions]
    again = policy.act(siblings, streams(3, seed=6))
    fresh = make_policy(cache_bytes=0).act(siblings, streams(3, seed=6))
    for a, b in zip(again, fresh, strict=True):
        assert a.tokens == b.tokens
        np.testing.assert_allclose(a.log_probs, b.log_probs, atol=1e-5)


def test_keys_and_values_do_not_outlive_a_change_of_parameters(make_policy):
    policy = make_policy()
    context = policy.begin(room(0))
    policy.act([context], streams(1))
    optimiser = torch.optim.SGD(policy.parameters(), lr=1.0)
    policy.logprob([(context, policy.decide(context, "look"))])[0].sum().backward()
    (before,) = policy.act([context], streams(1))
    optimiser.step()
    (after,) = policy.act([context], streams(1))
    assert after.prefilled == len(context.ids)
    assert after.entropy != pytest.approx(before.entropy, abs=1e-6)


def test_decisions_do_not_depend_on_the_batch(make_policy):
    together = play(make_policy(), n=8)
    split = play(make_policy(batch_tokens=1), n=8)  # every row alone
    policy = make_policy()
    for i in range(8):
        (alone,) = policy.act([policy.begin(room(i))], [streams(8)[i]])
        assert alone.tokens == together[i][0][1].tokens
        np.testing.assert_allclose(alone.log_probs, together[i][0][1].log_probs, atol=1e-5)
        for (_, a), (_, b) in zip(together[i], split[i], strict=True):
            assert a.tokens == b.tokens
            np.testing.assert_allclose(a.log_probs, b.log_probs, atol=1e-5)


def test_same_streams_same_decisions_other_streams_other_decisions(make_policy):
    def actions(steps):
        return [d.action for path in steps for _, d in path]

    assert actions(play(make_policy())) == actions(play(make_policy()))
    assert actions(play(make_policy())) != actions(play(make_policy(), seed=1))


def test_one_draw_per_free_token(make_policy):
    policy = make_policy()
    (rng,), (same,) = streams(1), streams(1)
    (decision,) = policy.act([policy.begin(room(4))], [rng])
    same.random(len(decision.free))
    assert rng.random() == same.random()


def test_a_single_action_is_forced_and_costs_nothing(make_policy):
    policy = make_policy()
    context = policy.begin(Observation("A wall.", ("go to cabinet 12",), "find it.", 0))
    (rng,), (same,) = streams(1), streams(1)
    (decision,) = policy.act([context], [rng])
    assert (decision.action, decision.entropy, decision.prefilled, decision.generated) == ("go to cabinet 12", 0.0, 0, 0)
    assert set(decision.log_probs) == {0.0}
    assert decision.free == ()
    assert rng.random() == same.random()
    values, owner = policy.logprob([(context, decision)])
    assert len(values) == len(owner) == 0
    values.sum().backward()
    assert all(p.grad is None for p in policy.parameters())


def test_forced_tokens_carry_no_gradient(make_policy):
    """Only tokens with a choice are scored: the log-prob does not move when a forced token's logit does."""
    policy = make_policy()
    context = policy.begin(Observation("Two doors.", ("go to cabinet 1", "go to cabinet 2"), "find it.", 0))
    decision = policy.decide(context, "go to cabinet 2")
    assert [len(ids) for ids in decision.choices].count(2) == 1
    values, owner = policy.logprob([(context, decision)])
    assert owner.tolist() == [0]
    values.sum().backward()
    gradient = policy.model.model.embed_tokens.weight.grad  # tied: also the output embedding
    unread = decision.tokens[-1]  # the newline after the choice is never read, nor scored
    read = set(context.ids) | set(decision.tokens[:-1])
    assert unread in read or gradient[unread].abs().sum() == 0
    assert decision.generated == 0
    (acted,) = policy.act([context], streams(1))
    assert acted.generated == decision.free[0] + 1


def test_packing_gives_each_trajectory_one_row(make_policy, monkeypatch):
    policy = make_policy()
    steps = [step for path in play(policy) for step in path]
    ours, _ = policy.logprob(steps)
    policy._net.own = None
    widths = []
    forward = policy._net.logits_at
    monkeypatch.setattr(policy._net, "logits_at", lambda ids, *a, **k: widths.append(tuple(ids.shape)) or forward(ids, *a, **k))
    values, _ = policy.logprob(steps)
    assert len(widths) == 1
    assert widths[0][0] == 6
    alone = [policy.logprob([step])[0] for step in steps]
    torch.testing.assert_close(values, torch.cat(alone), atol=1e-5, rtol=0)
    torch.testing.assert_close(values, ours, atol=1e-5, rtol=0)


def test_batches_cover_every_step_once_within_the_budget(make_policy):
    policy = make_policy(batch_tokens=500)
    steps = [step for path in play(policy) for step in path]
    groups = policy.batches(steps)
    assert sorted(i for group in groups for i in group) == list(range(len(steps)))
    assert len(groups) > 1
    whole = policy.logprob(steps)[0].sum().item()
    assert sum(policy.logprob([steps[i] for i in group])[0].sum().item() for group in groups) == pytest.approx(whole, abs=1e-3)


def test_contexts_keep_sampled_tokens_and_are_never_changed(make_policy):
    policy = make_policy()
    context = policy.begin(room(0))
    ids = context.ids
    (decision,) = policy.act([context], streams(1))
    longer = policy.extend(context, decision, room(0, 1))
    assert context.ids == ids
    assert longer.ids[: len(ids) + len(decision.tokens)] == ids + decision.tokens
    text = policy.tokenizer.decode(longer.ids, skip_special_tokens=True)
    assert text == f"Task: {room(0).task}\n{room(0).text}\n> {decision.action}\n{room(0, 1).text}\n>"
    assert policy.context_size(longer) == len(longer.ids)


@pytest.mark.parametrize("writing", ["constrained", "free"])
def test_save_and_load_give_the_same_policy(make_policy, tmp_path, writing):
    policy = make_policy(writing=writing, prompt="windowed", temperature=0.5, max_action_tokens=8)
    policy.save(tmp_path / "model")
    loaded = LMPolicy.load(tmp_path / "model")
    assert loaded.settings == policy.settings
    contexts = [policy.begin(room(i)) for i in range(3)], [loaded.begin(room(i)) for i in range(3)]
    assert [c.ids for c in contexts[0]] == [c.ids for c in contexts[1]]
    assert policy.act(contexts[0], streams(3)) == loaded.act(contexts[1], streams(3))
    assert LMPolicy.load(tmp_path / "model", temperature=2.0).temperature == 2.0


def test_frozen_copy_stays_when_the_policy_moves(make_policy):
    policy = make_policy()
    frozen = policy.frozen_copy()
    step = [(context := policy.begin(room(0)), policy.decide(context, "look"))]
    before = frozen.logprob(step)[0]
    assert not before.requires_grad
    assert frozen.parameters() == []
    with torch.no_grad():
        for p in policy.parameters():
            p.add_(0.1)
    torch.testing.assert_close(frozen.logprob(step)[0], before)
    assert not torch.allclose(policy.logprob(step)[0], before)
    policy.load_state_dict(frozen.state_dict())
    torch.testing.assert_close(policy.logprob(step)[0].detach(), before)


def test_wrong_input_is_named(make_policy, tmp_path):
    with pytest.raises(BadInput, match="no/such/folder"):
        LMPolicy.load(tmp_path / "no/such/folder")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="empty"):
        LMPolicy.load(tmp_path / "empty")
    with pytest.raises(BadInput, match="did you mean 'windowed'"):
        make_policy(prompt="window")
    with pytest.raises(BadInput, match="temperature"):
        make_policy(temperature=0)
    policy = make_policy()
    with pytest.raises(BadInput, match="writing='free'"):
        policy.act([policy.begin(Observation("$", None, "list files", 0))], streams(1))
    with pytest.raises(BadInput, match="dance"):
        policy.decide(policy.begin(room(0)), "dance")


def test_plain_rows_is_the_reference_for_models_without_a_plain_cache(make_policy):
    policy = make_policy()
    rows = PlainRows(policy._net, [(5, 6, 7), (8,)])
    first, read = rows.read()
    assert first.shape == (2, len(policy.tokenizer))
    assert read == [3, 1]
    rows.take([1])
    torch.testing.assert_close(rows.feed([(9,)])[0], PlainRows(policy._net, [(8, 9)]).read()[0])


@pytest.mark.parametrize("name", ["gpt2", "qwen2", "gemma2"])
def test_other_architectures(tokenizer, name):
    """Learned positions, biases, and sliding windows with soft caps (no cache, no split): same agreement."""
    from transformers import AutoModelForCausalLM, Gemma2Config, GPT2Config, Qwen2Config

    common = {"vocab_size": len(tokenizer), "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    layers = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 64,
    }
    config = {
        "gpt2": lambda: GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=512, attn_implementation="eager", **common),
        "qwen2": lambda: Qwen2Config(**layers, **common),
        "gemma2": lambda: Gemma2Config(**layers, head_dim=16, sliding_window=16, final_logit_softcapping=5.0, **common),
    }[name]()
    torch.manual_seed(0)
    policy = LMPolicy(AutoModelForCausalLM.from_config(config).float(), tokenizer)
    assert (policy._net.kv_shape is None) == (name == "gemma2")
    steps = [step for path in play(policy, n=3, length=3) for step in path]
    values, _ = policy.logprob(steps)
    np.testing.assert_allclose(values.detach().numpy(), [d.log_probs[j] for _, d in steps for j in d.free], atol=1e-5)


def test_teacher_forcing_covers_demonstrations(make_policy):
    policy = make_policy()
    for observation, action in demonstration(0):
        decision = policy.decide(policy.begin(observation), action)
        assert policy.tokenizer.decode(decision.tokens) == f" {action}\n"
        assert all(token in ids for token, ids in zip(decision.tokens, decision.choices, strict=True))


def test_the_order_of_rows_does_not_depend_on_where_contexts_lie_in_memory(make_policy):
    """Rounding depends on a row's place in the batch, so an order by address would make two runs differ in the last digit."""
    policy = make_policy()
    contexts = [policy.begin(room(5)) for _ in range(64)]
    for order in (contexts, contexts[::-1], sorted(contexts, key=id), sorted(contexts, key=id, reverse=True)):
        assert [i for group in policy._groups(order, list(range(64))) for i in group] == list(range(64))


TWO_PROCESSES = """
import random
padding = [bytes(random.randrange(1, 4000)) for _ in range(random.randrange(1, 9000))]
import sys
from pathlib import Path
from bpo import experiment
from bpo.config import load_preset
import torch
torch.set_num_threads(1)
config = load_preset("smoke").run("bpo_split", "household", 0)
result = experiment.run(config, Path(sys.argv[1]), noise_draws=2, noise_tasks=2)
print(repr([result["metrics"], result["noise"], result["evaluation"]]))
"""


def test_two_processes_give_the_same_run_bit_for_bit(tmp_path, monkeypatch):
    """Other hash seed, other memory layout: the same warm start, trees, gradients and episodes to the last digit."""
    said = []
    for seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "BPO_CACHE": str(tmp_path / seed), "PADDING": "x" * int(seed) * 31}
        command = [sys.executable, "-c", TWO_PROCESSES, str(tmp_path / f"run{seed}")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        said.append(done.stdout)
    assert said[0] == said[1]
    assert len(said[0]) > 2000
