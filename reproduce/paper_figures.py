"""What a table says about its sandbox: the paper's column beside it, and how tasks differ from the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

START = "warm start"


@dataclass(frozen=True)
class Words:
    """The words of one sandbox.

    paper       the paper's figures for it (Table 1, Qwen2.5-7B-Instruct, mean ± std of 3 seeds), by method
    paper_head  head of their column
    tasks       the paper's tasks and step limit, for the list of deviations; "" where the paper has no such sandbox
    updates     the paper's number of updates there
    others      what else the paper has and this table does not
    """

    paper: Mapping[str, str] = field(default_factory=dict)
    paper_head: str = "paper"
    tasks: str = ""
    updates: str = "3,000"
    others: str = ""


WORDS = {
    "household": Words(
        paper={START: "44.6 ± 2.1 (SFT)", "rloo": "58.3 ± 2.2", "grpo": "60.5 ± 2.0", "bpo": "66.4 ± 1.9 (M = 4, K = 4)"},
        paper_head="paper: success, Qwen2.5-7B, ALFWorld valid_unseen, 3 seeds, ± std (a different experiment)",
        tasks="the official ALFWorld games, and another step limit than the paper's 40",
        others="PPO, VinePPO, SWE-bench, the second model",
    ),
    "webshop": Words(
        paper={START: "51.3 ± 1.2 (SFT)", "rloo": "60.4 ± 1.5", "grpo": "62.1 ± 1.4", "bpo": "67.8 ± 1.3 (M = 4, K = 4)"},
        paper_head="paper: success, Qwen2.5-7B, WebShop, 1.18 M products, 3 seeds, ± std (a different experiment)",
        tasks="WebShop's 1.18 million products, and another step limit than the paper's 50",
        others="PPO, VinePPO, SWE-bench, the second model",
    ),
    "codefix": Words(
        paper={START: "14.6 ± 1.0 (SFT)", "rloo": "22.8 ± 1.2", "grpo": "24.0 ± 1.1", "bpo": "29.8 ± 1.0 (M = 4, K = 4)"},
        paper_head="paper: success, Qwen2.5-7B, SWE-bench Verified, 3 seeds, ± std (a different experiment)",
        tasks="the 500 issues of SWE-bench Verified in their repositories, and another limit than the paper's 25 tool calls",
        updates="5,000",
        others="PPO, VinePPO, SWE-bench itself, the second model",
    ),
    "toy": Words(),
}


def differences(sandbox: str, options: Mapping[str, Any]) -> list[str]:
    """How actions and what is read differ from the original's, as sentences."""
    if sandbox == "codefix":
        return _repairs(options)
    if sandbox != "webshop":
        return []
    said = []
    if options.get("page_size", 10) != 10:
        said.append(f"Pages of results show {options['page_size']} products instead of 10.")
    if options.get("observation") == "brief":
        said.append("Pages leave out the instruction, which the prompt states.")
    if options.get("queries", "phrases") == "phrases":
        said.append("Searches are chosen from runs of the instruction's phrases; the policy writes none of its own.")
    return said


def _repairs(options: Mapping[str, Any]) -> list[str]:
    if options.get("actions", "constrained") == "free" or options.get("data"):
        return ["Actions are bash commands on one file instead of an agent's tools on a repository."]
    choices = options.get("choices", 8)
    return [
        f"Actions: at most {choices} edits of single lines, the repair always among them, undo, run the tests, submit, instead "
        "of a shell; a failing test run names the exception and no more."
    ]


def tasks(config: Mapping[str, Any]) -> str:
    """What the evaluation tasks of a run are, in the words of the column heads."""
    options = config["sandbox_options"]
    if config["sandbox"] == "toy":
        return "toy tree"
    if config["sandbox"] == "codefix":
        if options.get("data"):
            return "broken programs of a collection"
        return f"mutated HumanEval programs ({options.get('difficulty', 'easy')})"
    if config["sandbox"] == "webshop":
        if not options.get("data"):
            return "generated products"
        return "WebShop, 1.18 M products" if options.get("size") == "full" else "WebShop, 1,000 products"
    return "official ALFWorld games" if options.get("data") else f"generated, {options.get('difficulty', 'small')} rooms"
