"""Free writing that pauses inside actions: trees can branch there, and nothing else changes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from rooms import room, streams

from bpo.errors import BadInput
from bpo.evaluate import evaluate
from bpo.rollout import Growth, grow
from bpo.sandboxes import factory
from bpo.select import PostHocSelector, Spacing, Threshold, TopWindow


@pytest.fixture
def sandboxes():
    made = [factory("household", {"difficulty": "tiny"})() for _ in range(2)]
    yield made
    for sandbox in made:
        sandbox.close()


@pytest.mark.parametrize("prompt", ["transcript", "windowed"])
def test_trees_branch_inside_actions(make_policy, sandboxes, prompt):
    policy = make_policy(prompt=prompt, writing="free", max_action_tokens=12, pause_tokens=4)
    growth = Growth(Threshold(0.0, Spacing(gap=4, unit="tokens")), points=3, width=3, root=False)
    tasks = sandboxes[0].tasks("train")[:2]
    trees, ledger = grow(tasks, sandboxes, policy, growth, (0,))
    inside = 0
    done = 0
    for tree in trees:
        tree.validate()
        for node in range(1, len(tree)):
            step = tree.steps[node]
            done += step.decision.ended
            if not step.decision.ended:
                assert step.decision.action == policy.tokenizer.decode(step.decision.tokens)
                assert len(step.decision.tokens) == 4
                assert (tree.reward[node], tree.outcome[node], tree.actions[node]) == (0.0, {}, -1)
                assert tree.position[node] == tree.position[tree.parent[node]] + 4
                # What follows goes on from these tokens, in the same state.
                for child in tree.children[node]:
                    following = tree.steps[child].context
                    assert following.ids == step.context.ids + step.decision.tokens
                    assert following.draft == step.context.draft + step.decision.tokens
                    assert following.observation is step.context.observation
            else:
                assert len(step.context.draft) + len(step.decision.tokens) <= 12
                written = [*step.context.draft, *step.decision.tokens]
                assert step.decision.action == policy._style.parse(written, step.context.observation.actions)
        inside += sum(bool(tree.steps[node] and not tree.steps[node].decision.ended) for node in tree.branch_points)
        assert len(tree.leaves) == 1 + 3 * 2
        assert all(tree.steps[leaf].decision.ended for leaf in tree.leaves)
        points = [tree.position[node] for node in tree.branch_points]
        assert min(abs(a - b) for i, a in enumerate(points) for b in points[:i]) >= 4
    assert inside > 0
    assert ledger.env_steps == done
    # Entropy is that of the next token, and training finds the log-probabilities of the rollout.
    steps = [(step.context, step.decision) for tree in trees for step in tree.steps if step is not None][:30]
    values, _ = policy.logprob(steps)
    sampled = [value for _, decision in steps for value in decision.log_probs]
    np.testing.assert_allclose(values.detach().numpy(), sampled, atol=1e-4)
    for context, decision in steps[:8]:
        ids = torch.tensor([context.ids])
        with torch.no_grad():
            next_token = policy.model(ids).logits[0, -1].log_softmax(-1)
        assert decision.entropy == pytest.approx(float(-(next_token.exp() * next_token).sum()), abs=1e-4)


@pytest.mark.parametrize("prompt", ["transcript", "windowed"])
def test_a_gap_of_tokens_leaves_room_for_all_branch_points(make_policy, sandboxes, prompt):
    """Prompts that are rendered anew stay as long as they are; the path goes on, and with it the places to branch."""
    policy = make_policy(prompt=prompt)
    growth = Growth(Threshold(0.0, Spacing(gap=24, unit="tokens")), points=4, width=4)
    trees, ledger = grow(sandboxes[0].tasks("train")[:4], sandboxes, policy, growth, (0,))
    for tree in trees:
        assert all(
            tree.position[tree.parent[node]] < tree.position[node] for node in range(1, len(tree)) if tree.children[node]
        )
        points = [int(tree.position[node]) for node in tree.branch_points]
        assert min(b - a for a, b in itertools.pairwise(points)) >= 24
    assert [len(tree.branch_points) for tree in trees] == [4] * 4
    assert ledger.returns == 4 * (1 + 4 * 3)


def test_pauses_after_texts(make_policy):
    policy = make_policy(writing="free", max_action_tokens=60, pause_at=["a", "room"])
    context = policy.begin(room(0))
    paused = 0
    for seed in range(12):
        (decision,) = policy.act([context], [np.random.default_rng(seed)])
        text = policy.tokenizer.decode(decision.tokens)
        before = policy.tokenizer.decode(decision.tokens[:-1])
        if not decision.ended:
            paused += 1
            assert any(text.count(mark) > before.count(mark) for mark in ("a", "room"))
        assert "a" not in before
    assert paused > 3


def test_a_pause_changes_no_probability(make_policy):
    """The same tokens, written at once or in pieces, have the same log-probabilities."""
    whole, pieces = (
        make_policy(writing="free", max_action_tokens=9),
        make_policy(writing="free", max_action_tokens=9, pause_tokens=3),
    )
    context = whole.begin(room(1))
    for decision in whole.act([context] * 6, streams(6)):
        steps, here = [], context
        for start in range(0, len(decision.tokens), 3):
            tokens = decision.tokens[start : start + 3]
            part = type(decision)("", tokens, (0.0,) * len(tokens), (None,) * len(tokens), 0.0, ended=False)
            steps.append((here, part))
            here = pieces.resume(here, part)
        one, _ = whole.logprob([(context, decision)])
        many, owner = pieces.logprob(steps)
        assert owner.tolist() == [i // 3 for i in range(len(decision.tokens))]
        np.testing.assert_allclose(one.detach(), many.detach(), atol=1e-5)


class Seen(TopWindow):
    """Keeps what it was shown."""

    def choose(self, boundaries, count):
        self.boundaries = list(boundaries)
        return super().choose(boundaries, count)


@pytest.mark.parametrize("pause", [0, 5])
def test_windowed_entropy_looks_at_the_next_tokens_of_the_path(make_policy, sandboxes, pause):
    policy = make_policy(writing="free", max_action_tokens=12, pause_tokens=pause)
    selector = Seen(Spacing(gap=1, unit="tokens"))
    (tree,), _ = grow(sandboxes[0].tasks("train")[:1], sandboxes, policy, Growth(selector, points=2, width=2), (3,))
    path = list(tree.backbone)
    after = [entropy for node in path[1:] for entropy in tree.steps[node].decision.entropies]
    assert len(after) == sum(len(tree.steps[node].decision.tokens) for node in path[1:])
    start = 0
    for boundary, node in zip(selector.boundaries, path, strict=False):
        assert boundary.window == pytest.approx(np.mean(after[start : start + 20]))
        assert boundary.entropy == pytest.approx(after[start])
        start += len(tree.steps[path[path.index(node) + 1]].decision.tokens)
    windows = sorted((boundary.window for boundary in selector.boundaries), reverse=True)
    chosen = [selector.boundaries[path.index(node)].window for node in tree.branch_points]
    assert sorted(chosen, reverse=True) == windows[:2]
    assert not TopWindow.causal
    assert issubclass(TopWindow, PostHocSelector)


def test_evaluation_counts_actions_and_not_pauses(make_policy, sandboxes):
    policy = make_policy(writing="free", max_action_tokens=8, pause_tokens=2)
    episodes, ledger = evaluate(policy, sandboxes, sandboxes[0].tasks("train")[:2])
    assert sum(episode.steps for episode in episodes) == ledger.env_steps
    assert ledger.generated > 2 * ledger.env_steps


def test_bad_input(make_policy):
    for name, value in (("cache_bytes", -1), ("cache_bytes", "1GB"), ("cache_bytes", None), ("share", "no")):
        with pytest.raises(BadInput, match=f"{name} is {value!r}; it must be"):
            make_policy(**{name: value})
    with pytest.raises(BadInput, match="they need writing 'free'"):
        make_policy(pause_tokens=4)
    with pytest.raises(BadInput, match="pause_tokens is -1"):
        make_policy(writing="free", pause_tokens=-1)
    with pytest.raises(BadInput, match="a list of texts"):
        make_policy(writing="free", pause_at="</think>")
