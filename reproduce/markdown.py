"""The table as Markdown, and what the numbers say in words; nothing is computed here that is not in the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpo.sandboxes import spec
from reproduce.escaping import with_escaped_labels
from reproduce.findings import deviations, findings
from reproduce.plan import START
from reproduce.tables import ABOVE, BELOW, INSIDE
from reproduce.words import NONE, Row, number, percent, plural, ratio, share, short, spread, trained

OUTCOMES = {1: "above", 0: "noise", -1: "below"}
MEASURES = {"area": "area under the curve", "final": "final success"}
# What the curves of a comparison are drawn against, and its unit.
AXES = {
    "update": ("updates", "updates"),
    "env_steps": ("environment steps", "steps"),
    "computed": ("tokens computed", "tokens"),
}


def markdown(table: Mapping[str, Any]) -> str:
    """The whole of table.md."""
    table = with_escaped_labels(table)
    parts = [
        f"# {table['preset']} on {table['sandbox']}: {table['scale']}",
        head(table),
        *missing(table),
        "## What the numbers say",
        "\n".join(f"* {sentence}" for sentence in findings(table)),
        *(
            part
            for one in table["sets"]
            for part in (f"## At {one['name']}", grid(*set_table(table, one)), set_note(table, one))
        ),
        "## After the last update",
        grid(*success_table(table)),
        f"Cells: {cells(table)}. {interval_note(table)}",
        *rules(table),
        "## Gradients",
        grid(*signal_table(table)),
        signal_note(table),
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
    """What README shows: the scale, a table for every comparison, final success, and what the numbers say."""
    table = with_escaped_labels(table)
    parts = [
        f"**{table['scale'][:1].upper()}{table['scale'][1:]}.** {head(table)}",
        *(part for one in table["sets"] for part in (f"**At {one['name']}**", grid(*set_table(table, one)))),
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
    pool = settings.get("train_tasks", 0)
    own = "each with training and evaluation tasks of its own" if pool else "with the same tasks"
    start = settings["warm_start"] or {}
    drawn = f" from a pool of {pool}" if pool else ""
    own += " and a warm start of its own" if start.get("per_seed") else ""
    return (
        f"Tasks: {table['games']}. Policy: {policy['kind']}, {policy['writing']} writing, actions sampled at temperature "
        f"{policy['temperature']:g}. {plural(len(table['seeds']), 'seed')}, {own}. "
        f"Training: {plural(settings['updates'], 'update')} of {plural(settings['tasks_per_update'], 'task')}{drawn}. "
        f"Evaluation tasks: {tasks}, {plural(settings['eval_samples'], 'episode')} each, last checkpoint. "
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
            seeds = " / ".join(f"{100 * value:.0f}" for value in row["success"][split]["seeds"])
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


def set_table(table: Mapping[str, Any], one: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The rows of a comparison: area under the curve, difference to the reference, and what an update really used."""
    members = [row for row in trained(table) if row["label"] in one["areas"]]
    reference = table["reference"] if table["reference"] in one["areas"] else members[0]["label"]
    heads = ["row", "area under the curve, %", f"area minus {reference}", f"final success minus {reference}"]
    heads += ["tasks", "returns per task", "environment steps", "tokens computed"]
    rows = []
    for row in members:
        label, found = row["label"], one["areas"][row["label"]]
        gaps = [pair_of(table, measure, one["name"], label, reference) for measure in ("area", "final")]
        used = [number(row["cost"][key], ",.0f") for key in ("env_steps", "computed")]
        rows.append(
            [
                label,
                spread(found),
                *(f"{spread(gap, signed=True)}: {OUTCOMES[gap['sign']]}" if gap else NONE for gap in gaps),
                str(row["cost"]["tasks"]),
                f"{row['returns_per_tree']['used']:.2f}",
                *used,
            ]
        )
    return heads, rows


