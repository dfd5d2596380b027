"""The record of the WebShop sandbox. What needs its packages is imported when it is called."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bpo.param import Param
from bpo.sandbox import Sandbox
from bpo.sandboxes.record import Demonstrate, Options, PaperColumn, SandboxSpec, Walk, presets_beside, walk_limit
from bpo.sandboxes.webshop import PACKAGES


def make(**options) -> Sandbox:
    """A shop."""
    from bpo.sandboxes.webshop.sandbox import WebShop

    return WebShop(**options)


def tasks(options: Options) -> str:
    """Whose products they are, and how many."""
    if not options.get("data"):
        return "generated products"
    return "WebShop, 1.18 M products" if options.get("size") == "full" else "WebShop, 1,000 products"


def needs_writing(options: Options) -> str:
    """Where searches are the policy's own."""
    return "queries 'free' lets the policy write its own searches" if options.get("queries") == "free" else ""


def demonstrations(options: Options) -> Demonstrate:
    """A buyer who knows the product."""
    from bpo.sandboxes.webshop.demos import demonstration

    return demonstration


def walk(games: int, steps: int, data: str | None) -> Walk:
    """Training goals, replayed by the sandbox itself."""
    again = partial(make, max_steps=walk_limit(steps), **({"data": data} if data else {}))
    with contextlib.closing(again()) as probe:
        return Walk(again, again, probe.tasks("train"))


def reference_rows(sandbox: Any, tasks_of: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Score, success and steps of every rule on every split."""
    from bpo.sandboxes.webshop import rules

    rows = {
        name: {split: asdict(rules.score(sandbox, list(found), name)) for split, found in tasks_of.items()}
        for name in rules.RULES
    }
    shared = {split: str(sandbox.leaks(split)) for split in tasks_of}
    return {"rows": rows, "max_steps": sandbox.max_steps, "shared_with_train": shared}


def differences(options: Options) -> list[str]:
    """Pages and searches that are not the original's."""
    said = []
    if options.get("page_size", 10) != 10:
        said.append(f"Pages of results show {options['page_size']} products instead of 10.")
    if options.get("observation") == "brief":
        said.append("Pages leave out the instruction, which the prompt states.")
    if options.get("queries", "phrases") == "phrases":
        said.append("Searches are chosen from runs of the instruction's phrases; the policy writes none of its own.")
    return said


webshop = SandboxSpec(
    summary="WebShop: find a product that fits an instruction, choose its options, buy it",
    make=make,
    options={
        "data": Param(None, "folder with WebShop's files; unset: the embedded catalogue of generated products", kind=Path),
        "size": Param("small", "with data: 1,000 products or 1.18 million", choices=("small", "full")),
        "goals": Param(None, "whose goals; unset: those that fit the size", choices=("synthetic", "human"), kind=str),
        "splits": Param(
            None,
            "by position, as in the field, or by product; unset: field with data, products without",
            choices=("field", "products"),
            kind=str,
        ),
        "observation": Param("text", "how pages are printed", choices=("text", "text_rich", "brief")),
        "protocol": Param(
            "field",
            "15 steps and a reward for what fits entirely, or the paper's 50 steps and graded reward",
            choices=("field", "paper"),
        ),
        "max_steps": Param(None, "step limit; unset: the protocol's", low=1, kind=int),
        "page_size": Param(10, "products on a page of results", low=1),
        "queries": Param(
            "phrases", "searches that are listed, from the instruction's phrases, or free ones", choices=("phrases", "free")
        ),
    },
    tasks=tasks,
    packages=dict.fromkeys(PACKAGES, "webshop"),
    needs_writing=needs_writing,
    demonstrations=demonstrations,
    walk=walk,
    presets=presets_beside(__file__),
    reference_rows=reference_rows,
    paper=PaperColumn(
        start="51.3 ± 1.2 (SFT)",
        methods={"rloo": "60.4 ± 1.5", "grpo": "62.1 ± 1.4", "bpo": "67.8 ± 1.3 (M = 4, K = 4)"},
        head="paper: success, Qwen2.5-7B, WebShop, 1.18 M products, 3 seeds, ± std (a different experiment)",
        tasks="WebShop's 1.18 million products, and another step limit than the paper's 50",
        others="PPO, VinePPO, SWE-bench, the second model",
    ),
    differences=differences,
)
