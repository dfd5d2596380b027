"""The hidden tests of an instance: what its test patch makes of a commit, by git's index, and their way into a box."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bpo.git import git
from bpo.sandboxes.shell import Workspace

# Kinds of entries, as git's index has them.
FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
# Gives entries that are no plain files their kind: arguments are triples of kind, name and, for a link, where it leads.
KINDS = """
set -e
while [ $# -gt 0 ]; do
  mkdir -p -- "$(dirname -- "$2")"
  case $1 in
    100755) chmod 755 -- "$2";;
    120000) ln -s -- "$3" "$2";;
    160000) mkdir -p -- "$2";;
  esac
  shift 3
done
"""


@dataclass(frozen=True)
class Entry:
    """An entry of a commit: its kind, and what is in a file, where a link leads, or nothing for a submodule."""

    kind: str
    content: bytes


def staged(source: Path, revision: str, variables: Mapping[str, str]) -> tuple[dict[str, Entry], tuple[str, ...]]:
    """What an index changes in a commit: the entries that it holds, by name, and the names that it takes away.

    variables  of git's, which name the index. Bytes of names that are not UTF-8 are held as `os.fsdecode` holds them.
    """
    options = ("--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
    fields = git(source, "diff-index", *options, revision, variables=variables).split(b"\0")
    entries, removed = {}, []
    for facts, name in zip(fields[:-1:2], fields[1::2], strict=True):
        _, kind, _, blob, status = facts.decode().split(" ")
        if status == "D":
            removed.append(os.fsdecode(name))
            continue
        content = b"" if kind == SUBMODULE else git(source, "cat-file", "blob", blob, variables=variables)
        entries[os.fsdecode(name)] = Entry(kind, content)
    return entries, tuple(removed)


def place(box: Workspace, entries: Mapping[str, Entry], removed: Sequence[str] = ()) -> None:
    """Put entries into the tree of a box, in place of what is there by their names, and take away what is removed.

    RuntimeError with what the box said where that cannot be done.
    """
    # A link that a patch has put where a test goes is replaced, not followed.
    _done(box, ("rm", "-rf", "--", *(f"./{name}" for name in (*removed, *entries))))
    for name, entry in entries.items():
        if entry.kind in (FILE, PROGRAM):
            box.write(name, entry.content)
    triples = ((e.kind, f"./{name}", os.fsdecode(e.content) if e.kind == LINK else "") for name, e in entries.items())
    others = [part for triple in triples if triple[0] != FILE for part in triple]
    _done(box, ("bash", "-c", KINDS, "bash", *others))


def _done(box: Workspace, arguments: Sequence[str]) -> None:
    result = box.execute(arguments)
    if result.code:
        raise RuntimeError(f"the hidden tests could not be put into the box: {(result.output or result.note).strip()[:300]}")
