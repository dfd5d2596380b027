"""Executed notebooks: one counts as finished only once every cell of it has run and the whole of it has been written."""

from __future__ import annotations

import json
from pathlib import Path

from bpo.sealed import Damaged, digest_of, read_record, write_record


def done_record(notebook: Path) -> Path:
    """The file beside an executed notebook that says that it is finished; it is written last and taken away first."""
    return notebook.with_suffix(".done.json")


def finish(notebook: Path) -> None:
    """Say that an executed notebook is finished; RuntimeError names a cell that has not run or has failed."""
    wrong = unfinished_cell(json.loads(notebook.read_bytes()))
    if wrong is not None:
        raise RuntimeError(f"the notebook has ended, but cell {wrong} has not run to its end")
    write_record(done_record(notebook), {"notebook": digest_of(notebook)})


def is_finished(notebook: Path) -> bool:
    """Whether an executed notebook is there, has run to its end, and is as it was written then."""
    try:
        return read_record(done_record(notebook)) == {"notebook": digest_of(notebook)}
    except (OSError, Damaged):
        return False


def unfinished_cell(notebook: dict) -> int | None:
    """The number, from 0, of the first cell with code that has no execution count, or that ended in an error."""
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code" and "".join(cell["source"]).strip():
            failed = any(output["output_type"] == "error" for output in cell["outputs"])
            if failed or not isinstance(cell["execution_count"], int):
                return number
    return None
