"""Notebooks in processes of their own: so many at a time, with a time limit, all of them ended when the driver ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bpo import child
from bpo.cache import cache_dir
from bpo.errors import BadInput
from reproduce.plan import ROOT

NOTEBOOKS = ROOT / "notebooks"
GRACE_S = 10.0
# One thread each: more only fight for the cores, and sums in another order are other numbers.
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Notebook:
    """A notebook to run: its file in notebooks/, where the executed one goes, and the values of its parameters."""

    file: str
    target: Path
    parameters: Mapping[str, Any] = field(default_factory=dict)


def check_parameters(notebook: Notebook) -> None:
    """BadInput for a name that the notebook's parameters cell does not have; papermill itself would only warn."""
    import papermill

    known = papermill.inspect_notebook(str(NOTEBOOKS / notebook.file))
    unknown = [name for name in notebook.parameters if name not in known]
    if unknown:
        raise BadInput(f"{notebook.file} has no parameter {unknown[0]!r} (it has: {', '.join(known)})")


def relative(path: Path | str) -> str:
    """A path as seen from the notebooks, so that executed notebooks hold no path of this machine."""
    return os.path.relpath(path, NOTEBOOKS)


class WorkerPool:
    """Runs notebooks, `size` at a time; leaving the `with` block ends the ones that still run, and their kernels."""

    def __init__(self, size: int, limit_s: float):
        self.size, self.limit_s = size, limit_s
        self.running: dict[int, tuple[subprocess.Popen, float, Path]] = {}

    def __enter__(self) -> WorkerPool:
        return self

    def run(self, notebooks: Sequence[Notebook], ended: Callable[[int, str | None], None], tick: Callable[[], None]) -> None:
        """Run all; `ended(i, message)` for each that ended, with the reason where it failed; `tick()` a few times a second."""
        waiting = list(range(len(notebooks)))
        while waiting or self.running:
            while waiting and len(self.running) < self.size:
                index = waiting.pop(0)
                self.running[index] = self._start(notebooks[index])
            time.sleep(0.2)
            tick()
            for index, (process, start, log) in list(self.running.items()):
                if process.poll() is None and time.monotonic() - start > self.limit_s:
                    _end(process)
                    log.write_text(f"stopped after {self.limit_s / 3600:.2g} hours, the time limit of one notebook")
                if process.poll() is not None:
                    del self.running[index]
                    ended(index, _message(process.returncode, log))

    def __exit__(self, *_) -> None:
        for process, _start, _log in self.running.values():
            _signal(process, signal.SIGTERM)
        for process, _start, _log in self.running.values():
            _end(process)

    def _start(self, notebook: Notebook) -> tuple[subprocess.Popen, float, Path]:
        notebook.target.parent.mkdir(parents=True, exist_ok=True)
        log = notebook.target.with_suffix(".log")
        task = {
            "source": str(NOTEBOOKS / notebook.file),
            "target": str(notebook.target),
            "parameters": dict(notebook.parameters),
        }
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "reproduce.worker"],
                cwd=ROOT,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
                text=True,
            )
        assert process.stdin is not None
        process.stdin.write(json.dumps(task, allow_nan=False))
        process.stdin.close()
        return process, time.monotonic(), log


def _environment() -> dict[str, str]:
    """Variables of a notebook's process: it imports what this process imports, and nobody's start-up files run in it."""
    found = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    imports = {"PYTHONPATH": os.pathsep.join(found)} if found else {}
    return child.environment({**THREADS, **imports, "IPYTHONDIR": str(cache_dir("ipython")), "JUPYTER_PREFER_ENV_PATH": "1"})


def _message(code: int, log: Path) -> str | None:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").split("\n") if line.strip()]
    if code == 0:
        log.unlink()
        return None
    return lines[-1][:500] if lines else f"ended with code {code} and no message"


def _signal(process: subprocess.Popen, number: int) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen) -> None:
    _signal(process, signal.SIGTERM)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()
