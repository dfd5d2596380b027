"""Measures an update against its floor: unique tokens times their arithmetic, at the rate of this machine's matrix products.

    python benchmarks/floor.py [--updates N] [--policy FOLDER] [--against REVISION|FOLDER] [--json FILE]

Trees of 8 generated household games, grown by `rloo` (N = 13) and by `bpo_split` as preset `quick` has it; by a tiny model with
random weights, or the policy in a folder. Every second return of a tree counts as a success, so that all trees are trained on:
in a run, those whose returns are all equal are not.

Floor: a token takes 2 operations for each weight of the linear layers, and 4 x width for each token that it attends to in each
layer; of the last layer, and of the output, only tokens with a choice need all. Reading forwards costs that once in the rollout
and four times in the update (the reference, the policy, and backwards twice as much). It is divided by the measured rate of
products of the shape that the model has. Above the floor is all that is no matrix product, and products below that rate.

`--against` compares with an older commit, or another checkout: two processes take turns, update by update, on the same tasks
with the same weights. Times are CPU seconds on one thread; the speed-up is the median of the ratios of neighbouring updates.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from arguments import Parser, count, file_path, run
from floor_figures import PASSES, ROWS, SQUARE, rate, report, sizes, work

import bpo
from bpo import update
from bpo.config import load_preset
from bpo.errors import BadInput, ToolError
from bpo.files import to_json
from bpo.git import git
from bpo.policies.lm import LMPolicy
from bpo.policies.prefix_sharing import plan
from bpo.policies.score import pack, read_before
from bpo.rollout import grow
from bpo.train import ROLLOUT, Trainer
from bpo.tree import Tree

HERE = Path(__file__).resolve().parent.parent
# Tasks of an update, and the settings that what is measured depends on.
TASKS = 8
SETTINGS = {"tasks_per_update": TASKS, "beta": 0.05, "epochs": 1, "mini_batches": 1}
METHODS = {"rloo": {"returns": 13}, "bpo_split": {}}
# --- one update, in a process of its own; it must run in older checkouts too


def trainer_of(method: str, folder: str | None) -> Trainer:
    """A run that is about to start: preset `quick` but for what presets of different age say differently."""
    config = load_preset("quick").run(method, "household", 0, METHODS[method])
    config = replace(config, settings=replace(config.settings, **SETTINGS))
    if folder is not None:
        policy = LMPolicy.load(folder)
    else:
        from tree_training import policy_of

        policy = policy_of("tiny")
    return Trainer(config, Path(tempfile.gettempdir()), policy)


def contrasted(tree: Tree) -> Tree:
    """The tree with every second return a success."""
    reward = np.zeros(len(tree))
    reward[tree.leaves[::2]] = 1.0
    return replace(tree, reward=reward)


def one_update(trainer: Trainer, number: int) -> dict:
    """One update from the first weights: CPU seconds of its halves, what was read, and the log-probs of what was drawn."""
    weights = {name: value.clone() for name, value in trainer.policy.state_dict().items()}
    key = (ROLLOUT, trainer.config.seed, number)
    tasks = trainer.sandboxes[0].tasks("train")[number * TASKS : (number + 1) * TASKS]
    start = time.process_time()
    trees, ledger = grow(tasks, trainer.sandboxes, trainer.policy, trainer.method.growth, key)
    grown = time.process_time()
    trees = [contrasted(tree) for tree in trees]
    credits = trainer.method.credit(trees, trainer.memory)
    again = time.process_time()
    trainer.learner.learn(number, trees, credits)
    end = time.process_time()
    trainer.policy.load_state_dict(weights)
    trainer.learner.load_state_dict(FIRST[trainer])
    steps = [step for tree in trees for step in tree.steps[1:]]
    batch = update.make_batch(trees, credits)
    todo = {}
    for name, some in (("rollout", [(step.context, step.decision) for step in steps]), ("update", batch.steps)):
        rows, _ = pack([read_before(*step) for step in some])
        todo[name] = asdict(work(plan(rows, 1), sum(len(decision.free) for _, decision in some)))
    return {
        "seconds": {"rollout": grown - start, "update": end - again},
        "work": todo,
        "computed": ledger.computed,
        "drawn": [[list(step.decision.tokens), list(step.decision.log_probs)] for step in steps],
    }


FIRST: dict[Trainer, dict] = {}


def serve(folder: str | None) -> None:
    """Carry out updates that are asked for line by line, "method number"; answers are lines of JSON."""
    torch.set_num_threads(1)
    trainers = {method: trainer_of(method, folder) for method in METHODS}
    FIRST.update({trainer: trainer.learner.state_dict() for trainer in trainers.values()})
    print(json.dumps(str(Path(bpo.__file__).resolve().parent.parent), allow_nan=False), flush=True)
    for line in sys.stdin:
        method, number, with_parts = line.split()
        with parts_of(trainers[method]) if with_parts == "parts" else contextlib.nullcontext({}) as parts:
            found = one_update(trainers[method], int(number))
        print(json.dumps({**found, "parts": parts}, allow_nan=False), flush=True)


@contextlib.contextmanager
def parts_of(trainer: Trainer) -> Iterator[dict[str, float]]:
    """CPU seconds by part while this is open; what a part calls that is a part too is taken out of it."""
    from bpo.policies import decode, llama, llama_rows, llama_tree, net, prefix_cache, prompts

    sandbox = type(trainer.sandboxes[0])
    watched = {
        "sandbox": [(sandbox, name) for name in ("reset", "step", "restore", "snapshot", "state_key")],
        "texts to tokens": [(prompts.TranscriptStyle, "begin"), (prompts.TranscriptStyle, "extend"), (LMPolicy, "_decoder")],
        "linear layers": [(llama.Llama, "append"), (llama.Llama, "states"), (net.Net, "logits")],
        "attention": [
            *((llama_rows.Rows, name) for name in ("__init__", "write", "attend")),
            *((llama_tree.Attended, name) for name in ("forward", "backward")),
            (llama_tree.Tree, "__init__"),
        ],
        "keys and values": [
            (prefix_cache.PrefixStore, "put"),
            *((prefix_cache.CachedRows, name) for name in ("__init__", "_gather", "take")),
        ],
        "drawing": [(decode, "draw")],
        "backwards": [(torch.Tensor, "backward")],
        "optimiser": [(type(trainer.learner.optimizer), "step")],
    }
    parts, stack = dict.fromkeys(watched, 0.0), [0.0]
    with contextlib.ExitStack() as undo:
        for part, places in watched.items():
            for owner, name in places:
                undo.callback(setattr, owner, name, owner.__dict__[name])
                static = isinstance(owner.__dict__[name], staticmethod)
                timed = _timed(getattr(owner, name), part, parts, stack)
                setattr(owner, name, staticmethod(timed) if static else timed)
        yield parts


def _timed(function, part: str, parts: dict[str, float], stack: list[float]):
    def call(*args, **kwargs):
        start = time.process_time()
        stack.append(0.0)
        try:
            return function(*args, **kwargs)
        finally:
            spent = time.process_time() - start
            parts[part] += spent - stack.pop()
            stack[-1] += spent

    return call


# --- asking


class Server:
    """A process that carries out updates with the code of a checkout."""

    def __init__(self, checkout: Path, policy: Path | None):
        given = ["--serve", *(["--policy", str(policy)] if policy else [])]
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(checkout)},
        )
        used = Path(self._read())
        if used != checkout.resolve():
            raise BadInput(f"the code of {checkout} cannot be run: {used} is imported instead")

    def update(self, method: str, number: int, parts: bool = False) -> dict:
        """One update."""
        self.process.stdin.write(f"{method} {number} {'parts' if parts else 'whole'}\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise BadInput("the process that measures has ended; what it said is above")
        return json.loads(line)


@contextlib.contextmanager
def checkout_of(place: str) -> Iterator[Path]:
    """The folder itself, or a temporary checkout of a revision of this repository; BadInput where it is neither."""
    if (Path(place) / "bpo" / "__init__.py").is_file():
        yield Path(place).resolve()
        return
    try:
        git(HERE, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{place}^{{commit}}")
    except ToolError:
        raise BadInput(f"--against is {place!r}; it must be a commit of this repository, or a folder that holds bpo/") from None
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "checkout"
        try:
            git(HERE, "worktree", "add", "--detach", str(tree), place)
        except ToolError as error:
            raise BadInput(f"commit {place!r} cannot be checked out: {error}") from None
        try:
            yield tree.resolve()
        finally:
            with contextlib.suppress(ToolError):
                git(HERE, "worktree", "remove", "--force", str(tree))


def seconds(found: dict) -> float:
    """CPU seconds of an update."""
    return sum(found["seconds"].values())


def compared(now: Sequence[dict], then: Sequence[dict]) -> dict:
    """Speed-up of updates that were measured in turn, and the largest difference of log-probs of what both drew alike."""
    ratios = [seconds(old) / seconds(new) for new, old in zip(now, then, strict=True)]
    worst, alike, every = 0.0, 0, 0
    for new, old in zip(now, then, strict=True):
        every += max(len(new["drawn"]), len(old["drawn"]))
        for (tokens, ours), (others, theirs) in zip(new["drawn"], old["drawn"], strict=False):
            if tokens == others:
                alike += 1
                worst = max([worst, *(abs(a - b) for a, b in zip(ours, theirs, strict=True))])
    halves = {
        half: statistics.median(o["seconds"][half] / n["seconds"][half] for n, o in zip(now, then, strict=True))
        for half in PASSES
    }
    return {"ratio": statistics.median(ratios), "halves": halves, "log_probs": worst, "alike": alike, "decisions": every}


def measured(policy: Path | None, updates: int, against: str | None) -> dict:
    """All figures: by method, of this checkout and, in turn, of the other one."""
    found: dict = {}
    with contextlib.ExitStack() as stack:
        checkouts = [HERE] if against is None else [HERE, stack.enter_context(checkout_of(against))]
        servers = [Server(checkout, policy) for checkout in checkouts]
        for server in servers:
            stack.callback(server.close)
        for method in METHODS:
            for server in servers:
                server.update(method, 0)  # games are loaded and translated once
            runs = [[server.update(method, number) for server in servers] for number in range(1, updates + 1)]
            now = [run[0] for run in runs]
            # On tasks of its own: a sandbox knows what was played in it before.
            found[method] = {"updates": now, "parts": servers[0].update(method, updates + 1, parts=True)}
            if against is not None:
                found[method]["against"] = compared(now, [run[1] for run in runs])
    return found


def main() -> None:
    parser = Parser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--updates", type=count(1, 1000), default=3, help="updates of each method (default: 3)")
    parser.add_argument("--policy", type=policy_folder, help="folder of a saved policy (default: random weights)")
    parser.add_argument("--against", help="a commit of this repository, or the folder of another checkout")
    parser.add_argument("--json", type=file_path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.policy)
        return
    torch.set_num_threads(1)
    found = measured(given.policy, given.updates, given.against)
    model = sizes(trainer_of("rloo", given.policy).policy)
    rates = {"model": rate(ROWS, model.width, 2 * model.inner), "square": rate(SQUARE, SQUARE, SQUARE)}
    result = report(found, model, rates, given.against)
    if given.json:
        given.json.write_text(to_json(result, indent=1) + "\n")


def policy_folder(text: str) -> Path:
    """An argument that names the folder of a saved policy."""
    if "\0" in text or not (Path(text) / "policy.json").is_file():
        raise argparse.ArgumentTypeError(f"{text!r} must be the folder of a saved policy (with a file policy.json)")
    return Path(text).resolve()


if __name__ == "__main__":
    run(main)
