"""The arithmetic behind `floor.py`, and what it prints: floor and measured time, where the time goes, the comparison."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table

from bpo.policies.lm import LMPolicy
from bpo.policies.prefix_sharing import SharingPlan

GIGA = 1e9
# Rows of the measured products: about as many tokens as one forward pass reads; and the side of a large square one.
ROWS, SQUARE = 1024, 2048
# Reading forwards, in units of itself: in the update the reference reads too, and going backwards costs twice as much.
PASSES = {"rollout": 1, "update": 4}


@dataclass(frozen=True)
class Work:
    """What must be read: unique tokens, pairs of a token and one that it attends to, and tokens with a choice."""

    tokens: int
    pairs: int
    asked: int


@dataclass(frozen=True)
class Model:
    """Layers; width of a token, of what all heads ask, of the keys they keep, of the feed-forward layer; vocabulary."""

    layers: int
    width: int
    heads: int
    keys: int
    inner: int
    vocabulary: int


def work(planned: SharingPlan, asked: int) -> Work:
    """What a plan reads; a token attends to itself and all before it."""
    lengths = [(one.start, len(one.tokens)) for one in planned.segments]
    pairs = sum(start * length + length * (length + 1) // 2 for start, length in lengths)
    return Work(planned.unique, pairs, asked)


def operations(model: Model, todo: Work) -> float:
    """Floating-point operations of reading forwards, a multiplication and an addition counted as two."""
    kept = 2 * model.width * model.keys
    rest = 2 * model.width * model.heads + 3 * model.width * model.inner
    linear = todo.tokens * (model.layers * kept + (model.layers - 1) * rest) + todo.asked * rest
    # Tokens with a choice attend in the last layer; their share of the pairs is taken to be that of all.
    attention = 2 * model.heads * todo.pairs * (model.layers - 1 + todo.asked / max(todo.tokens, 1))
    return 2.0 * (linear + attention + todo.asked * model.width * model.vocabulary)


def rate(rows: int, inner: int, columns: int, seconds: float = 0.3) -> float:
    """Operations per CPU second of a product of matrices in float32, the best of what fits into some seconds."""
    left, right, out = torch.rand(rows, inner), torch.rand(columns, inner), torch.empty(rows, columns)
    best, end = 0.0, time.process_time() + seconds
    while not best or time.process_time() < end:
        start = time.process_time()
        for _ in range(8):
            torch.mm(left, right.T, out=out)
        best = max(best, 8 * 2.0 * rows * inner * columns / max(time.process_time() - start, 1e-9))
    return best


def sizes(policy: LMPolicy) -> Model:
    """The sizes of a policy's model."""
    config = policy.model.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads, keys = config.num_attention_heads * size, config.num_key_value_heads * size
    return Model(config.num_hidden_layers, config.hidden_size, heads, keys, config.intermediate_size, config.vocab_size)


def rows_of(found: dict, model: Model, rate: float) -> list[dict]:
    """One record per method and half of an update; medians over the updates."""
    rows = []
    for method, runs in found.items():
        for half, passes in PASSES.items():
            todo = [Work(**run["work"][half]) for run in runs["updates"]]
            needed = statistics.median(passes * operations(model, one) for one in todo)
            spent = statistics.median(run["seconds"][half] for run in runs["updates"])
            tokens = statistics.median(one.tokens for one in todo)
            row = {"method": method, "half": half, "tokens": tokens, "gflop": needed / GIGA}
            rows.append({**row, "floor_s": needed / rate, "measured_s": spent, "times": spent * rate / needed})
    return rows


def shares(found: dict) -> dict[str, dict[str, float]]:
    """By method the share of an update's CPU time that each part takes; the rest is Python around them."""
    result = {}
    for method, runs in found.items():
        total = sum(runs["parts"]["seconds"].values())
        parts = {part: spent / total for part, spent in runs["parts"]["parts"].items()}
        result[method] = {**parts, "the rest": 1 - sum(parts.values())}
    return result


def report(found: dict, model: Model, rates: dict[str, float], against: str | None) -> dict:
    """Print the tables; returns what is in them."""
    console = Console(width=120)
    rows, parts = rows_of(found, model, rates["model"]), shares(found)
    title = f"matrix products: {rates['model'] / GIGA:.0f} GFLOP/s in the model's shape, {rates['square'] / GIGA:.0f} square"
    table = Table(
        "method", "half", "unique tokens", "GFLOP", "floor, CPU s", "measured, CPU s", "measured : floor", title=title
    )
    for row in rows:
        numbers = f"{row['gflop']:.1f}", f"{row['floor_s']:.2f}", f"{row['measured_s']:.2f}", f"{row['times']:.1f}"
        table.add_row(row["method"], row["half"], f"{row['tokens']:,.0f}", *numbers)
    console.print(table)
    methods = list(parts)
    table = Table("part", *methods, title="share of an update's CPU time")
    for part in parts[methods[0]]:
        table.add_row(part, *(f"{100 * parts[method][part]:.0f} %" for method in methods))
    console.print(table)
    result = {"model": vars(model), "rates": rates, "rows": rows, "shares": parts}
    if against is not None:
        result["against"] = {"what": against, **{method: found[method]["against"] for method in methods}}
        heads = "method", "updates per CPU s", "rollout", "update", "log-probs differ by", "same decisions"
        table = Table(*heads, title=f"against {against}: how much faster")
        for method in methods:
            one = found[method]["against"]
            halves = (f"{one['halves'][half]:.2f}x" for half in PASSES)
            same = f"{one['alike']:,} of {one['decisions']:,}"
            table.add_row(method, f"{one['ratio']:.2f}x", *halves, f"{one['log_probs']:.0e}", same)
        console.print(table)
    return result
