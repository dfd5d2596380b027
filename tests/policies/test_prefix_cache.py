"""The store of keys and values against a plain dictionary, and what trees read with it."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from bpo.methods import build
from bpo.policies.prefix_cache import PrefixStore
from bpo.policies.prefix_sharing import plan
from bpo.policies.score import pack, read_before
from bpo.rollout import grow
from bpo.sandboxes import factory

FOREVER = 2**30
FLOATS = 2  # of a stored token: two layers' worth of one number
sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple), min_size=1, max_size=12)


def values(ids: tuple[int, ...]) -> torch.Tensor:
    """Stand-ins [2, 1, tokens, 1] for keys and values: they depend on all tokens up to their own, as real ones do."""
    sums = [float(hash(ids[: i + 1]) % 10_007) for i in range(len(ids))]
    return torch.tensor([sums, sums]).reshape(2, 1, len(ids), 1)


def filled(sequences, limit: int = FOREVER) -> PrefixStore:
    store = PrefixStore(limit)
    for ids in sequences:
        store.put(ids, values(ids), torch.tensor([float(len(ids))]))
    return store


def beginnings(sequences) -> set[tuple[int, ...]]:
    return {ids[:length] for ids in sequences for length in range(1, len(ids) + 1)}


def stored(store: PrefixStore, wanted) -> set[tuple[int, ...]]:
    """Those of the wanted sequences that are stored in full, after a look at what is stored of each."""
    found = set()
    for ids in wanted:
        known = store.find(ids)
        together = torch.cat(known.pieces, 2) if known.pieces else torch.empty(2, 1, 0, 1)
        assert torch.equal(together, values(ids[: known.length])) or known.length == 0
        found |= {ids} if known.length == len(ids) else set()
    return found


@given(sequences, sequences)
def test_the_store_knows_every_beginning_of_what_was_put_and_nothing_else(put, asked):
    store = filled(put)
    assert stored(store, asked + put) == beginnings(put) & set(asked + put)
    for ids in put:
        assert store.find(ids).state == torch.tensor([float(len(ids))])
    assert all(store.find(ids).state is None for ids in set(asked) - set(put))
    # Room to grow is at most doubled; every beginning that sequences share is there once.
    tokens, logits = len(beginnings(put)), len(set(put))
    assert 4 * (FLOATS * tokens + logits) <= store.size_bytes <= 4 * (2 * FLOATS * tokens + logits)


@given(sequences, sequences)
def test_retain_keeps_the_way_to_its_sequences_and_what_goes_on_from_them(put, kept):
    store = filled(put)
    store.evict_except(kept)
    every = beginnings(put)
    comparable = {ids for ids in every for one in kept if ids == one[: len(ids)] or one == ids[: len(one)]}
    assert stored(store, every) == comparable
    assert store.size_bytes >= 4 * FLOATS * len(comparable)
    store.evict_except([])
    assert (len(store), store.size_bytes) == (0, 0)


@given(sequences, st.integers(1, 200))
def test_the_store_is_bounded_and_still_right(put, limit):
    store = PrefixStore(limit)
    for ids in put:
        store.put(ids, values(ids), torch.zeros(1))
        assert store.size_bytes <= limit
        stored(store, put)
    store.clear()
    assert (len(store), store.size_bytes) == (0, 0)


def test_what_was_used_least_recently_goes_first_and_ends_before_beginnings():
    store = filled([(1, 2, 3), (1, 2, 4), (1, 5)], limit=4 * (FLOATS * 6 + 3))
    store.find((1, 2, 3))
    store.put((9, 9), values((9, 9)), torch.zeros(1))
    assert stored(store, [(1, 2, 3), (1, 2, 4), (1, 5), (9, 9), (1, 2)]) == {(1, 2, 3), (1, 5), (9, 9), (1, 2)}


def test_a_fork_copies_nothing_that_lies_above_it():
    store = filled([(1, 2, 3, 4), (1, 2, 7)])
    above = [store.find(ids).pieces[0].data_ptr() for ids in ((1, 2, 3, 4), (1, 2, 7))]
    store.put((1, 2, 8), values((1, 2, 8)), torch.zeros(1))
    assert above[0] == above[1] == store.find((1, 2, 8)).pieces[0].data_ptr()


GROWN = {
    "causal": ("bpo_split", {"gap": 1, "unit": "steps", "floor": 0.0, "selector_value": 0.3}, {}),
    "post hoc": ("bpo", {"gap": 1, "unit": "steps", "floor": 0.0}, {}),
    "independent": ("rloo", {"returns": 6}, {}),
    "free writing": ("rloo", {"returns": 6}, {"writing": "free", "max_action_tokens": 6}),
    "free writing that mostly agrees": (
        "rloo",
        {"returns": 6},
        {"writing": "free", "max_action_tokens": 6, "temperature": 0.2},
    ),
    "windows": ("bpo_split", {"gap": 1, "unit": "steps", "floor": 0.0, "selector_value": 0.3}, {"prompt": "windowed"}),
    "windows, post hoc": ("bpo", {"gap": 1, "unit": "steps", "floor": 0.0}, {"prompt": "windowed"}),
    "windows, free writing": (
        "bpo",
        {"gap": 1, "unit": "steps", "floor": 0.0},
        {"prompt": "windowed", "writing": "free", "max_action_tokens": 6},
    ),
    "free writing that pauses": (
        "bpo_split",
        {"gap": 1, "unit": "tokens", "floor": 0.0, "selector_value": 0.3},
        {"writing": "free", "max_action_tokens": 6, "pause_tokens": 2},
    ),
}


def grown(policy, method: str, parameters: dict, tasks: int = 2):
    sandboxes = [factory("household", {"difficulty": "tiny", "max_steps": 8})() for _ in range(tasks)]
    trees, ledger = grow(sandboxes[0].tasks("train")[:tasks], sandboxes, policy, build(method, parameters).growth, (3,))
    for sandbox in sandboxes:
        sandbox.close()
    return trees, ledger


@pytest.mark.parametrize("name", GROWN)
def test_a_tree_computes_every_token_that_precedes_a_decision_once(make_policy, name):
    method, parameters, writing = GROWN[name]
    policy, plain = make_policy(**writing), make_policy(**writing, cache_bytes=0)
    trees, ledger = grown(policy, method, parameters)
    paths = [read_before(step.context, step.decision) for tree in trees for step in tree.steps[1:]]
    assert ledger.computed == plan(pack(paths)[0], shortest=1).unique
    assert ledger.prefilled <= ledger.computed
    assert len(policy._store) == policy._store.size_bytes == 0

    again, spent = grown(plain, method, parameters)
    assert spent.computed > 1.5 * ledger.computed
    for tree, other in zip(trees, again, strict=True):
        for step, same in zip(tree.steps[1:], other.steps[1:], strict=True):
            assert step.decision.tokens == same.decision.tokens
            np.testing.assert_allclose(step.decision.log_probs, same.decision.log_probs, atol=1e-5)
            assert step.decision.entropy == pytest.approx(same.decision.entropy, abs=1e-5)
        steps = [(step.context, step.decision) for step in tree.steps[1:]]
        fresh, _ = policy.logprob(steps)
        rollout = [d.log_probs[j] for _, d in steps for j in d.free]
        np.testing.assert_allclose(fresh.detach().numpy(), rollout, atol=1e-5)


def test_a_branch_that_ends_frees_what_no_other_can_reach(make_policy, monkeypatch):
    policy = make_policy()
    sizes, plain = [], policy.evict_except

    def evict_except(contexts):
        before = policy._store.size_bytes
        plain(contexts)
        reachable = beginnings([context.ids for context in contexts])
        sizes.append((before, policy._store.size_bytes, len(reachable)))

    monkeypatch.setattr(policy, "evict_except", evict_except)
    grown(policy, "rloo", {"returns": 6})
    layers, heads, size = policy._net.kv_shape
    token = layers * heads * size * 4
    assert any(after < before for before, after, reachable in sizes if reachable)
    for _, after, reachable in sizes:
        logits = 4 * len(policy.tokenizer) * reachable
        assert after <= 2 * token * reachable + logits
    assert sizes[-1][1] == 0
