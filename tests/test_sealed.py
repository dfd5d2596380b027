"""What is read again: a byte that has changed, a cut and a missing file are noticed, and what can be made again is."""

import contextlib
import json
from dataclasses import replace

import pytest
import torch

from bpo import checkpoint, experiment, tree_log
from bpo.config import load_preset
from bpo.errors import BadInput
from bpo.policies.tabular import TabularPolicy
from bpo.sandboxes.codefix import bugs
from bpo.sandboxes.codefix.problems import CodeProblem
from bpo.sealed import (
    DIGESTS,
    Damaged,
    append_row,
    check_folder,
    is_whole,
    read_record,
    read_rows,
    read_sealed,
    seal_folder,
    to_row,
    write_record,
    write_sealed,
)
from bpo.train import Trainer, read_metrics


def config(method="rloo", **settings):
    preset = load_preset("smoke")
    settings = {"updates": 4, "lr": 0.1, "checkpoint_every": 1, "curve_every": 0, **settings}
    return replace(preset, settings=replace(preset.settings, **settings)).run(method, "toy", 0)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def harms(data: bytes, every: int = 1):
    """The content with one bit flipped at every so many places, and cut there."""
    for place in range(0, len(data), every):
        yield flipped(data, place)
        yield data[:place]
    yield data + b"x"


def test_no_flipped_bit_and_no_cut_of_a_sealed_file_is_accepted(tmp_path):
    path = tmp_path / "x"
    for data in (b"", b"some bytes \x00\xff\n" * 5):
        write_sealed(path, data)
        assert read_sealed(path) == data
        for harm in harms(path.read_bytes()):
            path.write_bytes(harm)
            with pytest.raises(Damaged, match="x is damaged"):
                read_sealed(path)


def test_no_flipped_bit_and_no_cut_of_a_record_changes_it(tmp_path):
    """Blanks between the fields may change; what they say may not."""
    path, record = tmp_path / "x.json", {"b": (1, 2.5, float("nan")), "a": {"c": "ä", "1": None}}
    write_record(path, record)
    told = {"b": [1, 2.5, None], "a": {"c": "ä", "1": None}}
    assert read_record(path) == told
    for harm in harms(path.read_bytes()):
        path.write_bytes(harm)
        with contextlib.suppress(Damaged):
            assert read_record(path) == told


def test_a_damaged_row_hides_no_later_one(tmp_path):
    path, rows = tmp_path / "rows.jsonl", [{"update": number, "x": number / 3} for number in range(5)]
    for row in rows:
        append_row(path, row)
    whole = path.read_bytes()
    assert read_rows(path) == rows
    lines = whole.splitlines(keepends=True)
    for place in range(len(whole) - len(lines[-1])):
        path.write_bytes(flipped(whole, place))
        with pytest.raises(Damaged, match=r"rows.jsonl, line \d is damaged"):
            read_rows(path)
    # What a kill leaves of the last line is no damage.
    for cut in range(1, len(lines[-1])):
        path.write_bytes(whole[:-cut])
        assert read_rows(path) == (rows if cut == 1 else rows[:-1])
    path.write_bytes(flipped(whole, len(whole) - 20))
    with pytest.raises(Damaged, match="line 5 is damaged"):
        read_rows(path)


def test_a_folder_knows_what_it_held(tmp_path):
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_text("a")
    (folder / "deep" / "b").write_text("b")
    (folder / "link").symlink_to("a")
    assert not is_whole(folder)
    seal_folder(folder)
    check_folder(folder)
    for change, told in (
        (lambda: (folder / "a").write_text("c"), "a has another digest"),
        (lambda: (folder / "deep" / "b").unlink(), "deep/b is missing"),
        (lambda: (folder / "new").write_text(""), "new was not there"),
        (lambda: ((folder / "link").unlink(), (folder / "link").symlink_to("deep")), "link has another digest"),
        (lambda: (folder / DIGESTS).write_text("{}"), "digests.json is damaged"),
        (lambda: (folder / DIGESTS).unlink(), "is not whole"),
    ):
        seal_folder(folder)
        change()
        with pytest.raises(Damaged, match=told):
            check_folder(folder)


def test_a_flipped_bit_in_a_checkpoint_is_one_sentence_and_the_one_before_is_used(tmp_path):
    run = config()
    Trainer(run, tmp_path / "whole").run()
    Trainer(run, tmp_path / "run").run()
    latest = checkpoint.paths(tmp_path / "run")[-1]
    whole = latest.read_bytes()
    for harm in harms(whole, 997):
        latest.write_bytes(harm)
        with pytest.raises(Damaged, match=r"checkpoint-000004.pt is damaged .* --checkpoint previous"):
            checkpoint.load(tmp_path / "run", "latest")
    again = Trainer(run, tmp_path / "run")
    again.run("previous")
    assert latest.read_bytes() != harm
    table = {where: torch.load(tmp_path / where / "policy" / "table.pt", weights_only=True) for where in ("run", "whole")}
    assert all(torch.equal(row, table["whole"][state]) for state, row in table["run"].items())


