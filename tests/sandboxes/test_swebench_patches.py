"""Names, kinds and contents of every entry of a test patch reach the box that judges, whatever they are."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)

from bpo.errors import BadInput
from bpo.git import AUTHOR, git
from bpo.sandboxes.shell import findings, open_workspace
from bpo.sandboxes.swebench import grading
from bpo.sandboxes.swebench.environments import _checkout, _commit_all, _with_tests
from bpo.sandboxes.swebench.hidden import Entry, place
from bpo.sandboxes.swebench.instances import Instance, load, touched
from bpo.sandboxes.swebench.recipes import BuildRecipe

BOXES = any(finding.works for finding in findings())
boxes = pytest.mark.skipif(not BOXES, reason=f"no safe box works here: {[finding.why for finding in findings()]}")
ROW = Instance("made__made-1", "made/made", "1.0", "HEAD", "2020-01-01T00:00:00Z", "text", "", "", ("t::x",), ())
ODD = (
    "tést.py",
    "a\tb.py",
    "x b/y.py",
    'q"uote.py',
    "sp ace.py",
    "new\nline.py",
    "caf\udce9.py",
    "[ab].py",
    ":(top)x.py",
    "-e.py",
    "\u2028.py",
)
BINARY = bytes(range(256)) * 3


def repository(folder, entries: dict[str, Entry]):
    """Commit these entries and no others."""
    if not (folder / ".git").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "read-tree", "--empty")
    listed = b""
    for name, entry in entries.items():
        blob = b"1" * 40
        if entry.kind != "160000":
            blob = git(folder, "hash-object", "-w", "--stdin", stdin=entry.content).strip()
        listed += b"%s %s\t%s\0" % (entry.kind.encode(), blob, os.fsencode(name))
    git(folder, "update-index", "-z", "--index-info", stdin=listed)
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x", variables=AUTHOR)
    return git(folder, "rev-parse", "HEAD").decode().strip()


def patch_between(folder, one: str, other: str, *options: str) -> str:
    return git(folder, "diff", "--binary", *options, one, other).decode(errors="surrogateescape")


BEFORE = {
    **{f"old/{name}": Entry("100644", b"1\n2\n3\n") for name in ODD},
    "program": Entry("100644", b"#!/bin/sh\n"),
    "data.bin": Entry("100644", BINARY),
    "gone.py": Entry("100644", b"x\n"),
    "moved.py": Entry("100644", b"".join(b"line %d\n" % i for i in range(20))),
    "link": Entry("120000", b"program"),
    "becomes": Entry("100644", b"file\n"),
    "crlf.py": Entry("100644", b"a\r\nb\r\n"),
    "latin.py": Entry("100644", b"# coding: latin-1\nx = '\xe9'\n"),
}
AFTER = {
    **{f"old/{name}": Entry("100644", b"1\n2\nthree\n") for name in ODD[:6]},
    **{f"new/{name}": Entry("100644", b"++ b/fake.py\n-- a/fake.py\n") for name in ODD},
    "program": Entry("100755", b"#!/bin/sh\n"),
    "data.bin": Entry("100644", BINARY[::-1]),
    "there/moved.py": BEFORE["moved.py"],
    "link": Entry("120000", os.fsencode("old/caf\udce9.py")),
    "becomes": Entry("120000", b"program"),
    "module": Entry("160000", b""),
    "empty.py": Entry("100644", b""),
    "crlf.py": Entry("100644", b"a\r\nc\r\n"),
    "latin.py": Entry("100644", b"# coding: latin-1\nx = '\xe8'\n"),
}


def changed(before, after):
    return (
        {name: entry for name, entry in after.items() if before.get(name) != entry},
        tuple(sorted(set(before) - set(after), key=os.fsencode)),
    )


@pytest.mark.parametrize("options", [(), ("--find-renames",), ("--no-renames",)])
def test_every_kind_of_entry_is_taken_from_the_index(options, tmp_path):
    folder = tmp_path / "clone"
    one = repository(folder, BEFORE)
    other = repository(folder, AFTER)
    row = replace(ROW, test_patch=patch_between(folder, one, other, *options))
    entries, removed = _with_tests(folder, one, row, folder / ".git" / "other")
    assert (entries, removed) == changed(BEFORE, AFTER)
    assert set(touched(row.test_patch)) >= set(entries)
    with pytest.raises(BadInput, match="does not fit"):
        _with_tests(folder, other, row, folder / ".git" / "other")


def test_the_text_of_a_patch_does_not_make_names(tmp_path):
    """Lines of a file that look like the head of a patch name no file."""
    folder = tmp_path / "clone"
    one = repository(folder, {"a.txt": Entry("100644", b"x\n")})
    other = repository(folder, {"a.txt": Entry("100644", b"++ b/fake.py\ndiff --git a/no.py b/no.py\n")})
    assert touched(patch_between(folder, one, other)) == ("a.txt",)
    assert touched("") == ()
    with pytest.raises(BadInput, match="none that git can read"):
        touched("diff --git a/x b/x\n@@ nonsense\n")


segments = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..") and "git" not in name.lower()
)
names = st.lists(segments, min_size=1, max_size=3).map("/".join)


@given(
    st.dictionaries(
        names,
        st.tuples(st.sampled_from(["100644", "100755", "120000"]), st.binary(min_size=1, max_size=20)),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=12, deadline=None)
def test_any_name_and_content_goes_through_git_and_comes_back(tmp_path_factory, made):
    # A name cannot be a file and a folder, and a link leads to no NUL.
    entries = {
        name: Entry(kind, content.replace(b"\0", b"0") if kind == "120000" else content)
        for name, (kind, content) in made.items()
        if not any(name.startswith(f"{other}/") for other in made)
    }
    folder = tmp_path_factory.mktemp("clone")
    one = repository(folder, {"a": Entry("100644", b"a\n")} if "a" not in {n.split("/")[0] for n in entries} else {})
    other = repository(folder, entries)
    row = replace(ROW, test_patch=patch_between(folder, one, other))
    found, removed = _with_tests(folder, one, row, folder / ".git" / "other")
    assert found == entries
    assert set(removed) <= {"a"}


@boxes
def test_entries_are_in_the_box_as_they_are_in_git(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, entry in BEFORE.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "120000":
            os.symlink(os.fsdecode(entry.content), tree / name)
        else:
            (tree / name).write_bytes(entry.content)
    entries, removed = changed(BEFORE, AFTER)
    with open_workspace(tree) as box:
        # What an agent has put there does not stand in the way.
        box.run("rm program; ln -s gone.py program; mkdir empty.py")
        place(box, entries, removed)
        for name, entry in entries.items():
            if entry.kind == "120000":
                assert os.fsencode(box.execute(("readlink", "-n", "--", f"./{name}")).exact) == entry.content
            elif entry.kind != "160000":
                assert box.read(name) == entry.content
                mode = box.execute(("stat", "-c", "%a", "--", f"./{name}")).output.strip()
                assert mode == ("755" if entry.kind == "100755" else "644")
        assert box.run("test -d module && ls -A module").output == ""
        for name in removed:
            assert box.execute(("ls", "-d", "--", f"./{name}")).code != 0


@boxes
def test_a_patch_of_any_bytes_applies_in_the_box(tmp_path):
    """What an agent's commands print is the patch that is judged, in latin-1 too, and for every kind of entry."""
    clone = tmp_path / "clone"
    one = repository(clone, BEFORE)
    tree = tmp_path / "tree"
    tree.mkdir()
    _commit_all(tree, _checkout(clone, one, tree))
    assert git(tree, "ls-files", "-z") == git(clone, "ls-tree", "-r", "-z", "--name-only", one)
    with open_workspace(tree) as box:
        (agent,) = box.fork()
        agent.run(r"printf '# coding: latin-1\nx = \"\xe8\"\n' > latin.py; printf 'a\r\nc\r\n' > crlf.py")
        agent.run(r"chmod 755 program; ln -sf crlf.py link; git rm -q gone.py; head -c 99 /dev/urandom > data.bin")
        agent.run(r"echo more >> $'old/t\xc3\xa9st.py'; echo more >> $'old/caf\xe9.py'")
        agent.run("git add -A; git diff --cached --binary > /tmp/p")
        printed = agent.run("cat /tmp/p")
        assert b"\xe8" in printed.raw
        assert "\ufffd" in printed.output
        (judge,) = box.fork()
        assert grading._applied(judge, printed.exact)
        names = ("latin.py", "crlf.py", "old/tést.py", "old/caf\udce9.py", "data.bin")
        assert [judge.read(name) for name in names] == [agent.read(name) for name in names]
        assert judge.run("stat -c %a program; readlink link; ls gone.py").output.startswith("755\ncrlf.py\nls:")
        agent.close()
        judge.close()


def test_tests_are_named_by_what_the_patch_leaves():
    """A file that the test patch takes away is no test; a name that a shell would change is an argument of its own."""
    recipe = BuildRecipe("3.9")
    assert recipe.command(ROW, ("tests/a b.py", "tests/data.json", "tést.py")) == ("pytest", "-rA", "tests/a b.py", "tést.py")


def test_rows_are_cut_at_newlines_alone(tmp_path):
    import json

    texts = ("instance_id", "repo", "version", "base_commit", "created_at", "problem_statement", "patch", "test_patch")
    row = {**dict.fromkeys(texts, "a\u2028b\x85c"), "FAIL_TO_PASS": '["a"]', "PASS_TO_PASS": "[]"}
    path = tmp_path / "rows.jsonl"
    path.write_text("\ufeff" + json.dumps(row, ensure_ascii=False) + "\r\n", encoding="utf-8")
    assert [found.problem for found in load(path).values()] == ["a\u2028b\x85c"]
