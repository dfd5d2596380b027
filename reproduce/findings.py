"""What the numbers of a table say, as sentences that follow from them by the rules of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpo.sandboxes import spec
from reproduce.tables import ABOVE, BELOW
from reproduce.words import Row, listed, percent, short, spread, trained

# Pairs that a sentence names one by one.
MOST_NAMED = 6
KINDS = {"tiny": "a small transformer made from nothing", "tabular": "a table of logits", "hf": "a pretrained model"}


def findings(table: Mapping[str, Any]) -> list[str]:
    """Sentences about the comparisons, about each row against its warm start, and about the returns that were used."""
    said = [sentence for one in table["sets"] for sentence in of_set(table, one)]
    said += against_start(table)
    rows = trained(table)
    for row in rows:
        if row["matched_to"]:
            used = [f"{label} ({_returns(rows, label):.2f} used)" for label in row["matched_to"]]
            said.append(f"{row['label']} is the baseline at the returns of {' and '.join(used)}.")
    return said


def of_set(table: Mapping[str, Any], one: Mapping[str, Any]) -> list[str]:
    """The order of a comparison by area, the pairs that differ by more than noise, and those that do not."""
    order = sorted(one["areas"], key=lambda label: -one["areas"][label]["value"])
    told = ", ".join(f"{label} {percent(one['areas'][label]['value'])}" for label in order)
    said = [f"At {one['name']}, by area under the curve: {told}."]
    pairs = [pair for pair in table["pairs"] if pair["measure"] == "area" and pair["set"] == one["name"]]
    outside = [_directed(pair) for pair in pairs if pair["sign"]]
    inside = [f"{pair['a']} and {pair['b']}" for pair in pairs if not pair["sign"]]
    if outside:
        told = "; ".join(f"{pair['a']} is above {pair['b']} by {spread(pair)}" for pair in outside)
        said.append(f"Outside the noise there: {told}.")
    if len(inside) > MOST_NAMED:
        said.append(
            f"{len(inside)} of {len(pairs)} pairs there are inside the noise: their order is no ranking (see the appendix)."
        )
    elif inside:
        said.append(f"Inside the noise there, so that their order is no ranking: {'; '.join(inside)}.")
    return said


def against_start(table: Mapping[str, Any]) -> list[str]:
    """Which rows are above or below their warm start after the last update, on every split."""
    if len(table["seeds"]) < 2:
        return []
    first, *others = table["splits"]
    above, below = (listed(_with(table, first, verdict)) for verdict in (ABOVE, BELOW))
    said = [f"Against the warm start ({short(first)} tasks, after the last update), above: {above}; below: {below}."]
    if not _with(table, first, ABOVE):
        said.append("No row is above the warm start: by this measure the comparison says nothing about learning here.")
    for other in others:
        up, down = (listed(_with(table, other, verdict)) for verdict in (ABOVE, BELOW))
        said.append(f"What carries over to {short(other)} tasks, above the warm start: {up}; below: {down}.")
    if table["rules"]:
        up, down = (listed(_with(table, first, verdict, "score_vs_start")) for verdict in (ABOVE, BELOW))
        said.append(f"The same by score on {short(first)} tasks, above: {up}; below: {down}.")
    return said


def _with(table: Mapping[str, Any], split: str, verdict: str, what: str = "vs_start") -> list[Row]:
    return [row for row in trained(table) if row[what][split]["verdict"] == verdict]


def _directed(pair: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pair with the higher row first."""
    if pair["sign"] > 0:
        return pair
    return {
        **pair,
        "a": pair["b"],
        "b": pair["a"],
        "value": -pair["value"],
        "low": -pair["high"],
        "high": -pair["low"],
        "sign": 1,
    }


def deviations(table: Mapping[str, Any]) -> list[str]:
    """How this experiment differs from the paper's."""
    s, sandbox = table["settings"], spec(table["sandbox"])
    words = sandbox.paper
    return [
        f"Policy: {s['policy']['model'] or KINDS[s['policy']['kind']]} instead of Qwen2.5-7B-Instruct; its warm start imitates "
        "scripted demonstrations instead of public trajectories.",
        *([f"Tasks: {table['games']} instead of {words.tasks}."] if words.tasks else []),
        *sandbox.differences(s["options"]),
        f"Training: {s['updates']} updates of {s['tasks_per_update']} tasks instead of {words.updates} of 128; AdamW at "
        f"{s['lr']:g}, {s['schedule']}, instead of 2e-6 on a cosine; KL weight {s['beta']:g}, clip {s['clip']:g}, gradient "
        f"norm clipped at {s['max_grad_norm']:g}. One setting for all rows; the paper picks learning rate and KL weight per "
        "method, environment and seed.",
        f"Seeds: {len(table['seeds'])}; intervals are t intervals, the paper's ± is a standard deviation over 3 seeds. The "
        "first measure here is the area under the curve of the tasks that are trained on; the paper's is success on others.",
        "Returns: the paper compares 13 returns of BPO with 8 of GRPO and RLOO; here both have as many as branching.",
        "Row `bpo` is the literal reading; what the paper leaves open (steps after a branch point) is broadcast. Row "
        "`bpo_split` is not in the paper.",
        f"Actions are written with {s['policy']['writing']} decoding"
        + (": the model cannot write an inadmissible action." if s["policy"]["writing"] == "constrained" else "."),
        *([f"Not attempted: {words.others}."] if words.others else []),
    ]


def _returns(rows: Sequence[Row], label: str) -> float:
    return next(row["returns_per_tree"]["used"] for row in rows if row["label"] == label)
