"""The paths that commands are told: none is empty, and whatever is written has a name that says what it is.

Every option that names something to write makes the folders above it, and refuses before any work is done for it what cannot
be written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from bpo.errors import BadInput

# What makes a folder that of a run, whose name `--out` must not be.
OF_A_RUN = ("metrics.jsonl", "trees.jsonl")


def told(text: str) -> Path:
    """A path as it was told; the option parser says what is wrong with it."""
    if not text:
        raise typer.BadParameter("it must be a path; . is the folder that you are in")
    # A shell leaves the ~ of --out=~/runs as it is.
    return Path(os.path.expanduser(text))


# How an option or argument that is a path is declared.
PATH: dict[str, Any] = {"parser": told, "metavar": "PATH"}


def writable(option: str, path: Path) -> None:
    """Refuse a path below which nothing can be written, before any work is done for it."""
    if "\0" in str(path):
        raise BadInput(f"{option} {str(path)!r} is no path; a name cannot hold a NUL")
    there = next(parent for parent in (path, *path.absolute().parents) if os.path.lexists(parent))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BadInput(f"{option} {str(path)!r}: {there} is no folder that can be written to")


def file_to_write(option: str, path: Path, ends: tuple[str, ...] = ()) -> None:
    """Refuse what cannot become a file, before any work is done for it; `ends`: how its name may end."""
    if "\0" in str(path):
        raise BadInput(f"{option} {str(path)!r} is no path; a name cannot hold a NUL")
    if path.exists() and not path.is_file():
        raise BadInput(f"{option} {str(path)!r} is a folder or a device; it must be the name of a file")
    if ends and path.suffix.lower() not in ends:
        raise BadInput(f"{option} {str(path)!r} must end with {' or '.join(ends)}, which is what is written")
    writable(option, path.absolute().parent)


def outside_runs(option: str, path: Path) -> None:
    """Refuse a folder for runs that is, or lies in, the folder of a run."""
    for folder in (path.resolve(), *path.resolve().parents):
        if (folder / "config.yaml").is_file() and any((folder / name).is_file() for name in OF_A_RUN):
            raise BadInput(
                f"{option} {str(path)!r}: {folder} is the folder of a run; name the folder that holds it, {folder.parent}"
            )
