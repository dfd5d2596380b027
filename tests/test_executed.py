"""A notebook that was killed is never taken for a finished one, whenever it was killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("papermill")
from reproduce import executed
from reproduce.plan import ROOT
from reproduce.processes import Notebook, WorkerPool

MOMENTS = ("in the first cell", "after the result", "in the last cell", "the process that runs it", "before it is said")
# A stand-in for a run: something, the result, something more. Where the file MOMENT says so, it is killed.
CELLS = """
import os, signal
from pathlib import Path
place = Path({place!r})
def killed(moment, process=os.getpid):
    if (place / "moment").read_text() == moment:
        os.kill(process(), signal.SIGKILL)
killed("in the first cell")
---
(place / "result.json").write_text("whole")
killed("after the result")
---
print("more")
---
killed("in the last cell")
killed("the process that runs it", os.getppid)
print("the end")
"""


def notebook(folder: Path) -> Notebook:
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in CELLS.format(place=str(folder)).split("---")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "run.ipynb")
    return Notebook(str(folder / "run.ipynb"), folder / "out" / "notebook.ipynb")


def run(one: Notebook) -> str | None:
    messages = {}
    with WorkerPool(1, 120.0) as pool:
        pool.run([one], messages.__setitem__, lambda: None)
    return messages[0]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_notebook_is_not_finished_and_the_next_run_of_it_is(moment, tmp_path):
    one = notebook(tmp_path)
    (tmp_path / "moment").write_text(moment)
    message = run(one)
    if moment == "before it is said":
        # As a kill between the last two writes leaves it: the notebook is there, and nothing says so.
        assert message is None
        executed.done_record(one.target).unlink()
    else:
        assert message
    assert not executed.is_finished(one.target)
    (tmp_path / "moment").write_text("never")
    assert run(one) is None
    assert executed.is_finished(one.target)
    assert executed.unfinished_cell(json.loads(one.target.read_text())) is None
    assert sorted(path.name for path in one.target.parent.iterdir()) == ["notebook.done.json", "notebook.ipynb"]


def test_a_finished_notebook_that_is_run_again_is_not_finished_until_it_has_ended(tmp_path):
    one = notebook(tmp_path)
    (tmp_path / "moment").write_text("never")
    assert run(one) is None
    (tmp_path / "moment").write_text("after the result")
    assert run(one)
    assert not executed.is_finished(one.target)


def test_a_notebook_that_has_changed_is_not_the_finished_one(tmp_path):
    target = tmp_path / "notebook.ipynb"
    cell = nbformat.v4.new_code_cell("1", execution_count=1)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), target)
    executed.finish(target)
    assert executed.is_finished(target)
    target.write_text(target.read_text().replace('"1"', '"2"'))
    assert not executed.is_finished(target)


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"execution_count": None}, 1),
        ({"outputs": [nbformat.v4.new_output("error", ename="E", evalue="e", traceback=[])]}, 1),
        ({"source": "  ", "execution_count": None}, None),
        ({}, None),
    ],
)
def test_a_cell_that_has_not_run_is_named(change, number, tmp_path):
    cells = [nbformat.v4.new_markdown_cell("words"), nbformat.v4.new_code_cell("1", execution_count=1)]
    cells[1].update(change)
    target = tmp_path / "notebook.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), target)
    if number is None:
        executed.finish(target)
    else:
        with pytest.raises(RuntimeError, match=f"cell {number} has not run to its end"):
            executed.finish(target)
    assert executed.is_finished(target) == (number is None)


PRESET = """
description: one short run
settings: {updates: 2, tasks_per_update: 2, lr: 0.1, beta: 0.05, curve_every: 1, curve_tasks: 8, eval_tasks: 8,
           checkpoint_every: 1, concurrency: 8}
sandboxes:
  toy: {scale: "toy: numbers mean nothing", options: {returns: [0, 0, 1, 0, 1, 1, 0, 1]}, policy: {kind: tabular}}
methods: {}
sweep: {seeds: [0], noise_draws: 2, noise_tasks: 2, rows: [{label: grpo N3, method: grpo, parameters: {returns: 3}}]}
"""


def test_a_kernel_killed_just_after_the_result_is_made_up_for_by_the_next_call(tmp_path):
    """The whole command: the first call fails and names the run, the second runs it again and publishes whole notebooks."""
    (tmp_path / "tiny.yaml").write_text(PRESET)
    places = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    command = [sys.executable, "-m", "reproduce", "run", "--preset", str(tmp_path / "tiny.yaml"), "--sandbox", "toy", *places]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 120
    found = []
    while not found and process.poll() is None and time.monotonic() < deadline:
        found = list(tmp_path.glob("runs/*/grpo-*/result.json"))
        time.sleep(0.002)
    assert found, process.communicate()[0]
    kernels = [pid for worker in children(process.pid) for pid in children(worker)]
    assert kernels
    for kernel in kernels:
        os.kill(kernel, signal.SIGKILL)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 1, said
    assert "failed: grpo N3, seed 0: DeadKernelError" in " ".join(said.split())
    assert not list(tmp_path.glob("results/*/notebooks/*"))
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "1 runs trained, 0 were finished" in again.stdout
    published = list(tmp_path.glob("results/*/notebooks/*.ipynb"))
    assert len(published) == 2
    assert all(executed.unfinished_cell(json.loads(path.read_text())) is None for path in published)


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
