"""From trees to a gradient: losses that couple tokens, mini-batches, and what the tokens say of the tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bpo import objective, select, update
from bpo.config import load_preset
from bpo.credit import bpo_split
from bpo.learner import GradientLearner
from bpo.memory import Statistics
from bpo.methods import build
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import Growth, grow
from bpo.sandboxes.toy import TASKS, ToyTree
from bpo.train import Trainer

VALUES = [0.1, 0.9, 0.4, 0.3, 0.0, 1.0, 0.2, 0.6]
GROWTH = Growth(select.Every(1), points=2, width=3, root=True)


class InPieces(TabularPolicy):
    """A table whose batches hold two edges at most, the last ones first."""

    def batches(self, steps):
        order = list(range(len(steps)))[::-1]
        return [order[i : i + 2] for i in range(0, len(order), 2)]


def policy_of(kind=TabularPolicy, p=0.4):
    return kind.bernoulli(dict.fromkeys(("", "0", "1", "00", "01", "10", "11"), p))


def a_batch(tasks=3):
    trees, _ = grow(TASKS[:tasks], [ToyTree(VALUES) for _ in range(tasks)], policy_of(), GROWTH, (0,))
    return trees, update.make_batch(trees, [bpo_split([tree])[0] for tree in trees])


def token_mean(tokens, *, clip=0.2):
    """Couples all tokens: divided by the number of those whose ratio is within the bounds, and by their mean ratio."""
    ratio = (tokens.values - tokens.old).exp()
    inside = ((ratio - 1).abs() < clip).sum() + 1
    return -(ratio * tokens.advantage[tokens.owner]).sum() / inside / ratio.mean(), {"tokens": len(ratio), "clipped": 0}


def by_path(tokens):
    """Couples the tokens of a path: the ratio of an edge times that of the edge before it."""
    ratio = (tokens.values - tokens.old).exp()
    edge = torch.zeros(len(tokens.advantage), dtype=ratio.dtype).index_add(0, tokens.owner, tokens.values - tokens.old)
    before = torch.where(tokens.parent >= 0, edge[tokens.parent.clamp(min=0)], torch.zeros_like(edge))
    weighed = tokens.weight * tokens.advantage * (edge + before).exp()
    return -weighed.sum() - 0 * ratio.sum(), {"tokens": len(ratio), "clipped": 0}


def gradient_of(policy):
    return torch.cat([torch.zeros_like(p) if p.grad is None else p.grad for p in policy.parameters()])


@pytest.mark.parametrize("loss", [token_mean, by_path, objective.reinforce, objective.ppo_clip])
def test_two_passes_give_the_gradient_of_one_graph(loss):
    """The gradient by memory batches is that of the loss of all tokens in one graph, to rounding (1e-15)."""
    _, batch = a_batch()
    whole, pieces = policy_of(p=0.47), policy_of(InPieces, p=0.47)
    values, owner = whole.logprob(batch.steps)
    tokens = objective.Tokens(
        values=values,
        old=torch.as_tensor(np.concatenate(batch.old)),
        reference=None,
        owner=owner,
        advantage=torch.as_tensor(batch.advantage),
        weight=torch.as_tensor(batch.weight),
        parent=torch.as_tensor(batch.parent),
        rollout=torch.as_tensor(batch.rollout),
        tree=torch.as_tensor(batch.tree),
    )
    expected = loss(tokens)[0] / batch.trees
    expected.backward()
    facts = update.backward(pieces, None, batch, loss, {"clip": 0.2, "beta": 0.0})
    assert facts["loss"] == pytest.approx(expected.item(), abs=1e-14)
    assert gradient_of(pieces).abs().max() > 1e-3
    assert gradient_of(pieces).tolist() == pytest.approx(gradient_of(whole).tolist(), abs=1e-15)


def test_an_objective_is_given_the_settings_that_it_names():
    given = {}

    def looks(tokens, *, beta):
        given.update(beta=beta)
        return tokens.values.sum() * 0, {}

    _, batch = a_batch(1)
    update.backward(policy_of(), None, batch, looks, {"clip": 0.2, "beta": 0.7})
    assert given == {"beta": 0.7}


def test_tokens_know_the_edge_before_them_their_rollout_and_their_tree():
    trees, batch = a_batch(2)
    kept = [(t, n) for t, tree in enumerate(trees) for n in range(1, len(tree)) if bpo_split([tree])[0].has_signal[n]]
    assert len(kept) == len(batch.steps)
    for edge, (t, node) in enumerate(kept):
        parent = int(trees[t].parent[node])
        assert batch.tree[edge] == t
        while parent > 0 and (t, parent) not in kept:
            parent = int(trees[t].parent[parent])
        assert batch.parent[edge] == (kept.index((t, parent)) if parent > 0 else -1)
        main = trees[t].main_path(node)
        same = [other for other, (s, n) in enumerate(kept) if s == t and n in main]
        assert {batch.rollout[other] for other in same} == {batch.rollout[edge]}
    for tree_number, tree in enumerate(trees):
        begun = {batch.rollout[i] for i in range(len(kept)) if batch.tree[i] == tree_number}
        assert len(begun) <= len(tree.leaves)
    assert not {batch.rollout[i] for i in range(len(kept)) if batch.tree[i] == 0} & {
        batch.rollout[i] for i in range(len(kept)) if batch.tree[i] == 1
    }


def test_mini_batches_are_the_parts_of_a_batch():
    """The gradient of a batch is the mean of those of its parts, by trees."""
    _, batch = a_batch(3)

    def gradient(part):
        policy = policy_of()
        update.backward(policy, None, part, objective.reinforce, {})
        return gradient_of(policy)

    one, two = update.of_trees(batch, [1]), update.of_trees(batch, [0, 2])
    assert len(one.steps) + len(two.steps) == len(batch.steps)
    assert (one.parent < len(one.steps)).all()
    together = (gradient(one) + 2 * gradient(two)) / 3
    assert together.tolist() == pytest.approx(gradient(batch).tolist(), abs=1e-15)


def settings(**changes):
    return replace(load_preset("smoke").settings, **{"lr": 0.1, "beta": 0.0, "tasks_per_update": 4, **changes})


@pytest.mark.parametrize(("epochs", "mini_batches", "steps"), [(1, 1, 1), (3, 1, 3), (1, 4, 4), (2, 3, 6), (1, 9, 4)])
def test_an_update_makes_epochs_times_mini_batches_steps_on_every_tree_once_per_epoch(epochs, mini_batches, steps, monkeypatch):
    trees, _ = grow(TASKS[:4], [ToyTree(VALUES) for _ in range(4)], policy_of(), GROWTH, (0,))
    method = build("bpo_split", {"gap": 1, "unit": "steps"})
    learner = GradientLearner(policy_of(), Statistics(), method, settings(epochs=epochs, mini_batches=mini_batches), 0)
    seen = []
    original = update.backward
    monkeypatch.setattr(update, "backward", lambda p, r, batch, *rest: seen.append(batch) or original(p, r, batch, *rest))
    facts = learner.learn(0, trees, method.credit(trees))
    assert len(seen) == steps
    per_epoch = steps // epochs
    for epoch in range(epochs):
        part = seen[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sum(batch.trees for batch in part) == 4
        assert facts["tokens"] == sum(len(batch.steps) for batch in part)


class Learns(Statistics):
    """A memory with a parameter of its own, which is trained to be the mean return of the trees."""

    def __init__(self):
        super().__init__()
        self.guess = torch.zeros(1, dtype=torch.float64, requires_grad=True)

    def parameters(self):
        return [self.guess]

    def auxiliary_losses(self, trees):
        for tree in trees:
            yield ((self.guess - float(tree.value[0])) ** 2).sum() / len(trees)

    def state_dict(self):
        return {**super().state_dict(), "guess": self.guess.detach().clone()}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.guess.data.copy_(state["guess"])


def test_what_a_memory_learns_is_trained_with_the_policy_and_is_in_the_checkpoint(tmp_path):
    run = replace(load_preset("smoke").run("rloo", "toy", 0), settings=settings(updates=6, curve_every=0, checkpoint_every=3))

    def trainer(folder):
        made = Trainer(run, folder)
        made.memory = Learns()
        made.learner = made.method.learner(made.policy, made.memory, made.method, run.settings, 0)
        return made

    whole = trainer(tmp_path / "whole")
    whole.run()
    cut = trainer(tmp_path / "cut")
    for _ in range(3):
        cut.one_update()
    state = cut.state()
    resumed = trainer(tmp_path / "resumed")
    resumed.load_state(state)
    for _ in range(3):
        resumed.one_update()
    assert float(whole.memory.guess.detach()) != 0
    assert torch.equal(resumed.memory.guess, whole.memory.guess)
    assert resumed.memory.running == whole.memory.running
    assert all(torch.equal(row, whole.policy.logits[state]) for state, row in resumed.policy.logits.items())


def test_weights_in_half_precision_move_by_small_steps():
    """AdamW at 2e-6 moves a bfloat16 weight near 1 only because the steps add up in float32."""
    trees, _ = grow(TASKS[:4], [ToyTree(VALUES) for _ in range(4)], policy_of(), GROWTH, (0,))
    method = build("bpo_split", {"gap": 1, "unit": "steps"})
    moved = {}
    for dtype in (torch.float32, torch.bfloat16):
        policy = policy_of()
        policy.logits = {name: (row.detach() + 1).to(dtype).requires_grad_() for name, row in policy.logits.items()}
        before = {name: row.detach().float().clone() for name, row in policy.logits.items()}
        learner = GradientLearner(policy, Statistics(), method, settings(lr=2e-3, epochs=20), 0)
        learner.learn(0, trees, method.credit(trees))
        moved[dtype] = torch.cat([row.detach().float() - before[name] for name, row in policy.logits.items()])
    big = moved[torch.float32].abs() > 0.02
    assert big.any()
    assert moved[torch.bfloat16][big].tolist() == pytest.approx(moved[torch.float32][big].tolist(), abs=0.02)
