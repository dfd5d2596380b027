"""A real pretrained model through the same code: SmolLM2-135M-Instruct plays a household game and learns from one tree.

    python benchmarks/smollm2.py [--decisions 20] [--rank 16] [--json FILE]

Prints what it decides in generated games, with the entropy (nats) at each decision and the number of admissible actions; then
takes one step on adapters (LoRA) for four siblings at the root, of which one is rewarded, each credited against the mean of the
others, and prints their log-probabilities before and after. A demonstration of the code path on a small model that was not
trained for this: no result about any method. Needs `make smollm`.
"""

from __future__ import annotations

import os
import resource
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from arguments import Parser, count, file_path, run
from rich.console import Console
from rich.table import Table

from bpo.files import to_json, write_atomically
from bpo.policies.lm import LMPolicy
from bpo.sandboxes import factory


def played(policy: LMPolicy, decisions: int) -> list[dict]:
    """Decisions in games of the training split, one after the other."""
    rows = []
    sandbox = factory("household", {"difficulty": "small"})()
    tasks = iter(sandbox.tasks("train"))
    context = policy.begin(sandbox.reset(next(tasks)))
    for number in range(decisions):
        (decision,) = policy.act([context], [np.random.default_rng([7, number])])
        actions = context.observation.actions
        rows.append(
            {
                "task": context.observation.task,
                "actions": len(actions),
                "entropy": decision.entropy,
                "log_prob": sum(decision.log_probs),
                "action": decision.action,
                "tokens": len(context.ids),
            }
        )
        outcome = sandbox.step(decision.action)
        new_game = outcome.done
        context = (
            policy.begin(sandbox.reset(next(tasks))) if new_game else policy.extend(context, decision, outcome.observation)
        )
    sandbox.close()
    return rows


def learned(policy: LMPolicy, rank: int) -> dict:
    """Log-probability of one rewarded action, and of the others that were tried, before and after one step."""
    from bpo.objective import reinforce
    from bpo.update import Batch, backward

    policy = policy.with_adapters(rank)
    sandbox = factory("household", {"difficulty": "small"})()
    context = policy.begin(sandbox.reset(sandbox.tasks("train")[0]))
    sandbox.close()
    tried = list(context.observation.actions)[:4]
    # Four siblings at the root, the first of which is rewarded; each against the mean of the others.
    rewards = np.eye(len(tried))[0]
    advantage = rewards - (rewards.sum() - rewards) / (len(tried) - 1)
    steps = [(context, policy.decide(context, action)) for action in tried]
    with torch.no_grad():
        before, owner = policy.logprob(steps)
    siblings = np.arange(len(tried))
    batch = Batch(
        steps=steps,
        old=[before[owner == i].numpy() for i in siblings],
        advantage=advantage,
        weight=np.full(len(tried), 1 / len(tried)),
        parent=np.full(len(tried), -1),
        rollout=siblings,
        tree=np.zeros(len(tried), np.int64),
        trees=1,
    )
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4, weight_decay=0.0)
    backward(policy, None, batch, reinforce, {})
    optimizer.step()
    with torch.no_grad():
        after, _ = policy.logprob(steps)
    total = lambda log_probs: [float(log_probs[owner == i].sum()) for i in range(len(tried))]  # noqa: E731
    trained = sum(p.numel() for p in policy.parameters())
    return {"tried": tried, "before": total(before), "after": total(after), "trained": trained}


def main() -> None:
    parser = Parser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--decisions", type=count(), default=20)
    parser.add_argument("--rank", type=count(high=4096), default=16)
    parser.add_argument("--json", type=file_path)
    given = parser.parse_args()
    start = time.perf_counter()
    policy = LMPolicy.load("smollm2", prompt="windowed")
    rows = played(policy, given.decisions)
    table = Table(
        "task", "context tokens", "actions", "entropy", "log-prob", "action", title="SmolLM2-135M-Instruct, windowed prompt"
    )
    for row in rows:
        table.add_row(
            row["task"],
            str(row["tokens"]),
            str(row["actions"]),
            f"{row['entropy']:.3f}",
            f"{row['log_prob']:.2f}",
            row["action"],
        )
    console = Console(width=130)
    console.print(table)
    step = learned(policy, given.rank)
    table = Table("first action", "rewarded", "log-prob before", "after", "change", title="one step on adapters")
    for number, action in enumerate(step["tried"]):
        change = step["after"][number] - step["before"][number]
        rewarded = "yes" if number == 0 else "no"
        table.add_row(action, rewarded, f"{step['before'][number]:.3f}", f"{step['after'][number]:.3f}", f"{change:+.4f}")
    console.print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{step['trained']:,} trained numbers; {time.perf_counter() - start:.0f} s in all; peak memory {peak:.1f} GiB")
    if given.json:
        write_atomically(given.json, to_json({"decisions": rows, "step": step, "peak_gib": peak}, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
