"""`bpo show`: what a user sees of a run's trees, and one sentence with exit code 2 where it cannot be shown."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from bpo import tree_log
from bpo.cli_show import LEGEND
from bpo.config import load_preset
from bpo.train import Trainer
from bpo.viz.text import tree_lines


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "a-run"
    Trainer(load_preset("smoke").run("bpo_split", "toy", 0), folder).run()
    return folder


def show(*arguments, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "bpo", "show", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def heading(one) -> list[str]:
    """The task in the sandbox's words, where it has any."""
    return [line for line in (one.observations[0] or "").splitlines()[:1] if line.startswith("Task: ")]


def test_without_a_number_the_trees_are_listed(run):
    done = show(run)
    assert done.returncode == 0
    kept = tree_log.read(run)
    rows = [line.split() for line in done.stdout.splitlines()[1:-1]]
    assert [(int(row[0]), int(row[1]), int(row[2]), row[-1]) for row in rows] == [
        (number, one.update, len(one.tree.leaves), one.tree.task) for number, one in enumerate(kept)
    ]
    assert done.stdout.splitlines()[-1] == "8 trees; --tree NUMBER shows one"


def test_a_tree_is_text_whole_where_it_goes_into_a_pipe(run):
    one = tree_log.read(run)[3]
    done = show(run, "--tree", 3)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [*heading(one), *tree_lines(one.tree, one.credit), "", *LEGEND]


def test_in_a_terminal_no_line_is_broken(run):
    reading, writing = pty.openpty()
    command = [sys.executable, "-m", "bpo", "show", str(run), "--tree", "3"]
    done = subprocess.run(command, stdout=writing, check=False, env={**os.environ, "COLUMNS": "44"})
    os.close(writing)
    written = b""
    while chunk := _read(reading):
        written += chunk
    os.close(reading)
    one = tree_log.read(run)[3]
    assert done.returncode == 0
    assert written.decode().splitlines() == [*heading(one), *tree_lines(one.tree, one.credit, 44), "", *LEGEND]


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 65536)
    except OSError:  # what Linux says at the end of a terminal
        return b""


def test_page_and_picture_are_written(run, tmp_path):
    html, png = tmp_path / "new" / "tree.html", tmp_path / "tree.png"
    done = show(run, "--tree", 0, "--html", html, "--png", png)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [f"wrote {html}", f"wrote {png}"]
    assert html.read_text().startswith("<!DOCTYPE html>")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_shown_is_one_sentence_and_exit_code_2(run, tmp_path):
    empty = tmp_path / "begun"
    empty.mkdir()
    (empty / tree_log.FILE).write_text("")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / tree_log.FILE).write_text("{}\n")
    for arguments, said in (
        ((run, "--tree", 8), "there is no tree 8 in"),
        ((run, "--tree", 8), "(known: from 0 to 7)"),
        ((run, "--tree", -1), "(known: from 0 to 7)"),
        ((empty, "--tree", 0), "none yet: the run has not finished an update"),
        ((run, "--html", tmp_path / "tree.html"), "--html needs the number of a tree"),
        ((run, "--tree", 0, "--png", tmp_path), "is a folder or a device; it must be the name of a file"),
        ((run, "--tree", 0, "--png", "/proc/tree.png"), "--png '/proc/tree.png' cannot be written: "),
        ((run, "--tree", 0, "--html", broken / tree_log.FILE / "tree.html"), "is no folder that can be written to"),
        ((tmp_path / "nowhere",), "is no folder"),
        ((tmp_path,), "holds no saved trees: name the folder of a run"),
        ((broken,), f"{broken / tree_log.FILE}, line 1: update is missing"),
    ):
        done = show(*arguments)
        assert done.returncode == 2, arguments
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""


def test_a_run_that_has_kept_none_says_so(tmp_path):
    (tmp_path / tree_log.FILE).write_text("")
    done = show(tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "no trees yet: the run has not finished an update")


def test_a_file_that_ends_within_its_first_line_is_not_one_without_trees(tmp_path):
    (tmp_path / tree_log.FILE).write_text('{"update": 1')
    done = show(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "trees.jsonl, line 1 has no end: the run is still writing it, or was killed" in done.stderr


def test_the_folder_of_a_page_or_picture_is_made(run, tmp_path):
    done = show(run, "--tree", 0, "--html", tmp_path / "new" / "one" / "tree.html", "--png", tmp_path / "new" / "tree.PNG")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new" / "tree.PNG").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (tmp_path / "new" / "one" / "tree.html").read_text()


def test_help_has_an_example():
    done = show("--help", env={**os.environ, "COLUMNS": "160"})
    assert done.returncode == 0
    assert "bpo show runs/bpo_split-household-s0-ea2de733 --tree 5 --html tree.html --png tree.png" in done.stdout
