"""The generated parts of README and of the documentation."""

from __future__ import annotations

import json

import pytest
from places import ROOT

from bpo.errors import BadInput
from bpo.methods import METHODS, SELECTORS
from reproduce import pages

SHOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_generated_parts_are_what_the_code_generates(path):
    """Numbers and methods are never typed; `python -m reproduce pages` makes them anew."""
    text, _ = pages.filled(path.read_text(), path.name)
    assert text == path.read_text(), "python -m reproduce pages"


def test_readme_has_a_table_of_results_and_one_of_methods():
    _, names = pages.filled((ROOT / "README.md").read_text(), "README.md")
    assert names == ["results/quick/table.json", "methods-in-brief"]


def test_a_page_shows_what_was_generated_and_nothing_else(tmp_path):
    text = "before\n<!-- table: results/t.md -->\nold 12 %\n<!-- /table -->\nafter\n"
    with pytest.raises(BadInput, match=r"README\.md wants results/t\.md, which does not exist"):
        pages.filled(text, "README.md", tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "t.md").write_text("new 34 %\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(text)
    assert list(pages.fill_all(tmp_path)) == [("README.md", "results/t.md")]
    shown = "before\n<!-- table: results/t.md -->\nnew 34 %\n<!-- /table -->\nafter\n"
    assert (tmp_path / "README.md").read_text() == shown


def test_the_brief_table_has_every_trained_row_with_its_area_and_success():
    table = json.loads((ROOT / "results" / "quick" / "table.json").read_text())
    lines = pages.brief(table).splitlines()
    rows = table["rows"][1:]
    assert len(lines) == 2 + len(rows) + 2
    for row, line in zip(rows, lines[2:], strict=False):
        assert line.startswith(f"| {row['label']} | {row['returns_per_tree']['used']:.1f} | ")
        areas = [one["areas"][row["label"]]["value"] for one in table["sets"] if row["label"] in one["areas"]]
        assert any(f"| {100 * area:.1f} [" in line for area in areas)
        assert f"| {100 * row['success']['pool']['value']:.1f} [" in line
    assert table["scale"] in lines[-1]
    outside = [pair for pair in table["pairs"] if pair["sign"]]
    assert all(f"{pair['a']} minus {pair['b']}" in lines[-1] for pair in outside)


def test_every_method_has_a_line_and_a_section_with_all_of_its_parameters():
    lines, sections = pages.methods().splitlines(), pages.methods_in_full()
    assert [line.split("`")[1] for line in lines[2:]] == list(METHODS)
    for name, method in METHODS.items():
        assert f"## {name}\n" in sections
        assert f"**Gradient:** {method.bias}." in sections
        for key, parameter in method.parameters.items():
            assert f"| `{key}` | `{parameter.default}` | {parameter.allowed} |" in sections


def test_every_selector_says_whether_it_is_causal():
    lines = pages.selectors().splitlines()[2:]
    assert [line.split("|")[2].strip() == "causal" for line in lines] == [row.causal for row in SELECTORS.values()]
