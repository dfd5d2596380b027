"""The laboratory's page of tables, from its numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bpo.compare import Verdict, mean
from bpo.lab import control, verdict
from bpo.lab.families import FAMILIES
from bpo.lab.run import AXES
from bpo.lab.table import PRIMARY, RULES
from bpo.lab.verdict import Key

Found = Mapping[str, Any]
# How a verdict is written: the first of the pair is better, the second is, nothing can be said.
SIGNS = {1: "+", -1: "−", 0: "·"}
# What CPU seconds are counted by, in the order in which it is run.
PHASES = ("rates", "table", "again", "control", "map: rates", "map", "truth")
RULE_WORDS = {"own": "each method's own learning rate", "common": "one learning rate for all methods of a family"}


def page(found: Found) -> str:
    """The page in Markdown: what was run, then a section for every part that there is."""
    suite = found["suite"]
    parts = ["# Laboratory", _head(found), _families(suite)]
    if "table" in found:
        parts += [_levels(found, policy) for policy in suite["policies"]]
        parts += [_pairs(found, policy, rule) for rule in RULES for policy in suite["policies"]]
        parts += [_counts(found), _rates(found), _used(found)]
    if "table" in found and "again" in found:
        parts.append(_agreement(found))
    if "table" in found and "control" in found:
        parts.append(_control(found))
    if "truth" in found:
        parts.append(_trust(found))
    if "map" in found:
        parts.append(_map(found["map"]))
    return "\n\n".join(parts) + "\n"


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _head(found: Found) -> str:
    suite, made = found["suite"], found["origin"]
    seconds = found["cpu_s"]
    spent = ", ".join(f"{phase} {seconds[phase] / 60:.1f}" for phase in PHASES if phase in seconds)
    unable = "".join(f"\n* n/a: {name} ({reason})" for name, reason in found["unable"].items())
    return (
        f"What is compared and how: docs/lab.md. Areas under J, as a share of the way from the start (0) to the optimum (1); "
        f"{len(suite['seeds'])} seeds, intervals of 95 %, verdicts after Holm's correction over a whole table.\n\n"
        f"CPU minutes by phase: {spent}; {sum(seconds.values()) / 60:.1f} in all. "
        f"Commit {made['commit'][:12] or 'unknown'}{' with changes' if made['dirty'] else ''}, code {made['code']}, "
        f"Python {made['versions']['python']}, numpy {made['versions'].get('numpy')}, torch {made['versions'].get('torch')}, "
        f"{made['date']}.{unable}"
    )


def _families(suite: Found) -> str:
    rows = [(name, FAMILIES[name]().meaning, str(len(FAMILIES[name]().names))) for name in suite["families"]]
    return "## Families\n\n" + markdown(("family", "what decides", "states"), rows)


def _chosen(found: Found, part: str, policy: str, rule: str) -> dict[tuple[str, str], Found]:
    """(family, method) -> the row of that part."""
    rows = [row for row in found[part] if row["policy"] == policy and row["rule"] == rule]
    return {(row["family"], row["method"]): row for row in rows}


def _levels(found: Found, policy: str) -> str:
    rows = _chosen(found, "table", policy, "own")
    lines = []
    for family in found["suite"]["families"]:
        cells = [_level(rows.get((family, method)), PRIMARY) for method in found["methods"]]
        lines.append((family, *cells))
    title = f"## {policy.capitalize()} policy: area under J at equal {PRIMARY}\n\n{RULE_WORDS['own'].capitalize()}.\n\n"
    return title + markdown(("family", *found["methods"]), lines)


def _level(row: Found | None, axis: str) -> str:
    if row is None or row["failed"]:
        return "n/a"
    if not verdict.usable(row, axis):
        return "n/a: the budget was not reached"
    one = mean(row[f"area_{axis}"])
    return f"{one.value:.3f} ± {(one.high - one.low) / 2:.3f}"


def _pairs(found: Found, policy: str, rule: str) -> str:
    tables = {axis: verdict.of_table(found["table"], axis, rule) for axis in AXES}
    families = found["suite"]["families"]
    names = list(dict.fromkeys((a, b) for _, _, a, b in tables[PRIMARY]))
    lines = []
    for a, b in names:
        cells = ["".join(_sign(tables[axis].get((family, policy, a, b))) for axis in AXES) for family in families]
        lines.append((f"{a} − {b}", *cells))
    return (
        f"## {policy.capitalize()} policy: verdicts, {RULE_WORDS[rule]}\n\n"
        f"Per cell at equal {', equal '.join(AXES)}: + the first is better, − the second is, · neither.\n\n"
        + markdown(("pair", *families), lines)
    )


def _sign(one: Verdict | None) -> str:
    return "?" if one is None else SIGNS[one.sign]


def _counts(found: Found) -> str:
    lines = []
    for rule in RULES:
        for axis in AXES:
            table = verdict.of_table(found["table"], axis, rule)
            differ = [key for key, one in table.items() if one.sign]
            lines.append((rule, axis, str(len(differ)), str(len(table))))
    return "## How many pairs differ\n\n" + markdown(("learning rate", "at equal", "pairs that differ", "of"), lines)


def _rates(found: Found) -> str:
    suite = found["suite"]
    rows = {(row["family"], row["policy"], row["method"]): row for row in found["rates"]}
    lines = []
    for policy in suite["policies"]:
        for family in suite["families"]:
            chosen = [rows[family, policy, method] for method in found["methods"]]
            cells = ["n/a" if row["own"] is None else f"{row['own']:g}{'*' if row['edge'] else ''}" for row in chosen]
            common = chosen[0]["common"]
            lines.append((policy, family, *cells, "n/a" if common is None else f"{common:g}"))
    tried = ", ".join(f"{lr:g}" for lr in suite["rates"])
    return (
        f"## Learning rates\n\nTried: {tried}; chosen on {len(suite['pilot'])} other seeds. "
        "* the smallest or largest that was tried.\n\n" + markdown(("policy", "family", *found["methods"], "common"), lines)
    )


def _used(found: Found) -> str:
    lines = []
    for policy in found["suite"]["policies"]:
        rows = _chosen(found, "table", policy, "own")
        for family in found["suite"]["families"]:
            cells = [_spent(rows.get((family, method))) for method in found["methods"]]
            lines.append((policy, family, *cells))
    return (
        "## What was spent\n\nMeans per run: updates / returns / steps / forks below the root. Every run goes on until it has "
        "spent the budget on every axis; areas are cut there.\n\n" + markdown(("policy", "family", *found["methods"]), lines)
    )


def _spent(row: Found | None) -> str:
    if row is None or row["failed"]:
        return "n/a"
    return " / ".join(f"{np.mean(row[name]):.0f}" for name in ("updates", "returns", "steps", "forks"))


def _agreement(found: Found) -> str:
    lines = []
    for axis in AXES:
        one, two = (verdict.of_table(found[part], axis, "own") for part in ("table", "again"))
        kinds = verdict.agreement(one, two)
        lines.append((axis, *(str(kinds[name]) for name in ("same", "none", "one_only", "opposite", "pairs"))))
    heads = ("at equal", "same verdict", "none in both", "in one only", "opposite", "pairs")
    return "## Two disjoint sets of seeds\n\n" + markdown(heads, lines)


def _control(found: Found) -> str:
    names = (control.LABEL, *control.AGAINST, control.METHOD)
    rows = [*found["control"], *(row for row in found["table"] if row["method"] in names)]
    tables = {axis: verdict.of_table(rows, axis, "own") for axis in AXES}
    lines = []
    for policy in found["suite"]["policies"]:
        for family in found["suite"]["families"]:
            here = {
                row["method"]: row for row in rows if (row["family"], row["policy"], row["rule"]) == (family, policy, "own")
            }
            levels = [_level(here.get(name), PRIMARY) for name in (control.LABEL, *control.AGAINST)]
            signs = [
                "".join(_sign(tables[axis].get((family, policy, control.LABEL, name))) for axis in AXES) for name in names[1:]
            ]
            lines.append((policy, family, *levels, *signs))
    heads = ("policy", "family", control.LABEL, *control.AGAINST, *(f"control − {name}" for name in names[1:]))
    return (
        "## Control: batches as small as those of mass splitting\n\n"
        f"Independent rollouts with {control.RETURNS} returns per tree make about as many updates as mass splitting. "
        f"Areas at equal {PRIMARY}; signs at equal {', equal '.join(AXES)}, corrected over this table.\n\n"
        + markdown(heads, lines)
    )


def _trust(found: Found) -> str:
    suite = found["suite"]
    family = len(verdict.of_table(found["table"], PRIMARY, "own")) if "table" in found else 1
    rows = verdict.trust(found["truth"], len(suite["seeds"]), family, PRIMARY)
    lines = []
    for row in rows:
        alarms = [f"{100 * row[name]:.1f} %" if name in row else "" for name in ("alarms", "alarms_family")]
        lines.append((row["of"], f"{row['mean']:.4f} ± {row['error']:.4f}", f"{100 * row['coverage']:.1f} %", *alarms))
    heads = (
        "of",
        "mean and its error",
        "intervals that hold it",
        "differs from itself",
        f"the same, one of {family} comparisons",
    )
    return (
        f"## Can the intervals be trusted\n\n{len(suite['truth'])} seeds of each are the truth; "
        f"intervals are of {len(suite['seeds'])} of them, in {verdict.DRAWS} draws. The last columns are a method against "
        f"itself under another name, in {verdict.REDRAWS} re-draws of the seeds.\n\n" + markdown(heads, lines)
    )


def _map(rows: Sequence[Found]) -> str:
    lines = [
        (
            f"{row['horizon']}",
            f"{row['depth']}",
            "yes" if row["luck"] else "no",
            f"{row['width']}",
            f"{row['fork']:g}",
            f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]{'*' * bool(row['short'])}",
            f"{row['predicted']:.2f}",
            f"{row['lr_branching']:g} / {row['lr_independent']:g}",
        )
        for row in rows
    ]
    heads = ("horizon", "decision", "luck", "K", "fork costs (steps)", "cost ratio", "predicted", "rates")
    return (
        "## The map\n\nCost to 90 % of the optimum, branching at the root and at the decision over as many rollouts from the "
        "root; below 1 branching is cheaper. Predicted: trace(Cov) times cost of one tree at the start policy. "
        "* some runs did not get there.\n\n![The map](map.png)\n\n" + markdown(heads, lines)
    )


def differing(found: Found, axis: str, rule: str) -> list[Key]:
    """The (family, policy, method, other) that differ after Holm, in the first set of seeds."""
    return [key for key, one in verdict.of_table(found["table"], axis, rule).items() if one.sign]
