"""The table as Markdown, and what the numbers say in words; nothing is computed here that is not in the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpo.sandboxes import spec
from reproduce.escaping import with_escaped_labels
from reproduce.stats import RESAMPLES
from reproduce.tables import ABOVE, BELOW, INSIDE, START

Row = Mapping[str, Any]
NONE = "–"
KINDS = {"tiny": "a small transformer made from nothing", "tabular": "a table of logits", "hf": "a pretrained model"}


def markdown(table: Mapping[str, Any]) -> str:
    """The whole of table.md."""
    table = with_escaped_labels(table)
    parts = [
        f"# {table['preset']} on {table['sandbox']}: {table['scale']}",
        head(table),
        "## Success",
        grid(*success_table(table)),
        f"Cells: {cells(table)}. {interval_note(table)}",
        *rules(table),
        *missing(table),
        "## What the numbers say",
        "\n".join(f"* {sentence}" for sentence in findings(table)),
        "## Learning speed and gradient",
        grid(*signal_table(table)),
        speed_note(table),
        "## Cost",
        grid(*cost_table(table)),
        "Tokens and steps are those of training, without evaluation. The last column is machine dependent: wall seconds of "
        "rollouts and updates of one run, with other runs beside it.",
        *official(table),
        "## Deviations from the paper",
        "\n".join(f"* {sentence}" for sentence in deviations(table)),
        "## Appendix: all pairs of rows",
        grid(*pairs_table(table)),
        "## Appendix: success by task type",
        *(grid(*type_table(table, split)) for split in table["splits"]),
    ]
    return "\n\n".join(parts) + "\n"


def summary(table: Mapping[str, Any]) -> str:
    """What README shows: the scale, the success table and what the numbers say."""
    table = with_escaped_labels(table)
    parts = [
        f"**{table['scale'][:1].upper()}{table['scale'][1:]}.** {head(table)}",
        grid(*success_table(table)),
        f"Cells: {cells(table)}. {interval_note(table)}",
        *rules(table),
        *missing(table),
        "\n".join(f"* {sentence}" for sentence in findings(table)),
    ]
    return "\n\n".join(parts) + "\n"


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def head(table: Mapping[str, Any]) -> str:
    """What was run, in one paragraph."""
    settings, policy = table["settings"], table["settings"]["policy"]
    tasks = ", ".join(f"{count} {short(split)}" for split, count in table["tasks"].items())
    boxes = f"Boxes of all runs: {'; '.join(table['origin']['boxes'])}. " if table["origin"].get("boxes") else ""
    return (
        f"Tasks: {table['games']}. Policy: {policy['kind']}, {policy['writing']} writing, actions sampled at temperature "
        f"{policy['temperature']:g}. {plural(len(table['seeds']), 'seed')}; "
        f"evaluation tasks: {tasks}, {plural(settings['eval_samples'], 'episode')} each, last checkpoint. "
        f"{boxes}Fingerprint of the code behind these runs: {table['origin']['code']}. "
        "Rules, and every change of setting with its date: reproduce/PROTOCOL.md."
    )


def success_table(table: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Success and difference to the warm start on every split, with the paper's figure beside it."""
    heads = ["row"]
    for split in table["splits"]:
        heads += [f"{table['games']}: {short(split)}", f"minus warm start, {short(split)}"]
        heads += [f"score, {short(split)}", f"score minus warm start, {short(split)}"] if table["rules"] else []
    rows = []
    for row in table["rows"]:
        cells = [row["label"]]
        for split in table["splits"]:
            seeds = " / ".join(percent(value) for value in row["success"][split]["seeds"])
            cells += [f"{spread(row['success'][split])} ({seeds})", against(row, split)]
            cells += [spread(row["score"][split]), against(row, split, "score_vs_start")] if table["rules"] else []
        rows.append([*cells, row["paper"]])
    return [*heads, spec(table["sandbox"]).paper.head], rows


def cells(table: Mapping[str, Any]) -> str:
    """What stands in the success table."""
    if table["rules"]:
        score = "score = 100 x mean R, 0 where nothing was bought, [95 % interval]"
        return f"success (R = 1) in %, [95 % interval], (each seed); {score}"
    return "success in %, [95 % interval], (each seed)"