def test_a_damaged_row_of_metrics_or_trees_stops_a_resumed_run_and_its_result(tmp_path):
    run = config()
    for name, where in (("metrics.jsonl", "line 2"), (tree_log.FILE, "line 2")):
        folder = tmp_path / name
        Trainer(run, folder).run()
        path = folder / name
        whole = path.read_bytes()
        second = whole.index(b"\n") + 20
        path.write_bytes(flipped(whole, second))
        with pytest.raises(BadInput, match=f"{name}, {where} is damaged"):
            Trainer(run, folder).run()
        path.write_bytes(whole)
        Trainer(run, folder).run()


def test_a_row_that_the_checkpoint_has_seen_and_the_file_lacks_is_noticed(tmp_path):
    """As after a power failure that took the end of one file and not the other."""
    run = config()
    Trainer(run, tmp_path).run()
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    assert [row["update"] for row in read_metrics(path)] == [1, 2, 3]
    with pytest.raises(Damaged, match=r"metrics.jsonl lacks update 4 of the 4"):
        Trainer(run, tmp_path).run()
    assert Trainer(run, tmp_path).run("previous")
    assert [row["update"] for row in read_metrics(path)] == [1, 2, 3, 4]


def test_a_saved_tree_with_a_changed_number_is_refused_and_one_of_earlier_runs_is_read(tmp_path):
    Trainer(config(), tmp_path).run()
    path = tmp_path / tree_log.FILE
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1].replace('"position":[', '"position":[ 1', 1) + "".join(lines[2:]))
    with pytest.raises(BadInput, match=r"line 2( is damaged|: not JSON)"):
        tree_log.read(tmp_path)
    earlier = json.loads(lines[0])
    del earlier["sha256"]
    path.write_text(json.dumps(earlier) + "\n")
    assert tree_log.read(tmp_path)[0].update == 1


def test_a_damaged_result_is_made_again_from_the_last_checkpoint(tmp_path):
    run = config()
    first = experiment.run(run, tmp_path)
    path = tmp_path / experiment.RESULT
    whole = path.read_bytes()
    for harm in harms(whole, 501):
        path.write_bytes(harm)
        assert experiment.finished(run, tmp_path) is None
    path.write_bytes(whole)
    assert experiment.finished(run, tmp_path) is not None
    (tmp_path / "result.json.sha256").unlink()
    assert experiment.finished(run, tmp_path) is None
    assert experiment.run(run, tmp_path)["evaluation"] == first["evaluation"]
    assert experiment.finished(run, tmp_path) is not None


def test_a_saved_policy_knows_its_files(tmp_path):
    TabularPolicy({"s": [0.0, 1.0]}).save(tmp_path / "p")
    check_folder(tmp_path / "p")
    table = tmp_path / "p" / "table.pt"
    table.write_bytes(flipped(table.read_bytes(), 300))
    with pytest.raises(Damaged, match=r"table.pt has another digest"):
        check_folder(tmp_path / "p")


def test_a_damaged_cache_of_bugs_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("BPO_CACHE", str(tmp_path))
    problem = CodeProblem("p", "f", "text", "def f(x):\n    return x + 1\n", "assert f(1) == 2\n")
    bug = bugs.Bug("p", ("operator",), "def f(x):\n    return x - 1\n", 1.0)
    made = []
    monkeypatch.setattr(bugs, "_made", lambda *_: made.append(1) or [bug])
    assert bugs.generated([problem], "easy", None) == bugs.generated([problem], "easy", None) == [bug]
    assert len(made) == 1
    (path,) = (tmp_path / "codefix").glob("*.json")
    whole = path.read_bytes()
    for number, harm in enumerate((whole[: len(whole) // 2], b"", whole.replace(b"- 1", b"- 2")), start=2):
        path.write_bytes(harm)
        assert bugs.generated([problem], "easy", None) == [bug]
        assert len(made) == number
        assert path.read_bytes() == whole


def test_rows_are_lines_whatever_is_in_them(tmp_path):
    row = {"text": "a\u2028b\x85c\nd\r", "x": 1e-300}
    (tmp_path / "x").write_text(to_row(row) * 2)
    assert read_rows(tmp_path / "x") == [row, row]
