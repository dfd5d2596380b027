"""Measures boxes of the shell sandbox: forks against copies, commands against bare bash, by depth of the stack.

    python benchmarks/shell.py [--files 5000] [--megabytes 60] [--tier overlay] [--json FILE]

The tree is made up: text files of log-normal sizes in folders of 50. Times are wall-clock milliseconds, since most of the work
is the kernel's, in medians over runs that are interleaved with their peers; compare ratios, not times. A fork alone is a
reference; "ready to write" is a fork with the layer (landlock: the copy) that its first command needs. Memory is what Python
allocates per fork held; disk is what a fork takes that has written 10 bytes.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from arguments import Parser, count, file_path, run
from rich.console import Console
from rich.table import Table

from bpo.errors import BadInput
from bpo.files import to_json, write_atomically
from bpo.sandboxes.shell import Limits, Workspace, open_workspace
from bpo.sandboxes.shell.walk import size

COPIES, COMMANDS, SIBLINGS, HELD = 5, 15, 32, 1000
DEPTHS = (1, 30, 64)


def made(folder: Path, files: int, megabytes: int) -> Path:
    """A tree with this many files and about this size."""
    rng = random.Random(0)
    sizes = [rng.lognormvariate(0, 1) for _ in range(files)]
    scale = megabytes * 2**20 / sum(sizes)
    line = b"a line of text that stands for a program\n"
    for number, weight in enumerate(sizes):
        path = folder / f"p{number // 50:03d}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((line * (int(weight * scale) // len(line) + 1))[: int(weight * scale)])
    return folder


def timed(function: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)


def interleaved(runs: int, **functions: Callable[[], object]) -> dict[str, float]:
    """Median milliseconds of each function, called in turn."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(runs):
        for name, function in functions.items():
            times[name].append(timed(function))
    return {name: statistics.median(values) for name, values in times.items()}


def forks(tree: Path, box: Workspace, place: Path) -> dict[str, float]:
    """A fork against a copy of the tree; with the first command that a fork runs, against a copy and bare bash."""
    copies = iter(range(10**6))

    def copy() -> Path:
        target = place / f"copy{next(copies)}"
        subprocess.run(["cp", "-a", str(tree), str(target)], check=True)
        return target

    def ready() -> None:
        (fork,) = box.fork()
        with fork:
            box.tier.open(fork.snapshot().layer)

    def fork_and_run() -> None:
        (fork,) = box.fork()
        with fork:
            fork.run("echo x > new")

    def copy_and_run() -> None:
        subprocess.run(["bash", "-c", "echo x > new"], cwd=copy(), check=True, env={})

    found = interleaved(
        COPIES,
        fork=lambda: [box.fork()[0].close() for _ in range(100)],
        ready=lambda: [ready() for _ in range(100)],
        copy=copy,
        fork_and_run=fork_and_run,
        copy_and_run=copy_and_run,
    )
    for number in range(next(copies)):
        shutil.rmtree(place / f"copy{number}")
    return {**found, "fork": found["fork"] / 100, "ready": found["ready"] / 100}


def deep(box: Workspace, depth: int) -> Workspace:
    """A fork that stands on this many layers."""
    (fork,) = box.fork()
    for number in range(depth):
        fork.run(f"echo {number} > layer{number}")
        fork.snapshot()
    return fork


def bare(tree: Path) -> None:
    subprocess.run(["bash", "-c", "true"], cwd=tree, capture_output=True, check=True, env={"PATH": os.environ["PATH"]})


def commands(tree: Path, box: Workspace, depths: Sequence[int]) -> dict[str, float]:
    """A command that does nothing, in bare bash and in boxes that stand on so many layers."""
    with ExitStack() as stack:
        boxes = {depth: stack.enter_context(deep(box, depth)) for depth in depths}
        functions = {f"depth {depth}": (lambda b=b: b.run("true")) for depth, b in boxes.items()}
        return interleaved(COMMANDS, bare=lambda: bare(tree), **functions)


def filtered(box: Workspace) -> dict[str, float]:
    """Commands with and without the filter of system calls, and going back to the start with a command after it."""
    found = box.tier.filter
    start = box.snapshot()

    def run(filter: bytes | None, command: str) -> None:
        box.tier.filter = filter
        try:
            box.run(command)
        finally:
            box.tier.filter = found

    busy = "for i in 1 2 3 4 5 6 7 8; do cat /dev/null; done"
    return interleaved(
        4 * COMMANDS,
        true=lambda: run(found, "true"),
        true_without=lambda: run(None, "true"),
        programs=lambda: run(found, busy),
        programs_without=lambda: run(None, busy),
        reset=lambda: [box.restore(start) for _ in range(100)],
        reset_and_run=lambda: (box.restore(start), box.run("true")),
    )