def rules(table: Mapping[str, Any]) -> list[str]:
    """The rule policies on the same tasks, and what these share with training."""
    found = table["rules"]
    if not found:
        return []
    heads = [f"rule policy, one session of at most {found['max_steps']} steps per task, no intervals"]
    for split in table["splits"]:
        heads += [f"{short(split)}: success", f"{short(split)}: score", f"{short(split)}: steps"]
    lines = [
        [name, *(f"{row[split][key]:.1f}" for split in table["splits"] for key in ("success", "score", "steps"))]
        for name, row in sorted(found["rows"].items(), key=lambda item: item[1][table["splits"][0]]["score"])
    ]
    shared = "; ".join(f"{short(split)} and train: {text}" for split, text in found["shared_with_train"].items())
    return [grid(heads, lines), f"What splits share, counted over all of their tasks: {shared}."]


def against(row: Row, split: str, what: str = "vs_start", short_words: bool = False) -> str:
    """Difference to the warm start with interval and verdict, or only the verdict's word that matters (above, noise, below)."""
    if what not in row:
        return NONE
    gap = row[what][split]
    word = {ABOVE: "above", INSIDE: "noise", BELOW: "below"}[gap["verdict"]] if short_words else gap["verdict"]
    return f"{spread(gap, signed=True)}: {word}"


