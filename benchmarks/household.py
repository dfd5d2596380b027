"""Measures the household sandbox against the stock ALFWorld engine; both play the same actions and must show the same text.

    python benchmarks/household.py [--games N] [--data DIR] [--json FILE]
    python benchmarks/household.py --leak 2000

Times are CPU seconds of this process, medians over the games; the engines take turns game by game. `first visit` means states
that our engine has not seen since the game was loaded, which is what a new rollout meets; states seen before are look-ups.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from arguments import Parser, count, file_path, run

from bpo.cache import cache_dir
from bpo.files import to_json, write_atomically
from bpo.sandboxes.household import Household, StockHousehold, engines

REPLAY = 20  # steps of the prefix that a fork saves
WALK = 40


def seconds(function, repeat: int = 1) -> float:
    """CPU seconds of one call, averaged over `repeat` calls."""
    start = time.process_time()
    for _ in range(repeat):
        function()
    return (time.process_time() - start) / repeat


def measure(ours: Household, stock: StockHousehold, task: str, seed: int) -> dict[str, float]:
    """One game on both engines; AssertionError where they differ."""
    row = {}
    engines.clear()
    row["load+reset, stock"] = seconds(lambda: stock.reset(task))
    row["load+reset, ours, first time"] = seconds(lambda: ours.reset(task))
    other = next(t for t in ours.tasks(task.split("/")[-2 if ours._folder is None else 0]) if t != task)
    ours.reset(other)
    engines.clear()
    row["load+reset, ours"] = seconds(lambda: ours.reset(task))
    row["reset, stock"] = seconds(lambda: stock.reset(task))
    row["reset, ours"] = seconds(lambda: ours.reset(task), 100)

    rng = random.Random(seed)
    seen = ours.reset(task)
    assert seen == stock.reset(task)
    actions, mine, theirs = [], 0.0, 0.0
    for _ in range(WALK):
        actions.append(rng.choice(seen.actions))
        start = time.process_time()
        outcome = ours.step(actions[-1])
        between = time.process_time()
        reference = stock.step(actions[-1])
        mine, theirs = mine + between - start, theirs + time.process_time() - between
        assert outcome == reference
        assert ours.raw() == stock.raw()
        seen = outcome.observation
        if outcome.done:
            break
    row["step, stock"], row["step, ours"] = theirs / len(actions), mine / len(actions)
    prefix = actions[:REPLAY]

    def replay(sandbox) -> None:
        sandbox.reset(task)
        for action in prefix:
            sandbox.step(action)

    row["replay 20 steps, stock"] = seconds(lambda: replay(stock))
    row["replay 20 steps, ours, states known"] = seconds(lambda: replay(ours), 20)
    ours.reset(other)
    engines.clear()
    ours.reset(task)
    row["replay 20 steps, ours"] = seconds(lambda: replay(ours))
    row["step, ours, state known"] = row["replay 20 steps, ours, states known"] / len(prefix)
    snapshot = ours.snapshot()
    row["snapshot, ours"] = seconds(ours.snapshot, 5_000)
    row["restore, ours"] = seconds(lambda: ours.restore(snapshot), 5_000)
    row["fork = snapshot + restore, ours"] = row["snapshot, ours"] + row["restore, ours"]
    return row


# (what, slower, faster, the ratio that is promised)
RATIOS = [
    ("load+reset (translation cached)", "load+reset, stock", "load+reset, ours", None),
    ("load+reset (first time)", "load+reset, stock", "load+reset, ours, first time", None),
    ("reset", "reset, stock", "reset, ours", 20),
    ("step, first visit", "step, stock", "step, ours", 8),
    ("step, state known", "step, stock", "step, ours, state known", None),
    ("fork : replay 20 steps on stock", "replay 20 steps, stock", "fork = snapshot + restore, ours", 3000),
    ("fork : replay 20 steps on ours", "replay 20 steps, ours", "fork = snapshot + restore, ours", 300),
    ("fork : replay, states known", "replay 20 steps, ours, states known", "fork = snapshot + restore, ours", None),
]


def compare(title: str, options: dict, split: str, games: int) -> dict:
    """Measure `games` games and print the table of one size."""
    options = options | {"max_steps": 10 * WALK}
    ours, stock = Household(**options), StockHousehold(**options)
    tasks = ours.tasks(split)
    chosen = [tasks[len(tasks) * i // games] if options.get("data") else tasks[i] for i in range(games)]
    stock.reset(ours.tasks(split)[len(tasks) - 1])  # imports and the stock engine's library are nobody's cost
    ours.reset(ours.tasks(split)[len(tasks) - 1])
    rows = [measure(ours, stock, task, seed) for seed, task in enumerate(chosen)]
    ours.close()
    stock.close()
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    ratios = {}
    print(f"\n{title}, {games} games (identical text: yes)")
    print(f"{'':<38}{'stock/replay ms':>16}{'ours ms':>12}{'ratio':>10}{'target':>10}")
    for what, slow, fast, target in RATIOS:
        ratios[what] = statistics.median(row[slow] / row[fast] for row in rows)
        numbers = f"{medians[slow] * 1e3:>16.3f}{medians[fast] * 1e3:>12.4f}{ratios[what]:>10,.0f}"
        print(f"{what:<38}{numbers}{f'>= {target:,}' if target else '':>10}")
    print(f"snapshot {medians['snapshot, ours'] * 1e6:.2f} us, restore {medians['restore, ours'] * 1e6:.2f} us")
    return {"games": games, "median_seconds": medians, "median_ratios": ratios}


def leak(games: int) -> dict:
    """Play `games` new games with random actions and print what is left behind."""
    import psutil

    process = psutil.Process()
    rng = random.Random(0)

    def use() -> dict[str, float]:
        gc.collect()
        return {
            "rss_mb": process.memory_info().rss / 1e6,
            "file_descriptors": process.num_fds(),
            "temp_mb": _folder_mb(Path(tempfile.gettempdir()), without=cache_dir()),
            "cache_mb": _folder_mb(cache_dir()),
        }

    with Household("small") as sandbox:
        tasks = sandbox.tasks("train")
        for number in range(games + 50):  # the first 50 load libraries and fill the pools
            if number == 50:
                before = use()
            observation, done = sandbox.reset(tasks[number]), False
            while not done:
                outcome = sandbox.step(rng.choice(observation.actions))
                observation, done = outcome.observation, outcome.done
    after = use()
    print(f"\n{games} games on {games} different tasks")
    for name, value in before.items():
        print(f"{name:<20}{value:>10.1f} -> {after[name]:>10.1f}")
    print("(the cache holds one small translation per game, at most 4,096)")
    return {"games": games, "before": before, "after": after}


def _folder_mb(folder: Path, without: Path | None = None) -> float:
    total = 0
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(root, name) != without]
        for name in files:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:  # somebody else's temporary file went away
                continue
    return total / 1e6


def main() -> None:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    games = "games of each size (default 6: one of each task type)"
    parser.add_argument("--games", type=count(high=1_000), default=6, help=games)
    parser.add_argument("--data", help="folder of the official games, measured as well")
    parser.add_argument("--json", type=file_path, help="write the numbers to this file")
    leak_help = "instead: play N games and print disk, memory and descriptors"
    parser.add_argument("--leak", type=count(high=80_000), metavar="N", help=leak_help)
    options = parser.parse_args()
    if options.data:
        Household(data=options.data).close()  # says at once where the games cannot be used
    if options.leak:
        report = {"leak": leak(options.leak)}
    else:
        print(f"Python {sys.version.split()[0]}, CPU time of one process")
        report = {name: compare(f"{name} rooms", {"difficulty": name}, "panel", options.games) for name in ("small", "full")}
        if options.data:
            report["official"] = compare("official games", {"data": options.data}, "valid_seen", options.games)
    if options.json:
        write_atomically(options.json, to_json(report, indent=1))


if __name__ == "__main__":
    run(main)
