"""Cells: what is run with which seeds. A finished one is a small JSON file, named by its content and by the code behind it."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bpo.errors import BadInput
from bpo.files import write_json
from bpo.lab.dynamic import optimum
from bpo.lab.families import FAMILIES, Decision, decision
from bpo.lab.family import Family
from bpo.lab.run import Budget, measured, spends, timed, train
from bpo.lab.suite import built
from bpo.provenance import code_of, parts

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Cell:
    """Runs that differ in their seeds alone.

    family      a key of FAMILIES, or "depth D of T" or "depth D of T after luck": one of the map
    policy      "tabular" or "linear"
    parameters  of the method, as pairs
    updates     of the budget (see `run.Budget`); on the map, where runs end at TARGET of the optimum, updates at most
    """

    family: str
    policy: str
    method: str
    parameters: tuple[tuple[str, Any], ...]
    lr: float
    updates: int
    seeds: tuple[int, ...]

    @property
    def on_map(self) -> bool:
        """Whether it belongs to the map."""
        return self.family not in FAMILIES

    @property
    def name(self) -> str:
        """The name of its file, without the ending."""
        content = json.dumps([asdict(self), code(self.method, self.parameters)], sort_keys=True)
        label = f"{self.family.replace(' ', '-')}-{self.policy}-{self.method}-lr{self.lr:g}"
        return f"{label}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


# Where a run of the map ends: at this share of the optimum.
TARGET = 0.9


def family_of(name: str) -> Family:
    """The family of that name, of the table or of the map."""
    if name in FAMILIES:
        return FAMILIES[name]()
    depth, horizon = name.removeprefix("depth ").removesuffix(" after luck").split(" of ")
    return decision(Decision(int(depth), int(horizon), name.endswith(" after luck")))


@cache
def code(method: str, parameters: tuple[tuple[str, Any], ...]) -> str:
    """24 hex digits over the code behind a cell's numbers, and the plain values that its method is built with."""
    one = built(method, dict(parameters))
    roots, values = parts([one.growth, one.credit, one.objective, one.memory, one.learner])
    return hashlib.sha256(f"{code_of(_run, *roots)} {values}".encode()).hexdigest()[:24]


def run(cell: Cell) -> dict[str, Any]:
    """What a finished cell's file holds: the cell, and per seed what was measured, or why it failed, with the CPU seconds."""
    import torch

    torch.set_num_threads(1)
    rows: list[dict[str, float]] = []
    seconds, failed = 0.0, ""
    for seed in cell.seeds:
        try:
            row, took = _run(cell, seed)
        except BadInput as error:  # a rate at which weights stop being numbers
            rows, failed = [], f"seed {seed}: {error}"
            break
        rows.append(row)
        seconds += took
    return {"cell": asdict(cell), "rows": rows, "failed": failed, "cpu_s": seconds}


def _run(cell: Cell, seed: int) -> tuple[dict[str, float], float]:
    family, method = family_of(cell.family), built(cell.method, dict(cell.parameters))
    if cell.on_map:
        return _to_target(cell, family, method, seed)
    budget = Budget.of(family, cell.updates)
    curve, seconds = timed(lambda: train(family, cell.policy, method, cell.lr, seed, spends(budget)))
    return measured(family, curve, budget), seconds


def _to_target(cell: Cell, family: Family, method: Any, seed: int) -> tuple[dict[str, float], float]:
    goal = TARGET * optimum(family)
    curve, seconds = timed(
        lambda: train(family, cell.policy, method, cell.lr, seed, lambda n, spent, value: value >= goal or n >= cell.updates)
    )
    last = {axis: float(spent[-1]) for axis, spent in curve.spent.items()}
    reached = float(curve.value[-1] >= goal)
    return {**last, "forks": float(curve.forks[-1]), "updates": float(len(curve.value) - 1), "reached": reached}, seconds


def finished(cell: Cell, folder: Path) -> dict[str, Any] | None:
    """What a finished cell's file holds; None where there is none, and BadInput where it is no such file."""
    path = folder / f"{cell.name}.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if not isinstance(found, Mapping) or found.get("cell") != json.loads(json.dumps(asdict(cell))):
        raise BadInput(f"{path} is not the cell that its name says; delete it, and it is run again")
    return dict(found)


def run_all(
    cells: Iterable[Cell], folder: Path, processes: int, phase: str, progress: Progress | None
) -> dict[Cell, dict[str, Any]]:
    """Run what is not finished yet, so many at once, and return all of them; each is written as soon as it is done."""
    cells = list(dict.fromkeys(cells))
    found = {cell: content for cell in cells if (content := finished(cell, folder)) is not None}
    todo = [cell for cell in cells if cell not in found]

    def took(cell: Cell, content: dict[str, Any]) -> None:
        write_json(folder / f"{cell.name}.json", content)
        found[cell] = json.loads(json.dumps(content))
        if progress:
            progress(phase, len(found), len(cells))

    if progress and cells:
        progress(phase, len(found), len(cells))
    if processes == 1 or len(todo) < 2:
        for cell in todo:
            took(cell, run(cell))
    else:
        _side_by_side(todo, processes, took)
    return {cell: found[cell] for cell in cells}


def _left_to_the_parent() -> None:
    """Ctrl-C reaches every process of a terminal; the parent alone takes it, and the cells that are being run are finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _side_by_side(cells: Sequence[Cell], processes: int, took: Callable[[Cell, dict[str, Any]], None]) -> None:
    # Spawned, not forked: torch has threads by then.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _left_to_the_parent) as pool:
        waiting: dict[Future, Cell] = {pool.submit(run, cell): cell for cell in cells}
        try:
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    took(waiting.pop(future), future.result())
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