def signal_table(table: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Learning speed, gradient noise, and how many updates had no gradient or a clipped one."""
    reference = table["noise_reference"] or "the reference"
    heads = [
        "row",
        "updates to the best baseline's final curve value: median (each seed)",
        f"gradient-norm variance relative to {reference}, scale-free",
        "the same, raw",
        "updates without gradient",
        "updates with the norm clipped",
        "last KL per token",
    ]
    rows = []
    for row in trained(table):
        noise = row["noise"]
        rows.append(
            [
                row["label"],
                speed(row),
                ratio(noise["scale_free"]) if noise else NONE,
                ratio(noise["raw"]) if noise else NONE,
                share(row["zero_gradient"]),
                share(row["norm_clipped"]),
                number(row["last_kl"], ".2g"),
            ]
        )
    return heads, rows


def cost_table(table: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Compute on three axes: returns, environment steps, tokens; and wall seconds, marked."""
    heads = [
        "row",
        "returns per tree: used (planned)",
        "environment steps per update",
        "tokens computed per update",
        "tokens drawn per update",
        "wall seconds per run (machine dependent)",
    ]
    rows = []
    for row in trained(table):
        returns, cost = row["returns_per_tree"], row["cost"]
        spent = row.get("seconds")
        rows.append(
            [
                row["label"],
                f"{returns['used']:.2f} ({returns['planned']})",
                *(number(cost[key], ",.0f") for key in ("env_steps", "computed", "generated")),
                number(sum(spent.values()), ",.0f") if spent else NONE,
            ]
        )
    return heads, rows


def pairs_table(table: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Every pair of rows on the first split."""
    words = {1: "outside the noise", 0: "inside the noise", -1: "outside the noise"}
    split = short(table["splits"][0])
    heads = ["row", "minus row", f"success, {split}: points [95 %]", "verdict"]
    rows = [[pair["a"], pair["b"], spread(pair, signed=True), words[pair["sign"]]] for pair in table["pairs"]]
    if table["rules"]:
        heads += [f"score, {split}: points [95 %]", "verdict by score"]
        for row, pair in zip(rows, table["pairs"], strict=True):
            row += [spread(pair["score"], signed=True), words[pair["score"]["sign"]]]
    return heads, rows


def type_table(table: Mapping[str, Any], split: str) -> tuple[list[str], list[list[str]]]:
    """Success by task type on one split."""
    kinds = list(table["rows"][0]["by_type"][split])
    counts = {kind: table["rows"][0]["by_type"][split][kind]["episodes"] for kind in kinds}
    heads = [short(split), *(f"{kind} ({counts[kind]})" for kind in kinds)]
    return heads, [
        [row["label"], *(percent(row["by_type"][split][kind]["success"]) for kind in kinds)] for row in table["rows"]
    ]


def interval_note(table: Mapping[str, Any]) -> str:
    """What the interval is, and what it is not."""
    few = {1: "With one seed they say nothing about how a second seed would end.", 2: "Two seeds say little about a third."}
    warning = few.get(len(table["seeds"]), "Few seeds say little about a further one: read their own values.")
    return (
        f"Intervals: 95 % percentiles of a paired bootstrap over seeds and tasks ({RESAMPLES} resamples, no correction for the "
        f"number of comparisons). Where all tasks end alike it has no width; that does not make the value certain. {warning}"
    )


def missing(table: Mapping[str, Any]) -> list[str]:
    """The runs that the table lacks."""
    return [f"**Missing runs:** {', '.join(table['missing'])}."] if table["missing"] else []


def findings(table: Mapping[str, Any]) -> list[str]:
    """Sentences that follow from the numbers by the rules of the protocol."""
    split, rows = table["splits"][0], trained(table)
    by_verdict = {word: [row for row in rows if row["vs_start"][split]["verdict"] == word] for word in (ABOVE, BELOW)}
    above, below = by_verdict[ABOVE], by_verdict[BELOW]
    methods = sorted({row["method"] for row in above})
    said = [f"Against the warm start ({short(split)} split), above: {listed(above)}; below: {listed(below)}."]
    if not above:
        measure = " by success" if table["rules"] else ""
        said.append(
            f"No row is above the warm start{measure}: by this measure the comparison says nothing about learning here."
        )
    elif len(methods) < 2:
        said.append(
            f"Only one method is above the warm start on the {short(split)} split ({methods[0]}). The protocol asks for two "
            "before differences between methods mean much; those below are printed all the same."
        )
    else:
        said.append(f"At least two methods are above the warm start: {', '.join(methods)}.")
    for other in table["splits"][1:]:
        there = {word: [row for row in rows if row["vs_start"][other]["verdict"] == word] for word in (ABOVE, BELOW)}
        up, down = listed(there[ABOVE]), listed(there[BELOW])
        said.append(f"On the {short(other)} split, which the protocol does not use for verdicts, above: {up}; below: {down}.")
    if table["rules"]:
        said.append(f"The same by score, above: {listed(by_score(table, ABOVE))}; below: {listed(by_score(table, BELOW))}.")
        parted = [
            f"{pair['a']} minus {pair['b']} {spread(pair['score'], signed=True)}"
            for pair in table["pairs"]
            if pair["score"]["sign"]
        ]
        said.append(f"Pairs of methods outside the noise by score: {'; '.join(parted) or 'none'}. Those below are by success.")
    outside = [pair for pair in table["pairs"] if pair["sign"]]
    for pair in outside:
        high, low = (pair["a"], pair["b"]) if pair["sign"] > 0 else (pair["b"], pair["a"])
        said.append(
            f"Outside the noise: {high} is above {low} ({spread(pair, signed=True)} for {pair['a']} minus {pair['b']})."
        )
    inside = [f"{pair['a']} and {pair['b']}" for pair in table["pairs"] if not pair["sign"]]
    if table["pairs"] and not outside:
        said.append("No difference between two methods is outside the noise; the order of their means is not a ranking.")
    elif inside:
        said.append(f"Inside the noise: {'; '.join(inside)}.")
    for row in rows:
        if row["matched_to"]:
            used = [f"{label} ({returns_of(rows, label):.2f} used)" for label in row["matched_to"]]
            said.append(f"{row['label']} is the baseline at the returns of {' and '.join(used)}.")
    return said


def by_score(table: Mapping[str, Any], verdict: str) -> list[Row]:
    """The rows whose score on the first split is above, or below, the warm start's."""
    return [row for row in trained(table) if row["score_vs_start"][table["splits"][0]]["verdict"] == verdict]


def speed_note(table: Mapping[str, Any]) -> str:
    """What the columns of learning speed and gradient noise are."""
    settings, target = table["settings"], table["target"]
    every = "update" if settings["curve_every"] == 1 else plural(settings["curve_every"], "update")
    panel = f"{settings['curve_tasks']} tasks of the split {settings['curve_split']}, every {every}"
    goal = (
        f"the target is {percent(target['success'])} % ({target['row']})"
        if target
        else "there is no target, since no baseline ends above its start"
    )
    draws = next((row["noise"]["draws"] for row in trained(table) if row["noise"]), 0)
    return (
        f"The curve is success on {panel}; {goal}. One panel's value is a noisy number, so differences of one curve point are "
        f"none. Gradient noise: {draws} gradients of the loss at the frozen warm start, before clipping, on the same tasks for "
        "every row; scale-free divides the variance of the norm by its squared mean. Ratios carry a 95 % bootstrap interval "
        "over draws."
    )


def official(table: Mapping[str, Any]) -> list[str]:
    """The extra rows on the official games, where they were evaluated."""
    found = table["official"]
    if not found:
        return []
    splits = list(found["rows"][START])
    rows = [
        [label, *(rate(found["rows"][label][split]) for split in splits)]
        for label in sorted(found["rows"], key=lambda label: label != START)
    ]
    return [f"## {found['label']}", grid(["row", *(f"{found['label']}: {split}" for split in splits)], rows)]


def rate(score: Mapping[str, Any]) -> str:
    """Success on a number of games."""
    return f"{percent(score['success'])} % of {plural(score['games'], 'game')}"


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
        f"Seeds: {len(table['seeds'])}; intervals are bootstrap intervals, the paper's ± is a standard deviation over 3 seeds.",
        "Returns: the paper compares 13 returns of BPO with 8 of GRPO and RLOO; here both also have rows with as many returns "
        "as branching.",
        "Row `bpo` is the literal reading; what the paper leaves open (steps after a branch point) is broadcast. Row "
        "`bpo_split` is not in the paper.",
        f"Actions are written with {s['policy']['writing']} decoding"
        + (": the model cannot write an inadmissible action." if s["policy"]["writing"] == "constrained" else "."),
        *([f"Not attempted: {words.others}."] if words.others else []),
    ]


def returns_of(rows: Sequence[Row], label: str) -> float:
    """Mean returns per tree that a row used."""
    return next(row["returns_per_tree"]["used"] for row in rows if row["label"] == label)


def trained(table: Mapping[str, Any]) -> list[Row]:
    """All rows but the warm start."""
    return [row for row in table["rows"] if row["label"] != START]


def listed(rows: Sequence[Row]) -> str:
    """Labels, or "none"."""
    return ", ".join(row["label"] for row in rows) or "none"


def short(split: str) -> str:
    """seen or unseen, for the splits named like ALFWorld's; their games are other games."""
    return split.removeprefix("valid_")


def spread(value: Mapping[str, float], signed: bool = False) -> str:
    """A share with its interval, in percent."""
    form = "+.1f" if signed else ".1f"
    return f"{100 * value['value']:{form}} [{100 * value['low']:{form}}, {100 * value['high']:{form}}]"


def ratio(value: Mapping[str, float | None]) -> str:
    """A ratio with its interval."""
    return f"{number(value['value'], '.2f')} [{number(value['low'], '.2f')}, {number(value['high'], '.2f')}]"


def speed(row: Row) -> str:
    """Median and seeds of the updates to the target."""
    if row["speed"] is None:
        return NONE
    told = [number(value, ".0f", "not reached") for value in row["speed"]["seeds"].values()]
    return f"{number(row['speed']['median'], '.0f', 'not reached')} ({' / '.join(told)})"


def percent(value: float) -> str:
    """A share in percent, one decimal."""
    return f"{100 * value:.1f}"


def share(value: float | None) -> str:
    """A share in whole percent."""
    return NONE if value is None else f"{100 * value:.0f} %"


def number(value: float | None, form: str, none: str = NONE) -> str:
    """A formatted number, or a word where there is none."""
    return none if value is None else format(value, form)


def plural(count: int, noun: str) -> str:
    """ "1 seed", "3 seeds"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
