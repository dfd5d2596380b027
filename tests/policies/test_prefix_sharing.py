"""Reading a tree's shared beginnings once gives the log-probabilities and the gradients of reading every sequence by itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms import room
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from bpo.policies import prefix_sharing
from bpo.policies.net import Net
from bpo.policies.prefix_cache import pad
from bpo.policies.score import pack, read_before

VOCABULARY = 50


def sequences_of(shape, rng, prefix=(), vocabulary=VOCABULARY):
    """Sequences from a nested shape: a number is a private ending of that length, a list begins with what its others share."""
    if isinstance(shape, int):
        return [prefix + tuple(rng.integers(vocabulary, size=shape).tolist())]
    length, *children = shape
    start = prefix + tuple(rng.integers(vocabulary, size=length).tolist())
    return [row for child in children for row in sequences_of(child, rng, start, vocabulary)]


FLAT = [40, *[20] * 6]
NESTED = [30, [25, 12, 9], [18, 5, [22, 7, 7, 30]], 40]
SHAPES = {"flat": FLAT, "nested": NESTED, "two families": [0, FLAT, NESTED, 33], "nothing shared": [0, 9, 30, 18]}


def model_of(kind):
    torch.manual_seed(0)
    common = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    if kind == "qwen2":
        config = Qwen2Config(vocab_size=VOCABULARY, num_key_value_heads=2, **common)
        return Qwen2ForCausalLM(config)
    config = LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=4 if kind == "llama" else 1, **common)
    if kind == "eager":
        config._attn_implementation = "eager"
    return LlamaForCausalLM(config)


def one_by_one(net, rows, places):
    logits = []
    for row, position in places:
        ids, mask = pad([rows[row]], net.device)
        logits.append(net.logits_at(ids, (torch.tensor([0]), torch.tensor([position])), mask=mask))
    return torch.cat(logits)


def loss_and_gradient(net, logits, rng):
    targets = torch.tensor(rng.integers(VOCABULARY, size=len(logits)))
    values = logits.log_softmax(-1)[torch.arange(len(logits)), targets]
    net.model.zero_grad()
    (values * torch.tensor(rng.normal(size=len(logits)), dtype=torch.float32)).sum().backward()
    return values.detach(), torch.cat([p.grad.flatten() for p in net.model.parameters() if p.grad is not None])


@pytest.mark.parametrize("kind", ["llama", "eager", "qwen2"])
@pytest.mark.parametrize("shape", SHAPES)
def test_staged_and_packed_equal_one_by_one(shape, kind):
    net = Net(model_of(kind))
    rows = sequences_of(SHAPES[shape], np.random.default_rng(1))
    places = [(i, p) for i, row in enumerate(rows) for p in range(0, len(row), 3)]
    planned = prefix_sharing.plan(rows)
    ways = {
        "one by one": lambda: one_by_one(net, rows, places),
        "staged": lambda: prefix_sharing.staged(net, planned, places, batch_tokens=64),
        "packed": lambda: prefix_sharing.packed(net, planned, places),
    }
    results = {name: loss_and_gradient(net, way(), np.random.default_rng(2)) for name, way in ways.items()}
    values, gradient = results["one by one"]
    for name in ("staged", "packed"):
        np.testing.assert_allclose(results[name][0], values, atol=1e-4)
        assert float((results[name][1] - gradient).norm() / gradient.norm()) < 1e-3, name


def test_a_plan_reads_shared_tokens_once():
    rows = sequences_of(NESTED, np.random.default_rng(0), vocabulary=10**9)  # so that nothing is shared by chance
    planned = prefix_sharing.plan(rows)
    assert planned.unique == 30 + 25 + 12 + 9 + 18 + 5 + 22 + 7 + 7 + 30 + 40
    assert [len(stage) for stage in planned.stages()] == [1, 2, 1, 7]
    for row, path in zip(rows, planned.paths, strict=True):
        assert sum((planned.segments[i].tokens for i in path), ()) == row
    # Short beginnings are read again, where a stage of their own would cost more.
    assert prefix_sharing.plan(rows, shortest=71).unique == sum(map(len, rows))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), min_size=1, max_size=8, unique=True))
def test_plans_put_every_sequence_together(rows):
    rows = [one for one in rows if not any(other != one and other[: len(one)] == one for other in rows)]
    for shortest in (1, 3):
        planned = prefix_sharing.plan(rows, shortest)
        for i, row in enumerate(rows):
            path = planned.paths[i]
            assert sum((planned.segments[k].tokens for k in path), ()) == row
            assert all(planned.segments[a].leaf is False for a in path[:-1])
            assert planned.segments[path[-1]].leaf
            for position in range(len(row)):
                segment, offset = planned.place(i, position)
                assert segment in path
                assert planned.segments[segment].tokens[offset] == row[position]
        inner = [segment for segment in planned.segments if not segment.leaf]
        assert all(len(segment.tokens) >= shortest for segment in inner)
    for budget in (1, 10, 1000):
        groups = prefix_sharing.together(rows, budget)
        assert sorted(itertools.chain(*groups)) == list(range(len(rows)))


def test_sharing_is_used_where_it_pays():
    rng = np.random.default_rng(0)
    much, little = sequences_of([600, *[200] * 16], rng), sequences_of([20, *[200] * 4], rng)
    assert prefix_sharing.best(much, 8192, pair=0.0).unique == 600 + 16 * 200
    assert prefix_sharing.best(little, 8192, pair=0.0) is None
    # Attention to what is shared is not saved: where it is most of the cost, nothing is gained.
    assert prefix_sharing.best(much, 8192, pair=0.01) is not None
    assert prefix_sharing.best(sequences_of([60, *[200] * 16], rng), 8192, pair=0.01) is None
    assert prefix_sharing.best([], 8192, pair=0.0) is None


def forked(policy):
    """Steps of a tree of one game: a common path of two decisions, then five paths apart."""
    context = policy.begin(room(0))
    common = []
    for action in ("look", "inventory"):
        decision = policy.decide(context, action if action in context.observation.actions else context.observation.actions[0])
        common.append((context, decision))
        context = policy.extend(context, decision, room(1, 0))
    paths = []
    for child in range(5):
        steps, here = [], context
        for turn in range(3):
            decision = policy.decide(here, here.observation.actions[(child + turn) % len(here.observation.actions)])
            steps.append((here, decision))
            here = policy.extend(here, decision, room(2 + child, turn % 2))
        paths += steps
    return common + paths


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("batch_tokens", [8192, 1024])
def test_a_policy_trains_the_same_with_and_without_sharing(make_policy, monkeypatch, batch_tokens, own):
    used = []
    original = prefix_sharing.staged
    monkeypatch.setattr(prefix_sharing, "staged", lambda *given: used.append(1) or original(*given))
    monkeypatch.setattr(prefix_sharing, "cost", lambda planned, *_: planned.unique)
    found = []
    for share in (True, False):
        policy = make_policy(share=share, batch_tokens=batch_tokens)
        if not own:
            policy._net.own = None
        steps = forked(policy)
        sequences, _ = pack([read_before(*step) for step in steps])
        apart, unique = sum(map(len, sequences)), prefix_sharing.plan(sequences, 1).unique
        read = policy.tokens_read(steps)
        assert unique <= read < apart if share else read == apart
        groups = policy.batches(steps)
        assert sorted(itertools.chain(*groups)) == list(range(len(steps)))
        values = {}
        for group in groups:
            log_probs, owner = policy.logprob([steps[i] for i in group])
            (log_probs * torch.linspace(1, 2, len(steps))[[group[i] for i in owner.tolist()]]).sum().backward()
            for i, value in zip(owner.tolist(), log_probs.tolist(), strict=True):
                values.setdefault(group[i], []).append(value)
        gradient = torch.cat([p.grad.flatten() for p in policy.parameters()])
        found.append((np.concatenate([values[i] for i in sorted(values)]), gradient))
    assert bool(used) != own
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-4)
    assert float((found[0][1] - found[1][1]).norm() / found[1][1].norm()) < 1e-3


def test_gradient_checkpointing_reads_every_sequence_by_itself(make_policy, monkeypatch):
    monkeypatch.setattr(prefix_sharing, "cost", lambda planned, *_: planned.unique)
    policy = make_policy()
    steps = forked(policy)
    before, _ = policy.logprob(steps)
    policy.model.activation_checkpointing_enable()
    monkeypatch.setattr(prefix_sharing, "staged", lambda *given: pytest.fail("shared under gradient checkpointing"))
    after, _ = policy.logprob(steps)
    np.testing.assert_allclose(before.detach(), after.detach(), atol=1e-4)
