"""Measures rollouts of trees: what paths share read once, against every context read from its first token.

    python benchmarks/tree_rollout.py [--model tiny|smollm2] [--tasks 8] [--repeats 3] [--json FILE]

Trees of generated household games, grown by the model without a warm start: `bpo_split` (M = 4, K = 4), and 13 independent
rollouts (`rloo`). "Unique" counts every token that precedes a decision once for all decisions it precedes, by a trie of all
contexts, of all tasks together, and of what was written before each draw: the least that can be computed. "Not shared" keeps
no keys and values from one call to the next: every context is read from its first token (equal ones in one call once). Times
are CPU seconds on one thread, medians of interleaved repeats; compare ratios.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from arguments import Parser, count, file_path, run
from rich.console import Console
from rich.table import Table
from tree_training import policy_of, tokens_of

from bpo.files import to_json, write_atomically
from bpo.methods import build
from bpo.policies.lm import LMPolicy
from bpo.policies.score import read_before
from bpo.rollout import Growth, Ledger, grow
from bpo.sandboxes import factory
from bpo.tree import Tree

WAYS = {"shared": 2**30, "from the first token": 0}
METHODS = {
    "bpo_split, M = 4, K = 4": ("bpo_split", {"gap": 1, "unit": "steps", "floor": 0.0, "selector_value": 0.3}),
    "rloo, N = 13": ("rloo", {"returns": 13}),
}


def unique_tokens(trees: Sequence[Tree]) -> int:
    """Tokens that precede a draw, each counted once for all that it precedes."""
    return tokens_of({read_before(step.context, step.decision) for tree in trees for step in tree.steps[1:]})["unique"]


def once(policy: LMPolicy, growth: Growth, tasks: int) -> tuple[float, Ledger, list[Tree]]:
    """CPU seconds, ledger and trees of one batch."""
    sandboxes = [factory("household", {"difficulty": "small"})() for _ in range(tasks)]
    names = sandboxes[0].tasks("train")[:tasks]
    policy.load_state_dict(policy.state_dict())  # forgets what it has read
    start = time.process_time()
    trees, ledger = grow(names, sandboxes, policy, growth, (0,))
    seconds = time.process_time() - start
    for sandbox in sandboxes:
        sandbox.close()
    return seconds, ledger, trees


def measured(model: str, method: str, tasks: int, repeats: int) -> dict[str, float]:
    """All figures of one method."""
    name, parameters = METHODS[method]
    policies = {way: policy_of(model, cache_bytes=size) for way, size in WAYS.items()}
    runs: dict[str, list] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, policy in policies.items():
            runs[way].append(once(policy, build(name, parameters).growth, tasks))
    shared, alone = (runs[way][0] for way in WAYS)
    seconds = [statistics.median(run[0] for run in runs[way]) for way in WAYS]
    same = all(
        a.steps[i].decision.tokens == b.steps[i].decision.tokens
        for a, b in zip(shared[2], alone[2], strict=True)
        for i in range(1, len(a))
    )
    return {
        "returns": shared[1].returns,
        "steps": shared[1].env_steps,
        "unique": unique_tokens(shared[2]),
        "shared": shared[1].computed,
        "alone": alone[1].computed,
        "drawn": shared[1].generated,
        "shared_s": seconds[0],
        "alone_s": seconds[1],
        "ratio": seconds[1] / seconds[0],
        "same_actions": same,
    }


def main() -> None:
    parser = Parser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", choices=("tiny", "smollm2"), default="tiny")
    parser.add_argument("--tasks", type=count(), default=None, help="default: 8 for tiny, 1 for smollm2")
    parser.add_argument("--repeats", type=count(), default=None, help="default: 3 for tiny, 1 for smollm2")
    parser.add_argument("--json", type=file_path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    small = given.model == "tiny"
    tasks, repeats = given.tasks or (8 if small else 1), given.repeats or (3 if small else 1)
    found = {method: measured(given.model, method, tasks, repeats) for method in METHODS}
    heads = (
        "trees",
        "returns",
        "steps",
        "unique",
        "computed, shared",
        "computed, not shared",
        "drawn",
        "CPU s, shared",
        "CPU s, not shared",
        "not shared : shared",
        "same actions",
    )
    table = Table(*heads, title=f"{given.model}, {tasks} tasks, one thread, medians of {repeats}")
    for method, row in found.items():
        counts = (f"{row[key]:,}" for key in ("returns", "steps", "unique", "shared", "alone", "drawn"))
        times = (f"{row['shared_s']:.2f}", f"{row['alone_s']:.2f}", f"{row['ratio']:.2f}x")
        table.add_row(method, *counts, *times, "yes" if row["same_actions"] else "no")
    Console(width=130).print(table)
    if given.json:
        write_atomically(given.json, to_json(found, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