def processor(box: Workspace) -> dict[str, float]:
    """CPU milliseconds of a command's processes with and without the filter: other programs do not disturb them."""
    found = box.tier.filter
    spent: dict[str, list[float]] = {"with": [], "without": []}
    for _ in range(4 * COMMANDS):
        for name, filter in (("with", found), ("without", None)):
            box.tier.filter = filter
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            box.run("true")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent[name].append(1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    box.tier.filter = found
    return {name: statistics.median(values) for name, values in spent.items()}


def siblings(box: Workspace) -> dict[str, float]:
    """Forks that all run a command: one after the other, and at once in as many threads."""

    def run(at_once: bool) -> None:
        there = box.fork(SIBLINGS)
        with ExitStack() as stack:
            for fork in there:
                stack.enter_context(fork)
            with ThreadPoolExecutor(SIBLINGS if at_once else 1) as pool:
                results = list(pool.map(lambda pair: pair[1].run(f"echo {pair[0]} > own; cat own").output, enumerate(there)))
        assert results == [f"{number}\n" for number in range(SIBLINGS)]

    return interleaved(COPIES, in_turn=lambda: run(False), at_once=lambda: run(True))


def held(box: Workspace) -> dict[str, float]:
    """Bytes per fork that is held: memory of one that has done nothing, disk of one that has written 10 bytes."""
    tracemalloc.start()
    idle = box.fork(HELD)
    memory = tracemalloc.get_traced_memory()[0] / HELD
    tracemalloc.stop()
    with ExitStack() as stack:
        for fork in idle:
            stack.enter_context(fork)
        on_disk = size(box.tier.store.folder)
        for fork in idle[:50]:
            fork.run("printf 0123456789 > ten")
        disk = (size(box.tier.store.folder) - on_disk) / 50
    return {"memory": memory, "disk": disk}


def report(found: dict, console: Console) -> None:
    """Print the measurements as a table."""
    table = Table("measured", "value", "against", "ratio", title=found["what"])
    fork, command, together, space = found["forks"], found["commands"], found["siblings"], found["held"]

    def compare(what: str, value: float, peer: str, other: float) -> None:
        ratio = f"{other / value:,.1f}x cheaper" if value < other else f"{value / other:,.1f}x dearer"
        table.add_row(what, f"{value:.3g} ms", f"{peer} {other:.3g} ms", ratio)

    compare("fork", fork["fork"], "cp -a", fork["copy"])
    compare("fork, ready to write", fork["ready"], "cp -a", fork["copy"])
    compare("fork, and a command that writes", fork["fork_and_run"], "cp -a and bash", fork["copy_and_run"])
    cost = found["filtered"]
    compare("command, filtered", cost["true"], "not filtered", cost["true_without"])
    compare("8 programs, filtered", cost["programs"], "not filtered", cost["programs_without"])
    table.add_row("the filter, a command", f"{cost['true'] - cost['true_without']:+.3f} ms", "", "")
    cpu = found["processor"]
    compare("command, filtered, CPU time", cpu["with"], "not filtered", cpu["without"])
    table.add_row("reset", f"{cost['reset'] / 100:.3g} ms", "with a command after it", f"{cost['reset_and_run']:.3g} ms")
    for name, value in command.items():
        if name != "bare":
            compare(f"command, {name}", value, "bare bash", command["bare"])
    compare(f"{SIBLINGS} siblings, a command each", together["at_once"], "in turn", together["in_turn"])
    table.add_row("memory of a fork held", f"{space['memory']:,.0f} bytes", "", "")
    table.add_row("disk of a fork that wrote 10 bytes", f"{space['disk']:,.0f} bytes", f"the tree {found['tree']:,.0f}", "")
    console.print(table)


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=count(high=1_000_000), default=5000)
    parser.add_argument("--megabytes", type=count(high=100_000), default=60)
    parser.add_argument("--tier", default="auto", help="auto, overlay or landlock")
    parser.add_argument("--json", type=file_path, help="also write the numbers here")
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as folder, console.status("measuring, about a minute"):
        place = Path(folder)
        tree = made(place / "tree", options.files, options.megabytes)
        try:
            box = open_workspace(tree, tier=options.tier, limits=Limits(processes=64))
        except BadInput as error:
            parser.error(str(error))
        with box:
            overlay = box.tier.name == "overlay"
            depths = [depth for depth in DEPTHS if depth <= box.tier.deepest] if overlay else [1]
            what = f"{options.files:,} files, {size(tree) / 2**20:.0f} MiB on disk"
            found = {
                "what": f"tier {box.tier.name}, {box.tier.origin}; {what}",
                "tree": size(tree),
                "forks": forks(tree, box, place),
                "commands": commands(tree, box, depths),
                "filtered": filtered(box),
                "processor": processor(box),
                "siblings": siblings(box),
                "held": held(box),
            }
    report(found, console)
    if options.json:
        write_atomically(options.json, to_json(found, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
