"""Lines are cut where files cut them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from bpo.files import lines
from bpo.train import read_metrics


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))), st.booleans())
def test_lines_come_back_as_they_were_joined(parts, ended):
    text = "".join(f"{part}\n" for part in parts)
    assert lines(text) == parts
    if parts and parts[-1] and not ended:
        assert lines(text.removesuffix("\n")) == parts


def test_metrics_may_hold_every_separator_that_json_allows(tmp_path):
    rows = [{"update": 1, "note": "a\u2028b\u2029c\x85d"}, {"update": 2, "note": ""}]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    assert read_metrics(path) == rows
