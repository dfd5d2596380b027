"""What is finished of a plan, as the input of the table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpo.errors import BadInput
from bpo.sealed import Damaged, read_record
from reproduce.plan import EXTENSIONS, ROOT, TablePlan, TableRow, result_of

OFFICIAL, RULES = "official.json", "rules.json"
# Files that decide what the tables say, given the runs.
MAKERS = ("reproduce/*.py", "bpo/sandboxes/*/spec.py", "bpo/viz/*.py", "notebooks/11_tables.ipynb")


@dataclass(frozen=True)
class RowRuns:
    """The finished runs of one row, by seed."""

    row: TableRow
    planned: int
    runs: Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Collected:
    """Everything that the table is made from.

    starts     the evaluations of the warm starts, by seed; of one that all seeds share, by the first seed alone
    reference  the label of the row that the others are compared with;  equal: what rows are also compared at equal amounts of
    missing    the runs that are not finished, in words
    """

    preset: str
    sandbox: str
    scale: str
    seeds: tuple[int, ...]
    starts: Mapping[int, Mapping[str, Any]]
    rows: tuple[RowRuns, ...]
    reference: str
    equal: tuple[str, ...]
    missing: tuple[str, ...]
    official: Mapping[str, Any] | None
    rules: Mapping[str, Any] | None

    @property
    def start(self) -> Mapping[str, Any]:
        """The evaluation of the first warm start, for what all have in common."""
        return self.starts[min(self.starts)]

    def start_of(self, seed: int) -> Mapping[str, Any]:
        """The evaluation of the warm start of a seed's runs."""
        return self.starts.get(seed, self.start)


def collect(plan: TablePlan) -> Collected:
    """Read the finished runs; BadInput where there is no warm start or not a single run."""
    from bpo.experiment import finished_start

    starts = {config.seed: finished_start(config, folder) for config, folder in plan.warm_starts}
    found: dict[str, dict[int, dict]] = {}
    missing = []

    def read(rows: list[TableRow]) -> None:
        for job in plan.jobs(rows):
            result = result_of(job)
            if result is None:
                missing.append(job.title)
            else:
                found.setdefault(job.row.label, {})[job.config.seed] = result

    rows = plan.rows
    read(rows)
    for _, add, measure in EXTENSIONS:
        complete = {label: list(runs.values()) for label, runs in found.items() if len(runs) == len(plan.sweep.seeds)}
        before, rows = len(rows), add(plan, rows, {label: measure(runs) for label, runs in complete.items()})
        read(rows[before:])
    if None in starts.values() or not found:
        where = f"--preset {plan.told}" + ("" if plan.sandbox == "household" else f" --sandbox {plan.sandbox}")
        raise BadInput(f"{plan.runs} has no finished runs of this code: python -m reproduce run {where}")
    return Collected(
        plan.preset.name,
        plan.sandbox,
        plan.preset.section(plan.sandbox).scale,
        plan.sweep.seeds,
        starts,
        tuple(RowRuns(row, plan.planned(row), found[row.label]) for row in rows if row.label in found),
        plan.reference.label,
        plan.sweep.equal,
        tuple(missing),
        _same_code(plan.runs / OFFICIAL, starts),
        _same_code(plan.runs / RULES, starts),
    )


def fingerprint(collected: Collected) -> str:
    """Sixteen hex digits of everything that the results folder depends on."""
    digest = hashlib.sha256()
    for pattern in MAKERS:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.name.encode() + _source(path).encode())
    runs = [[row.row.label, row.row.matched_to, dict(row.runs)] for row in collected.rows]
    content = [
        collected.scale,
        collected.seeds,
        dict(collected.starts),
        runs,
        collected.reference,
        collected.equal,
        collected.missing,
        collected.official,
        collected.rules,
    ]
    digest.update(json.dumps(content, sort_keys=True).encode())
    return digest.hexdigest()[:16]


def _source(path: Path) -> str:
    # A notebook's stored outputs are no part of what it does.
    text = path.read_text()
    if path.suffix != ".ipynb":
        return text
    return json.dumps([[cell["cell_type"], cell["source"]] for cell in json.loads(text)["cells"]])


def _same_code(path: Path, starts: Mapping[int, Mapping[str, Any]]) -> dict[str, Any] | None:
    try:
        extra = read_record(path)
    except (OSError, Damaged):
        return None
    return extra if extra["code"] in {start["origin"]["code"] for start in starts.values()} else None
