"""One notebook in one process: `python -m reproduce.worker` reads what to do as JSON from standard input.

The process is the unit of isolation: papermill changes the working directory, so it must not share one with another. It ends
with 0 where every cell ran, else 1 and one line on standard error; the executed notebook is kept in both cases, with the
traceback where there is one. It ends when the process that started it is gone, and its kernel with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from reproduce import executed

START_TIMEOUT_S = 300


def execute(source: Path, target: Path, parameters: dict[str, Any]) -> None:
    """Run a notebook with these parameters, its own folder as working directory; `target` appears when it has ended.

    Last of all, and only where every cell has run, the record that it is finished.
    """
    import papermill

    target.parent.mkdir(parents=True, exist_ok=True)
    executed.done_record(target).unlink(missing_ok=True)
    unfinished = target.with_name(f".{target.stem}.unfinished.ipynb")
    try:
        papermill.execute_notebook(
            str(source),
            str(unfinished),
            parameters=parameters,
            kernel_name="python3",
            cwd=str(source.parent),
            progress_bar=False,
            log_output=False,
            start_timeout=START_TIMEOUT_S,
            extra_arguments=["--log-level=40"],
        )
    finally:
        if unfinished.exists():
            os.replace(unfinished, target)
    executed.finish(target)


def main() -> int:
    """Do what standard input says: source, target, parameters."""
    task = json.load(sys.stdin)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    from papermill.exceptions import PapermillExecutionError

    try:
        execute(Path(task["source"]), Path(task["target"]), task["parameters"])
    except PapermillExecutionError as error:
        print(f"{error.ename}: {error.evalue}", file=sys.stderr)
        return 1
    except Exception as error:  # a dead or absent kernel, a full disk: all of them end this run and no other
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)  # the kernel watches this process in the same way


if __name__ == "__main__":
    sys.exit(main())
