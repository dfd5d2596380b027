"""Files that are read again carry a digest: a byte that has changed on the disk is noticed, not computed with."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpo.errors import BadInput
from bpo.files import append, to_json, write_atomically

# Behind the content of a file: readers that look for its end themselves (of zip archives, of programs) do not mind.
MARK = b"\nsha256 "
TAIL = len(MARK) + hashlib.sha256().digest_size * 2 + 1
# The field of a record or a row that holds its digest; rows have a part of it.
FIELD, ROW_DIGITS = "sha256", 16
# In a folder: the digest of every other file in it.
DIGESTS = "digests.json"


class Damaged(BadInput):
    """What lies on the disk is not what was written."""


def write_sealed(path: Path, data: bytes | memoryview) -> None:
    """Write bytes and their digest, whole or not at all."""
    digest = hashlib.sha256(data).hexdigest().encode()
    write_atomically(path, b"".join((data, MARK, digest, b"\n")))


def read_sealed(path: Path) -> bytes:
    """The bytes that `write_sealed` wrote; Damaged where they are others, OSError where there is no such file."""
    whole = path.read_bytes()
    data, tail = whole[:-TAIL], whole[-TAIL:]
    if tail != MARK + hashlib.sha256(data).hexdigest().encode() + b"\n":
        raise Damaged(f"{path} is damaged and cannot be used ({len(whole)} bytes): its digest is another")
    return data


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write an object as JSON with sorted keys and its digest in the field `sha256`."""
    write_atomically(path, to_json({**record, FIELD: _digest(record)}, indent=1, sort_keys=True) + "\n")


def read_record(path: Path) -> dict[str, Any]:
    """The object that `write_record` wrote, without the digest; Damaged where it is another, OSError where there is none."""
    try:
        record = json.loads(path.read_bytes())
        digest = record.pop(FIELD)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise Damaged(f"{path} is damaged and cannot be used: it is no JSON object with its digest") from None
    if digest != _digest(record):
        raise Damaged(f"{path} is damaged and cannot be used: its digest is another")
    return record


def write_with_digest(path: Path, data: bytes | str) -> None:
    """Write a file whose content belongs to its readers alone, and its digest beside it, as `sha256sum --check` reads it."""
    beside = path.with_name(f"{path.name}.{FIELD}")
    beside.unlink(missing_ok=True)
    write_atomically(path, data)
    write_atomically(beside, f"{digest_of(path)}  {path.name}\n")


def read_with_digest(path: Path) -> bytes:
    """What `write_with_digest` wrote; Damaged where it is another or has no digest, OSError where there is no such file."""
    data = path.read_bytes()
    try:
        told = path.with_name(f"{path.name}.{FIELD}").read_bytes()
    except FileNotFoundError:
        told = b""
    if told != f"{hashlib.sha256(data).hexdigest()}  {path.name}\n".encode():
        raise Damaged(f"{path} is damaged and cannot be used: its digest is another")
    return data


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Add a row, an object on one line, to a file of such rows."""
    append(path, to_row(row))


def to_row(row: Mapping[str, Any]) -> str:
    """A row as one line, with its digest as the last field."""
    return to_json({**row, FIELD: _digest(row)[:ROW_DIGITS]}, separators=(",", ":")) + "\n"


def from_row(line: str | bytes) -> dict[str, Any] | None:
    """The row that a line holds, without the digest; None where it is not what was written."""
    try:
        row = json.loads(line)
        return row if row.pop(FIELD) == _digest(row)[:ROW_DIGITS] else None
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; a last one that was cut off by a kill is left out, any other that is damaged is Damaged."""
    rows, lines = [], path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        row = from_row(line)
        if row is not None:
            rows.append(row)
        elif number < len(lines):  # a whole file ends with a line feed, so that nothing stands behind the last one
            raise Damaged(f"{path}, line {number} is damaged: restore the file, or delete the folder that it lies in")
    return rows


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hex digits; OSError where there is none."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal_folder(folder: Path, place: str = DIGESTS) -> None:
    """Write the digest of every file in a folder into the folder, to be looked at by `check_folder`."""
    write_record(folder / place, {"files": _digests(folder, place)})


def check_folder(folder: Path, place: str = DIGESTS) -> None:
    """Raise Damaged, naming a file, where a folder does not hold what it held when it was sealed."""
    try:
        told = read_record(folder / place)["files"]
    except OSError:
        raise Damaged(f"{folder} is not whole: it has no {place}") from None
    found = _digests(folder, place)
    if found != told:
        name = min(name for name in {*found, *told} if found.get(name) != told.get(name))
        what = "is missing" if name not in found else "was not there" if name not in told else "has another digest"
        raise Damaged(f"{folder} is damaged and cannot be used: {name} {what}")


def is_whole(folder: Path, place: str = DIGESTS) -> bool:
    """Whether a folder is there and holds what it held when it was sealed."""
    try:
        check_folder(folder, place)
    except Damaged:
        return False
    return True


def _digest(record: Mapping[str, Any]) -> str:
    # As it will be read: tuples are lists, keys are text, NaN is null.
    plain = json.loads(to_json(record))
    return hashlib.sha256(to_json(plain, sort_keys=True).encode()).hexdigest()


def _digests(folder: Path, place: str) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file() and name != place:
            found[name] = digest_of(path)
    return found
