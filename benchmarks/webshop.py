"""Measures the WebShop sandbox by catalogue size: search against scoring every posting, forks against steps and replays.

    python benchmarks/webshop.py [--products 1000 100000] [--data DIR] [--json FILE]

Times are CPU milliseconds of one process, medians of 5. The catalogues are made up: products descend from 1,000 parents (the
products of --data, else texts with the lengths and the Zipf frequencies of the real ones), keep 60 % of a parent's words and
draw the others from all of them, so that words come in clusters as they do in shops. Queries have 10 to 25 words: a dozen of
one product, frequent words, a price. A million products take about six minutes and 1.5 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from arguments import Parser, count, file_path, run
from rich.console import Console
from rich.table import Table

from bpo.files import to_json, write_atomically
from bpo.sandboxes.webshop import WebShop, catalogue, files, search
from bpo.sandboxes.webshop.records import Product
from bpo.sandboxes.webshop.search import Index

RUNS = 5
QUERIES = 60
PARENTS = 1_000
KEPT = 0.6
# Log-normal lengths, Zipf frequencies and repeated words, which together come near the real documents' statistics: 108 words,
# 68 of them distinct, 12,000 terms in 1,000 documents, the most frequent ones in 44, 31, 23, 20 % (ranks 1, 6, 11, 16).
LENGTH, SIGMA, AGAIN = 54, 0.8, 0.7
WORDS, EXPONENT, SHIFT = 16_000, 1.05, 20
REPLAYED = 10
OPTIONS = (("color", ("black", "white", "red", "blue")), ("size", ("small", "medium", "large", "x-large")))


def cpu(function) -> float:
    """CPU milliseconds of one call, the median of 5."""
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return statistics.median(times) * 1e3


# Search


def parents(data: str | None) -> list[list[str]]:
    """The texts that documents descend from, as words."""
    if data:
        return [product.document.split() for product in files.read_products(data)]
    rng = np.random.default_rng(0)
    chances = 1 / (np.arange(WORDS) + SHIFT) ** EXPONENT
    lengths = rng.lognormal(np.log(LENGTH), SIGMA, PARENTS).astype(int) + 3
    drawn = [rng.choice(WORDS, length, p=chances / chances.sum()) for length in lengths]
    return [[_word(number) for number in np.repeat(words, rng.geometric(AGAIN, len(words)))] for words in drawn]


def _word(number: int) -> str:
    """A word of two or more syllables for a number."""
    syllables = []
    while number or len(syllables) < 2:
        number, rest = divmod(number, 75)
        syllables.append("bdfgklmnprstvzh"[rest % 15] + "aeiou"[rest // 15])
    return "".join(syllables)


def products(texts: list[list[str]], size: int) -> Iterator[Product]:
    """`size` products with distinct names in no order; three words of each are of a tail that grows with the catalogue.

    Every second one has options, the first 500 have instructions.
    """
    rng = np.random.default_rng(1)
    pool = np.array([word for text in texts for word in text], object)
    rows = np.split(np.arange(len(pool)), np.cumsum([len(text) for text in texts])[:-1])
    for number in range(size):
        parent = rows[rng.integers(len(rows))]
        chosen = np.where(rng.random(len(parent)) < KEPT, parent, rng.integers(0, len(pool), len(parent)))
        tail = [f"x{int(1 / (share**2 + 1e-7))}" for share in rng.random(3)]
        words = [*pool[chosen], *tail]
        title, rest = " ".join(words[:12]), " ".join(words[12:])
        wanted = (words[0], words[-1]) if number < 500 else ()
        yield Product(
            asin=f"B{number * 7919 % 10_000_019:08}",
            title=title,
            description=rest,
            bullets=("",),
            prices=(19.99,),
            options=OPTIONS if number % 2 else (),
            attributes=(words[0], words[-1]),
            category="Home › Kitchen",
            query=words[0],
            instruction=f"Find me {' '.join(words[:6])}" if wanted else "",
            instruction_attributes=wanted,
            price=19.99,
        )


def queries(texts: list[list[str]]) -> list[str]:
    rng = random.Random(2)
    pool = [word for text in texts for word in text]
    made = []
    for _ in range(QUERIES):
        text = rng.choice(texts)
        words = rng.sample(text, min(len(text), rng.randint(6, 16))) + rng.sample(pool, 4)
        made.append(f"find me {' '.join(words)}, and price lower than {rng.randrange(10, 100, 10)}.00 dollars")
    return made


def build(size: int, data: str | None, folder: Path) -> dict[str, float]:
    """Build a catalogue: products, index, goals; the time leaves out what making up the products takes."""
    spent = 0.0

    def made() -> Iterator[Product]:
        nonlocal spent
        source = products(parents(data), size)
        while True:
            start = time.process_time()
            product = next(source, None)
            spent += time.process_time() - start
            if product is None:
                return
            yield product

    start = time.process_time()
    catalogue.build(made(), None, folder)
    seconds = time.process_time() - start - spent
    size_mb = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    return {"build s": seconds, "build peak MB": _peak(), "disk MB": size_mb}


def find(data: str | None, folder: Path) -> dict[str, float]:
    """Search an index, and score every posting of the same queries; AssertionError where the results differ."""
    folder = folder / "index"
    row = {"load index ms": cpu(lambda: Index.load(folder))}
    index, few = Index.load(folder), search.FEW
    asked = queries(parents(data))
    for query in asked:  # pages of the files and words come into memory at nobody's cost
        index._search(query, 50)
    ours = [cpu(lambda query=query: index._search(query, 50)) for query in asked]
    row["search peak MB"] = _peak()
    found = [index._search(query, 50) for query in asked]
    search.FEW = sys.maxsize
    assert found == [index._search(query, 50) for query in asked]
    peer = [cpu(lambda query=query: index._search(query, 50)) for query in asked]
    search.FEW = few
    row["remembered ms"] = cpu(lambda: [index.top(query) for query in asked]) / len(asked)
    row["postings of a query"] = statistics.mean(
        sum(len(part.documents) for part in index._parts(search.analyse(query))) for query in asked
    )
    row |= {"search ms": statistics.mean(ours), "slowest search ms": max(ours), "every posting ms": statistics.mean(peer)}
    row["searches/s"] = 1e3 / row["search ms"]
    row["every posting : search"] = row["every posting ms"] / row["search ms"]
    return row


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def in_child(*arguments: str) -> dict[str, float]:
    """Run this file in a process of its own, whose peak memory is that of one task."""
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def measured(size: int, data: str | None) -> dict[str, dict[str, float]]:
    """The rows of one size, by table."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--folder", f"{folder}/catalogue", *(["--data", data] if data else [])]
        built = in_child("--child", "build", "--products", str(size), *arguments)
        found = in_child("--child", "find", *arguments)
        return {"search": {**built, **found}, "steps and forks": in_child("--child", "walk", *arguments)}


