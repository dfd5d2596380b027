"""The generated parts of README and of the documentation: tables of results and of methods, copied between markers.

A page has `<!-- table: NAME -->` and `<!-- /table -->`; NAME is a Markdown file, a `table.json` (shown in brief), or one
of TABLES_OF_CODE.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bpo.errors import BadInput
from bpo.exact.by_method import exact_row, noise, relative_bias
from bpo.files import write_atomically
from bpo.methods import METHODS, SELECTORS, Method, build
from reproduce.markdown import MEASURES, grid
from reproduce.plan import ROOT
from reproduce.words import NONE, number, plural, short, spread, trained

BLOCK = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- /table -->", re.DOTALL)


def filled(text: str, page: str, root: Path = ROOT) -> tuple[str, list[str]]:
    """The text with every marked block made anew, and the names of the blocks; BadInput where a source is absent."""
    names: list[str] = []

    def fill(match: re.Match) -> str:
        names.append(match[1])
        return f"<!-- table: {match[1]} -->\n{_content(match[1], page, root).strip()}\n<!-- /table -->"

    return BLOCK.sub(fill, text), names


def fill_all(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Fill README and every page of docs/ in place; yields (page, name of a block)."""
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        page = str(path.relative_to(root))
        text, names = filled(path.read_text(), page, root)
        if names:
            write_atomically(path, text)
        yield from ((page, name) for name in names)


def brief(table: Mapping[str, Any]) -> str:
    """The table in a few columns: what an update used, the area of the last comparison a row is in, and final success."""
    first, last = table["splits"][0], table["splits"][-1]
    heads = ["row", "returns per task", "steps per update", "area, %", "compared at", f"{short(first)} at the end, %"]
    rows = []
    for row in trained(table):
        one = next((one for one in reversed(table["sets"]) if row["label"] in one["areas"]), None)
        returns = row["returns_per_tree"]["used"]
        name = NONE if one is None else one["name"] if one["axis"] != "update" else f"{returns:.0f} returns"
        area = spread(one["areas"][row["label"]]) if one else NONE
        used = [f"{returns:.1f}", number(row["cost"]["env_steps"], ",.0f")]
        rows.append([row["label"], *used, area, name, spread(row["success"][first])])
    start = table["rows"][0]["success"]
    outside = [_told(pair) for pair in table["pairs"] if pair["sign"]]
    said = (
        f"{plural(len(table['seeds']), 'seed')} with 95 % intervals; {table['scale']}. Area: mean success while training, on "
        f"the tasks trained on. The warm start has {spread(start[first])} there and {spread(start[last])} on {short(last)} "
        f"tasks. Of {len(table['pairs'])} differences by area or final success, outside the noise after Holm's correction: "
        f"{'; '.join(outside) or 'none'}."
    )
    return f"{grid(heads, rows)}\n\n{said}"


def _told(pair: Mapping[str, Any]) -> str:
    return f"{pair['a']} minus {pair['b']}, {MEASURES[pair['measure']]} at {pair['set']}: {spread(pair, signed=True)}"


def methods() -> str:
    """The table of methods: name, what it does, whether its gradient is biased, and source."""
    heads = ["method", "what it does", "gradient", "source"]
    rows = [[f"`{name}`", row.summary, row.bias.split()[0].strip(":"), row.citation] for name, row in METHODS.items()]
    return grid(heads, rows)


def methods_in_brief() -> str:
    """The table for a page that has little room: name, whether its gradient is biased, and the first source."""
    rows = [[f"`{name}`", row.bias.split()[0].strip(":"), row.citation.split(";")[0]] for name, row in METHODS.items()]
    return grid(["method", "gradient", "source"], rows)


def methods_in_full() -> str:
    """A section for every method of the table: what it does, its bias, how far it follows its source, and its parameters."""
    return "\n\n".join(_section(name, row) for name, row in METHODS.items())


def _section(name: str, row: Method) -> str:
    facts = {
        "Source": row.citation,
        "Known from": row.known_from,
        "How it follows its source": row.fidelity,
        "Gradient": row.bias,
    }
    facts["Counted as acting"] = "; ".join(f"`{key}`, {one.meaning}" for key, one in build(name).mechanism.items())
    parameters = [
        [f"`{key}`", f"`{parameter.default}`", parameter.allowed, parameter.meaning]
        for key, parameter in row.parameters.items()
    ]
    parts = [
        f"## {name}",
        f"{row.summary[:1].upper()}{row.summary[1:]}.",
        *(f"**{what}:** {said}." for what, said in facts.items()),
    ]
    return "\n\n".join([*parts, grid(["parameter", "default", "values", "meaning"], parameters)])


def selectors() -> str:
    """The table of selectors: name, whether it is causal, where it branches, and what its number is."""
    rows = [
        [
            f"`{name}`",
            "causal" if row.causal else "post hoc",
            row.meaning,
            f"{row.value.meaning} ({row.value.allowed})" if row.value else NONE,
        ]
        for name, row in SELECTORS.items()
    ]
    return grid(["selector", "decides", "branches", "`selector_value`"], rows)


def methods_exactly() -> str:
    """Bias, direction and noise of every method by enumeration, on small trees without and with early ends."""
    heads = [
        "method",
        "causal",
        "bias",
        "cosine",
        "noise per return",
        "noise per step",
        "bias, early ends",
        "cosine, early ends",
    ]
    rows = []
    for name in METHODS:
        row, causal = exact_row(name), "yes" if build(name).growth.causal else "no"
        if row.plain is None or row.ending is None:
            rows.append([f"`{name}`", causal, *[f"n/a: {row.reason}"], *[NONE] * 5])
            continue
        spread = [f"{noise(row.plain) * cost:.1f}" for cost in (row.plain.returns, row.plain.env_steps)]
        first, second = ([f"{relative_bias(one):.2f}", f"{one.cosine:.3f}"] for one in (row.plain, row.ending))
        rows.append([f"`{name}`", causal, *first, *spread, *second])
    return grid(heads, rows)


def methods_equal() -> str:
    """Rows that have one direction at the policy that acted, by what factor, and why."""
    pairs = [(name, other, reason) for name, row in METHODS.items() for other, reason in row.equals.items()]
    return grid(["row", "has the direction of", "factor, and why"], [[f"`{a}`", f"`{b}`", reason] for a, b, reason in pairs])


TABLES_OF_CODE = {
    "methods": methods,
    "methods-in-brief": methods_in_brief,
    "methods-in-full": methods_in_full,
    "methods-exactly": methods_exactly,
    "methods-equal": methods_equal,
    "selectors": selectors,
}


def _content(name: str, page: str, root: Path) -> str:
    if name in TABLES_OF_CODE:
        return TABLES_OF_CODE[name]()
    source = root / name
    if not source.is_file():
        raise BadInput(f"{page} wants {name}, which does not exist: run the preset first")
    return brief(json.loads(source.read_text())) if source.suffix == ".json" else source.read_text()
