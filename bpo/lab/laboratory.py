"""The laboratory as a whole: runs the parts that are asked for, and keeps all of their numbers in one file."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bpo.errors import BadInput
from bpo.files import write_json
from bpo.lab import control, table
from bpo.lab import map as chart_map
from bpo.lab.cells import Cell, Progress, code
from bpo.lab.suite import Suite, expressible, parameters_of
from bpo.lab.table import Runner
from bpo.methods import METHODS
from bpo.provenance import origin

# What can be run, in this order: the table, its second set of seeds, a control with batches as small as those of branching, the
# map, and the many seeds that tell what intervals hold.
PARTS = ("table", "again", "control", "map", "truth")
FILE = "lab.json"


def run(suite: Suite, parts: Sequence[str], out: Path, processes: int, progress: Progress | None = None) -> dict[str, Any]:
    """Run some parts, and write what they found to `out`/lab.json beside what other parts found before.

    Cells that are finished in `out`/cells are not run again. Parts that were not asked for stay as they are if they are of the
    same suite; those of another suite are dropped.
    """
    began, found = time.perf_counter(), read(out, suite)
    seconds: dict[str, float] = dict(found.get("cpu_s", {}))
    run_cells = _counted(table.runner(out / "cells", processes, progress), seconds)
    able, unable = expressible(list(METHODS.working()))
    rates = table.choose_rates(suite, able, run_cells)
    found |= {"suite": asdict(suite), "methods": able, "unable": unable, "rates": rates}
    if "table" in parts:
        found["table"] = table.report(suite, rates, suite.seeds, run_cells, "table")
    if "again" in parts:
        found["again"] = table.report(suite, rates, suite.again, run_cells, "again", ("own",))
    if "control" in parts:
        found["control"] = control.rows(suite, rates, run_cells)
    if "map" in parts:
        found["map"] = chart_map.chart(suite, run_cells)
    if "truth" in parts:
        chosen = [
            row for row in rates if (row["family"], row["policy"]) in suite.truth_of and row["method"] in suite.truth_methods
        ]
        found["truth"] = table.report(suite, [{**row, "common": None} for row in chosen], suite.truth, run_cells, "truth")
    codes = json.dumps([code(name, tuple(sorted(parameters_of(name).items()))) for name in able])
    found |= {"cpu_s": seconds, "wall_s": round(time.perf_counter() - began, 1)}
    found["origin"] = origin(hashlib.sha256(codes.encode()).hexdigest()[:12])
    found = json.loads(json.dumps(found))
    write_json(out / FILE, found)
    return found


def read(out: Path, suite: Suite) -> dict[str, Any]:
    """What was found before by the same suite; {} where nothing was, and BadInput where the file is no such result."""
    path = out / FILE
    if not path.exists():
        return {}
    found = load(path)
    return found if found["suite"] == json.loads(json.dumps(asdict(suite))) else {}


def load(path: Path) -> dict[str, Any]:
    """A laboratory's lab.json; BadInput where it is none."""
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if not isinstance(found, dict) or "suite" not in found or "rates" not in found:
        raise BadInput(f"{path} is no result of the laboratory; name another folder, or delete it")
    return found


def _counted(run_cells: Runner, seconds: dict[str, float]) -> Runner:
    """A runner that notes for every phase the CPU seconds behind its cells, whenever they were run, each cell in one phase."""
    seen: set[Cell] = set()

    def counted(cells: Sequence[Cell], phase: str) -> dict[Cell, dict[str, Any]]:
        found = run_cells(cells, phase)
        seconds[phase] = round(sum(content["cpu_s"] for cell, content in found.items() if cell not in seen), 1)
        seen.update(found)
        return found

    return counted
