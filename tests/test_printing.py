"""Text of any origin in everything that is printed: it is shown as the signs that it is, and a terminal obeys none of it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from places import ROOT
from rich.console import Console

from bpo import cli_show, tree_log
from bpo.credit import bpo_split
from bpo.printing import bars, console, one_line, printable, say, show_table, spinner, tell
from bpo.viz import plots
from reproduce import driver
from reproduce.__main__ import show_plan
from reproduce.markdown import markdown, summary
from reproduce.plan import make_plan

LABELS = [
    "rloo [/N13]",
    "bpo [gap=2]",
    "[red]a[/red]",
    "[link=file:///etc/passwd]b[/link]",
    ":warning: c",
    "a|b",
    "*d* _e_ `f` ~g~ <h> &amp; $i$ \\j",
    "<script>alert(1)</script> k",
    "[l](javascript:1)",
    "![m](n)",
    "_o",
    "__0__",
    "1e5 ≥ π 漢字",
]
# What a preset may name a row; what else text can hold reaches the terminal from sandboxes and files.
labels = st.one_of(st.sampled_from(LABELS), st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=25))
TABLE = json.loads((ROOT / "results" / "quick" / "table.json").read_text())


def wide() -> Console:
    return console(width=2_000, file=io.StringIO())


def squeezed(text: str) -> str:
    return "".join(text.split())


def with_label(label: str) -> dict:
    """A table that was really made, with one row under another label wherever it stands."""
    former = TABLE["rows"][1]["label"]

    def changed(value):
        if isinstance(value, dict):
            return {label if key == former else key: changed(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [changed(inner) for inner in value]
        return label if value == former else value

    return changed(TABLE)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40))
def test_a_terminal_obeys_nothing_that_is_printed(text):
    for shown in (printable(text), one_line(text)):
        assert all(sign.isprintable() or sign in "\n\t" for sign in shown)
    assert printable(text) == text or not text.replace("\n", "").replace("\t", "").isprintable()
    out = wide()
    show_table([text], [[text]], title=text, on=out)
    tell(out, text)
    assert "\x1b" not in out.file.getvalue()
    assert squeezed(printable(text)) in squeezed(out.file.getvalue())


def test_an_escape_is_said_and_not_obeyed(capsys):
    say("a\x1b[2Jb\x07c\rd\x9be")
    assert capsys.readouterr().out == "a\ufffd[2Jb\ufffdc\ufffdd\ufffde\n"


@pytest.mark.parametrize("label", LABELS)
def test_progress_shows_a_label_as_it_is(label):
    out = wide()
    progress = bars(32, out)
    progress.add_task(label, total=1)
    out.print(progress.get_renderable())
    with spinner(label, out) as status:
        out.print(status.renderable)
    assert out.file.getvalue().count(label) >= 2


@settings(deadline=None, max_examples=60)
@given(labels)
def test_the_printed_table_of_a_preset_shows_a_label_as_it_is(label):
    out = wide()
    driver._print(with_label(label), out)
    text = squeezed(out.file.getvalue())
    assert text.count(squeezed(label)) >= 2


class _Cells(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.cells, self.tags, self.inside = [], set(), False

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data


@settings(deadline=None, max_examples=60)
@given(labels)
def test_the_markdown_table_shows_a_label_as_it_is(label):
    table = with_label(label)
    for text in (markdown(table), summary(table)):
        html = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)
        page = _Cells()
        page.feed(html)
        assert label in page.cells
        assert not page.tags & {"a", "img", "em", "del", "script", "h", "i"}
        # GitHub reads formulas between dollars.
        assert not re.search(r"(?<!\\)\$", text)


@pytest.mark.parametrize("label", LABELS)
def test_the_plan_shows_a_label_as_it_is(label, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    preset = yaml.safe_load((Path(cli_show.__file__).parent / "presets" / "smoke.yaml").read_text())
    preset["sweep"] |= {"rows": [{"label": label, "method": "rloo"}], "reference": label}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(preset, allow_unicode=True))
    plan = make_plan(str(tmp_path / "mine.yaml"), "toy", tmp_path / "runs", tmp_path / "results")
    show_plan(plan, [label])
    assert label in capsys.readouterr().out


@pytest.mark.parametrize("label", [*LABELS, "a\x1b[31mb", "c\rd", "$\\frac{$"])
def test_bpo_show_lists_and_draws_a_task_as_it_is(label, tree, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    (credit,) = bpo_split([tree])
    step = replace(tree.steps[1], decision=replace(tree.steps[1].decision, action=label))
    named = replace(tree, task=label, steps=(None, step, *tree.steps[2:]))
    record = tree_log.SavedTree(1, "bpo", named, (f"Task: {label}",) + (None,) * (len(tree) - 1), credit)
    tree_log.append(tmp_path / tree_log.FILE, [record])
    for number in (None, 0):
        cli_show.show(tmp_path, number)
        out = capsys.readouterr().out
        assert one_line(label) in out
        assert "\x1b" not in out
        assert "\r" not in out


@pytest.mark.parametrize("label", [*LABELS, "$\\frac{$ a", "$x$ and $y$"])
def test_figures_show_a_label_as_it_is(label):
    curves = plots.learning_curves({label: [[(0, 0.1), (1, 0.2)]]}, xlabel=label)
    intervals = plots.intervals({label: (1.0, 0.5, 2.0)}, xlabel=label)
    for figure in (curves, intervals):
        assert plots.png(figure).startswith(b"\x89PNG")
    (entry,) = curves.axes[0].get_legend().get_texts()
    (tick,) = intervals.axes[0].get_yticklabels()
    for text in (entry, tick):
        # Where dollars are left to read, they are no formula's.
        assert text._preprocess_math(text.get_text()) == (text.get_text().replace(r"\$", "$"), False)
        assert text.get_text().replace(r"\$", "$").strip("\u200a") == label
