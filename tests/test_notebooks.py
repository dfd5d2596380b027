"""Hygiene of the committed notebooks."""

import json
import platform
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
# Paths of a machine, times of day, addresses in memory: none of them belongs into a committed output.
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|tmp|home|usr|Users)/|\b\d\d:\d\d:\d\d\b|0x[0-9a-f]{8,}")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.name)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return nbformat.read(path, as_version=4)


def test_there_are_notebooks():
    assert {"10_train.ipynb", "11_tables.ipynb"} <= {path.name for path in NOTEBOOKS}


def test_valid_and_small(path, notebook):
    nbformat.validate(notebook)
    assert path.stat().st_size < 500_000
    assert re.fullmatch(r"\d\d[a-z]?_[a-z0-9_]+\.ipynb", path.name)


def test_kernel_is_the_usual_one_and_no_widget_state(notebook):
    assert notebook.metadata.kernelspec.name == "python3"
    assert "widgets" not in notebook.metadata
    assert "papermill" not in notebook.metadata


def test_ids_are_unique(notebook):
    ids = [cell.id for cell in notebook.cells]
    assert len(ids) == len(set(ids))


def test_begins_with_one_title(notebook):
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")


def test_parameters_are_one_cell_of_literals(notebook):
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) <= 1
    assert not any("injected-parameters" in cell.metadata.get("tags", []) for cell in notebook.cells)
    for cell in tagged:
        assert "import" not in cell.source
        exec(compile(cell.source, "parameters", "exec"), {"__builtins__": {}})


def test_was_run_from_top_to_bottom_without_errors(notebook):
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    expected = {"raises-exception", "nbval-raises-exception"}
    for cell in cells:
        if not expected & set(cell.metadata.get("tags", [])):
            assert not any(output.output_type == "error" for output in cell.outputs)


def test_outputs_hold_nothing_of_the_machine(notebook):
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output.get("text")
            data = {kind: value for kind, value in output.get("data", {}).items() if not kind.startswith("image/")}
            assert not any("widget" in kind for kind in data)
            text = json.dumps([output.get("text", ""), data])
            assert not MACHINE.search(text), MACHINE.search(text)
            assert not re.search(rf"\b{re.escape(platform.node())}\b", text)
