"""Measures training on trees: what paths share read once against every path by itself.

    python benchmarks/tree_training.py [--model tiny|smollm2] [--repeats N] [--json FILE]

One tree parts once (600 shared and 16 x 200 private tokens), one is nested (200, then 3 x 150, then 9 x 120), in one next to
nothing is shared, so that sharing must not cost anything; of every 40 tokens the policy wrote 20, which carry loss. Household
trees are grown by the model, without a warm start, with `bpo_split` (M = 4, K = 4) in 8 games. SmolLM2 grows one, at a
temperature of 4: at 1 it does nothing but look, and all paths of a tree are the same.

"Read" is what was read with sharing allowed. Where that is all tokens, sharing was declined because it would not pay: both
columns then measure the same code, and their ratio is noise.

Times are CPU seconds of forward and backward on one thread, medians of interleaved repeats; compare ratios, not times. Memory
is the peak of a process that does this alone, above what it held before. Errors are against every path by itself, in float32.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from arguments import Parser, count, file_path, run
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bpo.files import to_json, write_atomically
from bpo.policies.lm import LMPolicy, Step
from bpo.policies.prefix_sharing import plan
from bpo.policies.prompts import Context
from bpo.policies.score import pack, read_before
from bpo.policy import Decision
from bpo.sandbox import Observation
from bpo.sandboxes import factory

WAYS = ("separate", "shared")
# Numbers are shared beginnings, tuples what follows them; the last number of a path is private.
SHAPES = {
    "flat: 600 + 16 x 200": (600, *[(200,)] * 16),
    "nested: 200, 3 x 150, 9 x 120": (200, *[(150, *[(120,)] * 3)] * 3),
    "little shared: 12 + 8 x 300": (12, *[(300,)] * 8),
}
HOUSEHOLD = "household, M = 4, K = 4"
TURN = 20
NOWHERE = Observation("", None, "", 0)


def policy_of(model: str, **settings) -> LMPolicy:
    """The model with these settings of a policy; the tiny one has random weights."""
    if model == "smollm2":
        return LMPolicy.load("smollm2", **settings)
    from bpo.policies.tiny import tiny_model, train_tokenizer

    sandbox = factory("household", {"difficulty": "small"})()
    texts = [f"{o.task}\n{o.text}\n" + "\n".join(o.actions) for o in map(sandbox.reset, sandbox.tasks("train")[:60])]
    sandbox.close()
    tokenizer = train_tokenizer(texts, 1024)
    return LMPolicy(tiny_model(len(tokenizer), "tiny", 0), tokenizer, **settings)


def trained(model: str, share: bool) -> LMPolicy:
    """The policy that is measured; of SmolLM2, 2,000 tokens keep some 6 GB of activations."""
    return policy_of(model, share=share, **({"batch_tokens": 2048, "temperature": 4.0} if model == "smollm2" else {}))


def made(shape: tuple, rng: np.random.Generator, vocabulary: int) -> list[Step]:
    """The steps of a tree of random tokens."""
    steps: list[Step] = []

    def grow(node: tuple, before: tuple[int, ...]) -> None:
        own = tuple(rng.integers(3, vocabulary, size=node[0]).tolist())
        for start in range(TURN, len(own) - TURN + 1, 2 * TURN):
            written = own[start : start + TURN]
            choices = (None,) * TURN
            decision = Decision("", written, (0.0,) * TURN, choices, 0.0)
            steps.append((Context(ids=before + own[:start], observation=NOWHERE), decision))
        for child in node[1:]:
            grow(child, before + own)

    grow(shape, ())
    return steps


def household(policy: LMPolicy, tasks: int) -> list[Step]:
    """The steps of trees that the model grows in household games."""
    from bpo.methods import build
    from bpo.rollout import grow

    recipe = build("bpo_split", {"gap": 1, "unit": "steps", "floor": 0.0, "selector_value": 0.3})
    sandboxes = [factory("household", {"difficulty": "small"})() for _ in range(tasks)]
    trees, _ = grow(sandboxes[0].tasks("train")[:tasks], sandboxes, policy, recipe.growth, (0,))
    for sandbox in sandboxes:
        sandbox.close()
    assert recipe.credit(trees)
    return [(step.context, step.decision) for tree in trees for step in tree.steps if step is not None and step.decision.free]


def steps_of(name: str, policy: LMPolicy, model: str) -> list[Step]:
    """The steps of a named tree."""
    if name == HOUSEHOLD:
        return household(policy, 1 if model == "smollm2" else 8)
    return made(SHAPES[name], np.random.default_rng(0), len(policy.tokenizer))


def once(policy: LMPolicy, steps: Sequence[Step]) -> tuple[float, np.ndarray, torch.Tensor]:
    """CPU seconds of forward and backward, log-probabilities by step and token, the gradient."""
    for parameter in policy.parameters():
        parameter.grad = None
    weights = np.random.default_rng(1).normal(size=len(steps))
    found: dict[int, list[float]] = {}
    start = time.process_time()
    for group in policy.batches(steps):
        values, owner = policy.logprob([steps[i] for i in group])
        (values * torch.tensor(weights[group], dtype=values.dtype)[owner]).sum().backward()
        for index, value in zip(owner.tolist(), values.tolist(), strict=True):
            found.setdefault(group[index], []).append(value)
    seconds = time.process_time() - start
    gradient = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
    return seconds, np.concatenate([found[i] for i in sorted(found)]), gradient


def memory(model: str, name: str, share: bool, answer) -> None:
    """Put the megabytes that one forward and backward pass takes at its peak into a queue."""
    torch.set_num_threads(1)
    policy = trained(model, share)
    steps = steps_of(name, policy, model)
    before = held("VmRSS")
    # The kernel forgets the peak that loading has reached.
    Path("/proc/self/clear_refs").write_text("5")
    once(policy, steps)
    answer.put((held("VmHWM") - before) / 1024)


def held(what: str) -> int:
    """A line of what the kernel says of this process's memory, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def peak(model: str, name: str, share: bool) -> float:
    """The same, measured in a fresh process."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=memory, args=(model, name, share, answer))
    process.start()
    megabytes = answer.get()
    process.join()
    return megabytes


def measured(model: str, name: str, repeats: int) -> dict[str, float]:
    """All figures of one tree."""
    # First, while this process holds nothing.
    peaks = {way: peak(model, name, way == "shared") for way in WAYS}
    policies = {way: trained(model, way == "shared") for way in WAYS}
    steps = steps_of(name, policies["separate"], model)
    sequences = {read_before(*step) for step in steps}
    runs: dict[str, list] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way in WAYS:
            runs[way].append(once(policies[way], steps))
    seconds = {way: statistics.median(run[0] for run in runs[way]) for way in WAYS}
    (_, values, gradient), (_, shared_values, shared_gradient) = runs["separate"][0], runs["shared"][0]
    return {
        **tokens_of(sequences),
        "read": policies["shared"].tokens_read(steps),
        "separate_s": seconds["separate"],
        "shared_s": seconds["shared"],
        "ratio": seconds["separate"] / seconds["shared"],
        "separate_mb": peaks["separate"],
        "shared_mb": peaks["shared"],
        "logprob_error": float(np.abs(values - shared_values).max()),
        "gradient_error": float((gradient - shared_gradient).norm() / gradient.norm()),
    }


def tokens_of(sequences: Iterable[tuple[int, ...]]) -> dict[str, int]:
    """Tokens of all paths one by one, and those that are left where every common beginning counts once."""
    paths, _ = pack(list(sequences))
    return {"tokens": sum(map(len, paths)), "unique": plan(paths, shortest=1).unique}


def main() -> None:
    parser = Parser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", choices=("tiny", "smollm2"), default="tiny")
    parser.add_argument("--repeats", type=count(), default=None, help="default: 5 for tiny, 3 for smollm2")
    parser.add_argument("--json", type=file_path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    repeats = given.repeats or (5 if given.model == "tiny" else 3)
    names = [*SHAPES, HOUSEHOLD]
    progress = track(names, "trees", console=Console(stderr=True))
    found = {name: measured(given.model, name, repeats) for name in progress}
    table = Table(
        *(
            "tree",
            "tokens",
            "unique",
            "read",
            "CPU s separate : shared",
            "ratio",
            "peak MB separate : shared",
            "log-prob error",
            "gradient error",
        ),
        title=f"{given.model}, forward and backward on one thread, medians of {repeats}",
    )
    for name, row in found.items():
        table.add_row(
            name,
            f"{row['tokens']:,}",
            f"{row['unique']:,}",
            f"{row['read']:,}",
            f"{row['separate_s']:.2f} : {row['shared_s']:.2f}",
            f"{row['ratio']:.2f}x",
            f"{row['separate_mb']:,.0f} : {row['shared_mb']:,.0f}",
            f"{row['logprob_error']:.1e}",
            f"{row['gradient_error']:.1e}",
        )
    Console(width=130).print(table)
    if given.json:
        write_atomically(given.json, to_json(found, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