def set_note(table: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    """What the area of a comparison is."""
    settings = table["settings"]
    axis, unit = AXES[one["axis"]]
    samples = plural(settings.get("curve_samples", 1), "episode")
    return (
        f"The curve is success on {settings['curve_tasks']} tasks of the split {settings['curve_split']}, {samples} each, "
        f"every {plural(settings['curve_every'], 'update')}. The area is its mean against {axis}, from 0 to "
        f"{one['budget']:,.0f} {unit}, which every run reached. Differences are paired by seed; above and below are verdicts "
        "after Holm's correction over all pairs of all comparisons. The last four columns are what an update used, mean over "
        "updates and seeds."
    )


def pair_of(table: Mapping[str, Any], measure: str, name: str, a: str, b: str) -> dict[str, Any] | None:
    """The difference a minus b of a comparison, whichever way round it was computed; None where there is none."""
    for pair in table["pairs"]:
        if (pair["measure"], pair["set"]) == (measure, name):
            if (pair["a"], pair["b"]) == (a, b):
                return pair
            if (pair["a"], pair["b"]) == (b, a):
                ends = {"value": -pair["value"], "low": -pair["high"], "high": -pair["low"], "sign": -pair["sign"]}
                return {**pair, "a": a, "b": b, **ends}
    return None


def signal_table(table: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Gradient noise at the warm starts, and how many updates had no gradient or a clipped one."""
    heads = [
        "row",
        "noise: trace(Cov) / |mean|², before clipping",
        "after clipping",
        "cosine of two gradients",
        "updates without gradient",
        "updates with the norm clipped",
        "median norm",
        "last KL per token",
    ]
    rows = []
    for row in trained(table):
        noise = row["noise"]
        rows.append(
            [
                row["label"],
                *(ratio(noise[key]) if noise else NONE for key in ("noise", "clipped_noise", "cosine")),
                share(row["zero_gradient"]),
                share(row["norm_clipped"]),
                number(row["median_norm"], ".3g"),
                number(row["last_kl"], ".2g"),
            ]
        )
    return heads, rows


def cost_table(table: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Compute on three axes: returns, environment steps, tokens; and wall seconds, marked."""
    heads = [
        "row",
        "tasks per update",
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
                str(cost["tasks"]),
                f"{returns['used']:.2f} ({returns['planned']})",
                *(number(cost[key], ",.0f") for key in ("env_steps", "computed", "generated")),
                number(sum(spent.values()), ",.0f") if spent else NONE,
            ]
        )
    return heads, rows


def pairs_table(table: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Every pair of rows of every comparison, by both measures."""
    heads = ["comparison", "measure", "row", "minus row", "points [95 %]", "p, Holm's", "verdict"]
    return heads, [
        [
            pair["set"],
            MEASURES[pair["measure"]],
            pair["a"],
            pair["b"],
            spread(pair, signed=True),
            number(pair["adjusted"], ".2g"),
            "outside the noise" if pair["sign"] else "inside the noise",
        ]
        for pair in table["pairs"]
    ]


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
    if len(table["seeds"]) < 2:
        return "There is one seed, so there are no intervals: nothing is said about how another would end."
    own = "so they hold another seed" + (", other tasks and another warm start" if _own(table) else ", given the same tasks")
    return (
        f"Intervals: 95 % t intervals over {plural(len(table['seeds']), 'seed')}, {own}. Verdicts against the warm start are "
        "paired by seed, with Holm's correction over the rows of a split."
    )


def _own(table: Mapping[str, Any]) -> bool:
    settings = table["settings"]
    return bool(settings.get("train_tasks")) and bool((settings["warm_start"] or {}).get("per_seed"))


def missing(table: Mapping[str, Any]) -> list[str]:
    """The runs that the table lacks."""
    return [f"**Missing runs:** {', '.join(table['missing'])}."] if table["missing"] else []


def signal_note(table: Mapping[str, Any]) -> str:
    """What the columns of gradient noise are."""
    found = next((row["noise"] for row in trained(table) if row["noise"]), None)
    if found is None:
        return "Gradient noise was not measured."
    bound = table["settings"]["max_grad_norm"]
    return (
        f"Gradient noise: {found['draws']} gradients of {plural(found['tasks'], 'task')} over all seeds, at the frozen warm "
        "starts and on the same tasks for every row. Noise is how many gradients have to be averaged until signal and noise "
        "are equally long; its signal and spread are unbiased estimates from pairs of gradients (theory.md, M1), averaged over "
        f"the seeds before they are divided. Clipping is at the norm {bound:g}; it changes no cosine. AdamW divides by the "
        "recent size of the gradient, so that neither a common factor of the loss nor a bound that is always active changes "
        "how far a step goes; what is left of a method's gradient is its direction, which the cosine measures."
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
