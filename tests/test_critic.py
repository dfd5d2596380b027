"""A value head on the policy's model: what it learns at a frozen policy, its targets, its clip, and what it changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bpo import credit
from bpo.credit.gae import advantages
from bpo.critic import Critic
from bpo.methods import build
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import grow
from bpo.sandboxes.toy import TASKS, ToyTree
from bpo.select import RootOnly
from bpo.tree import ROOT

RETURNS = [0.1, 0.9, 0.4, 0.3, 0.0, 1.0, 0.2, 0.6]
STATES = ("", "0", "1", "00", "01", "10", "11")
CHANCE = 0.4


def policy_of():
    return TabularPolicy.bernoulli(dict.fromkeys(STATES, CHANCE))


def grown(number=0, returns=5, tasks=2, policy=None):
    growth = build("ppo", {"returns": returns}).growth
    sandboxes = [ToyTree(RETURNS) for _ in range(tasks)]
    return grow(TASKS[:tasks], sandboxes, policy or policy_of(), growth, (number,))[0]


def critic_of(policy, **changes):
    made = Critic(RootOnly(), **{"gamma": 1.0, "lam": 0.95, "clip": 0.2, "weight": 0.5, **changes})
    made.attach(policy, None)
    return made


def set_values(critic, values):
    """Give every state a value: the features are one-hot, in order of the names."""
    critic.head.weights.data[:-1] = torch.tensor([values[state] for state in sorted(STATES)], dtype=torch.float64)


def exact_values() -> dict[str, float]:
    values = {format(i, "03b"): value for i, value in enumerate(RETURNS)}
    for depth in (2, 1, 0):
        for state in [s for s in STATES if len(s) == depth]:
            values[state] = (1 - CHANCE) * values[state + "0"] + CHANCE * values[state + "1"]
    return values


def test_advantages_are_discounted_sums_of_differences():
    """delta = r + gamma V' - V, A = sum of (gamma lam)^k delta, written out for three steps."""
    (tree, _), gamma, lam = grown(), 0.9, 0.8
    values = np.where(tree.ended, 0.0, np.linspace(0.1, 0.7, len(tree)))
    found = advantages(tree, values, gamma, lam)
    for child in tree.children[ROOT]:
        one, two, three = tree.main_path(child)
        deltas = [
            tree.reward[one] + gamma * values[one] - values[ROOT],
            tree.reward[two] + gamma * values[two] - values[one],
            tree.reward[three] - values[two],
        ]
        assert found[three] == pytest.approx(deltas[2])
        assert found[one] == pytest.approx(deltas[0] + gamma * lam * deltas[1] + (gamma * lam) ** 2 * deltas[2])


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_the_ends_of_lambda_are_one_step_and_the_return(lam):
    policy, trees = policy_of(), grown()
    critic = critic_of(policy, lam=lam)
    values = exact_values()
    set_values(critic, values)
    for tree, found in zip(trees, credit.gae(trees, critic, gamma=1.0, lam=lam), strict=True):
        for node in range(1, len(tree)):
            here = values["".join(map(str, tree.state_key[tree.parent[node]]))]
            after = values["".join(map(str, tree.state_key[node]))] if lam == 0 else tree.returns[tree.main_leaf(node)]
            assert found.advantage[node] == pytest.approx(after - here)


def test_the_values_that_were_acted_on_are_the_exact_ones_of_the_head():
    trees, critic = grown(), critic_of(policy_of())
    assert all((values == 0).all() for values in critic.values(trees))
    set_values(critic, exact_values())
    for tree, values in zip(trees, critic.values(trees), strict=True):
        assert values[ROOT] == pytest.approx(exact_values()[""])
        assert (values[tree.leaves] == 0).all()


def test_the_loss_falls_at_a_frozen_policy_and_the_head_finds_the_values():
    policy = policy_of()
    critic = critic_of(policy, lam=1.0, clip=10.0)
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.6)
    fixed = grown(1000, returns=60, policy=policy)

    def loss(trees, backward=False):
        critic.values(trees)
        total = 0.0
        for part in critic.auxiliary_losses(trees):
            total += part.item()
            if backward:
                part.backward()
        return total

    before = loss(fixed)
    for number in range(60):
        optimizer.zero_grad()
        loss(grown(number, returns=20, policy=policy), backward=True)
        optimizer.step()
    assert loss(fixed) < 0.75 * before
    learned = {state: (critic.head.weights[i] + critic.head.weights[-1]).item() for i, state in enumerate(sorted(STATES))}
    for state in ("", "0", "1"):
        assert learned[state] == pytest.approx(exact_values()[state], abs=0.1)
    assert all(p.grad is None for p in policy.parameters())


def test_a_value_that_has_moved_beyond_its_clip_has_no_gradient_towards_the_target():
    """Old value 0, target above 0.2: once V has passed 0.2 the clipped loss is the larger one, and it is constant."""
    trees, critic = grown(returns=3, tasks=1), critic_of(policy_of(), lam=1.0)
    critic.values(trees)
    set_values(critic, dict.fromkeys(STATES, 0.3))
    targets = {float(tree.returns[tree.main_leaf(node)]) for tree in trees for node in tree.children[ROOT]}
    (loss,) = critic.auxiliary_losses(trees)
    worst = [max((0.3 - r) ** 2, (0.2 - r) ** 2) for tree in trees for leaf in tree.leaves for r in [tree.returns[leaf]] * 3]
    assert loss.item() == pytest.approx(0.5 * np.mean(worst) / 2)
    loss.backward()
    held = [r for r in targets if (0.2 - r) ** 2 > (0.3 - r) ** 2]
    pulled = [0.3 - r for tree in trees for leaf in tree.leaves for r in [float(tree.returns[leaf])] * 3 if r not in held]
    assert critic.head.weights.grad[-1].item() == pytest.approx(0.5 * sum(pulled) / (3 * 3 * len(trees)))
    assert held


def test_whitened_advantages_have_mean_0_and_std_1_over_tokens():
    method = build("ppo")
    trees, memory = grown(returns=8), build("ppo").memory()
    memory.attach(policy_of(), None)
    found = np.concatenate([c.advantage[1:] for c in method.credit(trees, memory)])
    assert found.mean() == pytest.approx(0, abs=1e-12)
    assert found.std() == pytest.approx(1)


def test_a_language_model_has_a_head_on_its_last_states_and_its_loss_reaches_the_model():
    """A state is that of the context alone, whatever follows it in the row that it is read in."""
    from bpo.policies.lm import LMPolicy
    from bpo.policies.tiny import tiny_model, train_tokenizer
    from bpo.sandbox import Observation

    tokenizer = train_tokenizer(["a room with a lamp"], 300)
    policy = LMPolicy(tiny_model(len(tokenizer), "micro"), tokenizer)
    first = policy.begin(Observation("a room with a lamp", ("look", "take lamp"), "find the lamp", 0))
    decision = policy.act([first], [np.random.default_rng(0)])[0]
    second = policy.extend(first, decision, Observation("the lamp is on", ("look",), "find the lamp", 1))
    ((indices, features),) = policy.features([second, first])
    assert indices == [0, 1]
    assert features.shape == (2, policy.feature_size)
    ((_, alone),) = policy.features([first])
    assert features[1].tolist() == pytest.approx(alone[0].tolist(), abs=1e-5)
    features.square().sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in policy.parameters())
