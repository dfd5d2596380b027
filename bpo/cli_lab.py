"""The command `bpo lab`: every method of the table in small processes in which one knows what decides."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

  bpo lab --quick

  bpo lab table map --processes 2

  bpo lab --out results/lab table again control map truth"""


def lab(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            help="table, again (other seeds), control (rloo in small batches), map, truth (500 seeds); default: table map."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Seconds: two families, three seeds, short runs. No results, but all steps.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of lab.md, lab.json, map.png and finished cells; default: runs/lab or runs/lab-quick."),
    ] = None,
    processes: Annotated[int, typer.Option(help="Runs side by side; the numbers do not depend on it.")] = 1,
    tables: Annotated[bool, typer.Option("--tables", help="Write lab.md and map.png from lab.json; run nothing.")] = False,
) -> None:
    """Compare all methods where J is known exactly after every update; an interrupted run goes on where it was."""
    from bpo.cli import ProgressBars, writable
    from bpo.errors import BadInput, at_least, at_most, choose, require
    from bpo.files import write_atomically
    from bpo.lab import laboratory
    from bpo.lab.report import page
    from bpo.lab.suite import FULL, QUICK
    from bpo.printing import say

    wanted = list(parts or ("table", "map"))
    for part in wanted:
        choose("part", part, laboratory.PARTS)
    at_least("--processes", processes, 1)
    at_most("--processes", processes, os.cpu_count() or 1)
    folder = out or Path("runs") / ("lab-quick" if quick else "lab")
    writable("--out", folder)
    if tables:
        if not (folder / laboratory.FILE).exists():
            raise BadInput(f"--tables: {folder / laboratory.FILE} is not there; run `bpo lab --out {folder}` first")
        found = laboratory.load(folder / laboratory.FILE)
    else:
        require("torch", "lm")
        if "map" in wanted:
            require("matplotlib", "notebooks")
        with ProgressBars() as progress:
            found = laboratory.run(QUICK if quick else FULL, wanted, folder, processes, progress)
    write_atomically(folder / "lab.md", page(found))
    if "map" in found:
        from bpo.lab.figure import chart
        from bpo.viz.plots import save

        save(chart(found["map"]), folder / "map.png")
    say(f"{folder / 'lab.md'}: {sum(found['cpu_s'].values()):.0f} CPU seconds behind it")
