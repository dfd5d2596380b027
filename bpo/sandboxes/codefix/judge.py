"""Runs programs with their tests; started as a script in a box. It imports nothing but the standard library.

Standard input is JSON: a list of {"program", "tests", "seconds"}. Standard output is a JSON list of
[verdict, detail, CPU seconds], verdict "pass", "fail" (an exception, named in the detail) or "timeout". Each program runs
in a process of its own, whose output is dropped. That it passed is written to a pipe after the last test: a program that ends
early has not passed. A program that looks for that pipe can forge its verdict: this is a measure, no guard.
"""

import contextlib
import json
import os
import resource
import signal
import sys

PASSED = b"passed"


def child(case: dict, pipe: int) -> None:
    """Run one program and its tests, and say how that went."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    signal.setitimer(signal.ITIMER_PROF, case["seconds"])
    # A program that sleeps uses no CPU time.
    signal.alarm(30)
    space = {"__name__": "solution"}
    try:
        sys.setrecursionlimit(2000)
        exec(compile(case["program"], "solution.py", "exec"), space)
        exec(compile(case["tests"], "tests.py", "exec"), space)
        os.write(pipe, PASSED)
    except BaseException as error:
        os.write(pipe, type(error).__name__.encode())
    os._exit(0)


def judged(case: dict) -> tuple[str, str, float]:
    """The verdict on one case."""
    reading, writing = os.pipe()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(case, writing)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    # Only now, and without waiting: what the program has started may hold the pipe for ever.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.set_blocking(reading, False)
    try:
        said = os.read(reading, 4096)
    except BlockingIOError:
        said = b""
    os.close(reading)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM):
        return "timeout", "", used
    if said == PASSED:
        return "pass", "", used
    return "fail", said.decode(errors="replace") or "it ended before its tests did", used


if __name__ == "__main__":
    json.dump([judged(case) for case in json.load(sys.stdin)], sys.stdout)
