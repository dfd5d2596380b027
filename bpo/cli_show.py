"""The command `bpo show`: the trees that a run has kept, in the terminal, as a picture, or as a page."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from bpo.cli_paths import PATH, file_to_write
from bpo.errors import BadInput
from bpo.printing import one_line, say, show_table

EXAMPLES = """Examples:

  bpo show runs/bpo_split-household-s0-ea2de733

  bpo show runs/bpo_split-household-s0-ea2de733 --tree 5 --html tree.html --png tree.png"""


LEGEND = (
    "* the paths part here: one of several draws",
    "H entropy before the action, of its first free token, in nats",
    "m mass, A advantage (no sign: no gradient), G return",
)


def show(
    run: Annotated[Path, typer.Argument(help="The folder of a run, the one with config.yaml and trees.jsonl.", **PATH)],
    tree: Annotated[int | None, typer.Option(help="Number of the tree; without it the trees are listed.")] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page to point at and to fold, one .html file for any browser.", **PATH),
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write the picture, a .png file.", **PATH)] = None,
) -> None:
    """Show a rollout tree that a run has kept: as text, or as a page or a picture in a file.

    A mean return weighs every leaf by its mass. The picture writes an action where there is room; page and text have them all.
    Where writing pauses inside an action, its pieces end with three dots, and the last line has the whole action.
    """
    from bpo.tree_log import read

    for option, path, ends in (("--html", html, (".html", ".htm")), ("--png", png, (".png",))):
        if path is None:
            continue
        if tree is None:
            raise BadInput(f"{option} needs the number of a tree, like --tree 0; without one, the trees are listed")
        file_to_write(option, path, ends)
    found = read(run)
    if tree is None:
        _list(found)
        return
    if not 0 <= tree < len(found):
        known = f"from 0 to {len(found) - 1}" if found else "none yet: the run has not finished an update"
        raise BadInput(f"there is no tree {tree} in {str(run)!r} (known: {known})")
    _write(found[tree], html, png)
    if html is None and png is None:
        from bpo.viz.text import tree_lines

        # A terminal would break long lines and with them the drawing; a file or a pipe gets them whole.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        if found[tree].words:
            say(one_line(found[tree].words))
        for line in [*tree_lines(found[tree].tree, found[tree].credit, width), "", *LEGEND]:
            say(line)


def _list(found) -> None:
    from bpo.tree import ROOT

    rows = []
    for number, one in enumerate(found):
        tree = one.tree
        value, best = f"{tree.value[ROOT]:.3g}", f"{tree.returns[tree.leaves].max():.3g}"
        counts = str(len(tree.leaves)), str(len(tree.branch_points))
        rows.append((str(number), str(one.update), *counts, value, best, one_line(tree.task)))
    show_table(("tree", "update", "leaves", "branch points", "mean return", "best", "task"), rows, tight=True)
    say(f"{len(found)} trees; --tree NUMBER shows one" if found else "no trees yet: the run has not finished an update")


def _write(one, html: Path | None, png: Path | None) -> None:
    if html is not None:
        from bpo.viz.page import page

        _put("--html", html, page(one))
    if png is not None:
        from bpo.viz import plots
        from bpo.viz.trees import tree_figure

        _put("--png", png, plots.png(tree_figure(one)))


def _put(option: str, path: Path, data: bytes | str) -> None:
    from bpo.files import write_atomically

    try:
        write_atomically(path, data)
    except OSError as error:
        raise BadInput(f"{option} {str(path)!r} cannot be written: {error.strerror}") from None
    say(f"wrote {path}")