# Steps and forks


def walk_in(folder: Path) -> dict[str, float]:
    """A walk through the shop with admissible actions; observation and actions are made at every step."""
    shop = catalogue.Catalogue(folder, lambda product: product.title.split(), "synthetic")
    sandbox = WebShop(catalogue=shop, max_steps=10_000)
    task = sandbox.tasks("valid_unseen")[0]
    rng = random.Random(3)

    def walk(count: int) -> list[str]:
        seen, taken = sandbox.reset(task), []
        for _ in range(count):
            taken.append(rng.choice([action for action in seen.actions if action != "click[buy now]"]))
            seen = sandbox.step(taken[-1]).observation
        return taken

    def replay() -> None:
        sandbox.reset(task)
        for action in prefix:
            sandbox.step(action)

    prefix = walk(REPLAYED)
    row = {"reset us": cpu(lambda: [sandbox.reset(task) for _ in range(100)]) * 10}
    row["step us"] = cpu(lambda: walk(500)) * 2
    row["steps/s"] = 1e6 / row["step us"]
    row[f"replay of {REPLAYED} steps, seen pages us"] = cpu(lambda: [replay() for _ in range(20)]) * 50
    row["step, seen page us"] = (row[f"replay of {REPLAYED} steps, seen pages us"] - row["reset us"]) / REPLAYED
    replay()
    snapshot = sandbox.snapshot()
    row["snapshot us"] = cpu(lambda: [sandbox.snapshot() for _ in range(1_000)])
    row["restore with observation us"] = cpu(lambda: [sandbox.restore(snapshot) for _ in range(200)]) * 5
    row["fork us"] = cpu(lambda: sandbox.fork(500)) * 2
    row["step : fork"] = row["step us"] / row["fork us"]
    row["seen page : fork"] = row["step, seen page us"] / row["fork us"]
    row["replay : fork"] = row[f"replay of {REPLAYED} steps, seen pages us"] / row["fork us"]
    row["peak MB"] = _peak()
    sandbox.close()
    return row


CHILDREN = {"find": lambda o: find(o.data, o.folder), "walk": lambda o: walk_in(o.folder)}
CHILDREN["build"] = lambda o: build(o.products[0], o.data, o.folder)


def main() -> None:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--products", type=count(), nargs="+", default=[1_000, 100_000, 1_000_000], help="sizes (default: all three)"
    )
    parser.add_argument("--data", help="folder with WebShop's files, whose products are the parents then")
    parser.add_argument("--json", type=file_path, help="write the numbers to this file")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.data:
        files.identity(options.data)  # says at once where the files are not there
    if options.child:
        print(to_json(CHILDREN[options.child](options)))
        return
    console, report = Console(), {}
    for size in options.products:
        with console.status(f"{size:,} products"):
            report[size] = measured(size, options.data)
    for name in ("search", "steps and forks"):
        table = Table(name, *(f"{size:,} products" for size in report))
        for key in next(iter(report.values()))[name]:
            table.add_row(key, *(_number(rows[name][key]) for rows in report.values()))
        console.print(table)
    if options.json:
        write_atomically(options.json, to_json(report, indent=1))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    run(main)
