"""Every row of the table at work: one update has the size that its formula says, a resumed run agrees, and it acts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from bpo import checkpoint
from bpo.config import RunConfig, load_preset
from bpo.mechanism import FIRED, inactive
from bpo.methods import METHODS, build
from bpo.train import Trainer, read_metrics

# Returns that differ within every group of rollouts, and between states.
RETURNS = [0.1, 0.9, 0.4, 0.3, 0.0, 1.0, 0.2, 0.6]
ADAM_EPS = 1e-8


def config(method, returns=RETURNS, parameters=None, **settings) -> RunConfig:
    preset = load_preset("smoke")
    section = replace(preset.sandboxes["toy"], options={"returns": list(returns)})
    settings = {
        "updates": 6,
        "tasks_per_update": 4,
        "lr": 0.3,
        "checkpoint_every": 2,
        "curve_every": 0,
        "beta": 0.0,
        **settings,
    }
    chosen = replace(preset, sandboxes={"toy": section}, settings=replace(preset.settings, **settings))
    return chosen.run(method, "toy", 1, parameters)


def surrogate(trees, credits):
    """Weight times advantage of every edge, over the number of trees: minus this times the score is the loss's gradient."""
    return [credit.weight * credit.advantage / len(trees) for credit in credits]


# Objectives whose gradient at ratio 1 is another one.
def anchored(trees, credits):
    """2 (alpha R - log Z) per edge, with log Z = log mean exp(alpha R) of the auxiliary rollouts."""
    found = []
    for tree, credit in zip(trees, credits, strict=True):
        others = np.array([tree.returns[tree.main_leaf(node)] for node in tree.auxiliary_children[0]])
        residual = 15 * credit.advantage - np.log(np.mean(np.exp(15 * others)))
        found.append(2 * credit.weight * credit.has_signal * residual / len(trees))
    return found


FACTORS = {
    "rebel": lambda trees, credits: [4 * 8 / 7 * factor for factor in surrogate(trees, credits)],
    # Rollouts of three tokens.
    "flowrl": lambda trees, credits: [2 * 15 / 3 * factor for factor in surrogate(trees, credits)],
    "disa": anchored,
}


def by_hand(policy, factors, trees) -> dict[str, np.ndarray]:
    """-sum over edges of factor * (one-hot of the action - probabilities), per state."""
    slopes = {state: np.zeros(2) for state in policy.logits}
    for tree, factor in zip(trees, factors, strict=True):
        for node in range(1, len(tree)):
            step = tree.edge(node)
            probabilities = torch.softmax(policy.logits[step.context.text].detach(), 0).numpy()
            slopes[step.context.text] -= factor[node] * (np.eye(2)[step.decision.tokens[0]] - probabilities)
    return slopes


def zero_head(lam, trees) -> float:
    """Squared norm of the critic's gradient at V = 0: -0.5 * mean over the edges, by mass, of target times (state, 1)."""

    def target(tree, node):
        return tree.reward[node] + lam * sum(tree.weight[child] * target(tree, child) for child in tree.children[node])

    slopes = dict.fromkeys(["", "0", "1", "00", "01", "10", "11", "bias"], 0.0)
    edges = [(tree, node) for tree in trees for node in range(1, len(tree))]
    total = sum(tree.mass[node] for tree, node in edges)
    for tree, node in edges:
        for place in (tree.edge(node).context.text, "bias"):
            slopes[place] -= 0.5 * tree.mass[node] * target(tree, node) / total
    return sum(slope**2 for slope in slopes.values())


# What else is trained in the same step, by the squared norm of its gradient.
BESIDE = {"ppo": partial(zero_head, 0.95), "opts_ttpo": partial(zero_head, 0.999)}


@pytest.mark.parametrize("method", METHODS)
def test_one_update_follows_the_gradient_of_the_formula(method, tmp_path):
    """The norm that is logged is that of sum(factor * score), and AdamW's first step is lr * g / (|g| + eps)."""
    trainer = Trainer(config(method, max_grad_norm=1e9), tmp_path)
    learner, learned = trainer.learner, {}

    class Watched:
        def learn(self, number, trees, credits):
            factors = FACTORS.get(method, surrogate)(trees, credits)
            learned["slopes"] = by_hand(trainer.policy, factors, trees)
            learned["beside"] = BESIDE[method](trees) if method in BESIDE else 0.0
            learned["before"] = trainer.policy.state_dict()
            return learner.learn(number, trees, credits)

    trainer.learner = Watched()
    row, _ = trainer.one_update()
    trainer.close()
    norm = np.sqrt(sum((slope**2).sum() for slope in learned["slopes"].values()) + learned["beside"])
    assert norm > 1e-2
    assert row["grad_norm"] == pytest.approx(norm, rel=1e-9)
    for state, slope in learned["slopes"].items():
        step = (trainer.policy.logits[state].detach() - learned["before"][state]).numpy()
        assert step == pytest.approx(-0.3 * slope / (np.abs(slope) + ADAM_EPS), abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_agrees_with_an_undisturbed_one(method, tmp_path):
    run = config(method, epochs=2, mini_batches=2, beta=0.05)
    ends = []
    for which in ("latest", "previous"):
        trainer = Trainer(run, tmp_path)
        if which == "previous":
            assert [path.name for path in checkpoint.paths(tmp_path)] == ["checkpoint-000004.pt", "checkpoint-000006.pt"]
        trainer.run(which)
        trainer.close()
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in read_metrics(tmp_path / "metrics.jsonl")]
        ends.append((rows, {state: row.tolist() for state, row in trainer.policy.state_dict().items()}))
    assert len(ends[0][0]) == 6
    assert ends[0] == ends[1]


# Runs in which every mechanism of a row has to act: flat groups among others, and ratios that leave 1.
BINARY = [0, 0, 0, 0, 0, 1, 1, 1]
ACTING = {"rebel": [{}, {"form": "pairs"}], "dppo": [{}, {"divergence": "kl"}], "dapo": [{"returns": 3, "dual": 1.01}]}


@pytest.mark.parametrize(("method", "parameters"), [(m, p) for m in METHODS for p in ACTING.get(m, [{}])])
def test_what_makes_a_row_itself_happens(method, parameters, tmp_path):
    run = config(method, BINARY, parameters, epochs=3, mini_batches=2, lr=0.5, updates=8)
    trainer = Trainer(run, tmp_path)
    trainer.run()
    trainer.close()
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert rows[0][FIRED].keys() == build(method, parameters).mechanism.keys()
    assert inactive(trainer.method.mechanism, rows) == []


def test_a_mechanism_that_never_fired_is_named(tmp_path):
    """With one pass and one step every ratio is 1, and no bound is met."""
    trainer = Trainer(config("dapo"), tmp_path)
    trainer.run()
    trainer.close()
    assert "clip_high" in inactive(trainer.method.mechanism, read_metrics(tmp_path / "metrics.jsonl"))
