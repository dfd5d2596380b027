"""Runs one process with everything that it starts, under limits that the kernel does not keep for us."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bpo.sandboxes.shell.limits import Limits, Result
from bpo.sandboxes.shell.usage import Usage, available, free, usage

# Seconds between two looks at memory or disk, the share of the time that looking may take, and the longest pause.
LOOK, SHARE, LONGEST = 0.05, 0.1, 1.0
# Seconds that a box is given to be gone, once it has been told to.
PATIENCE = 10.0
# Seconds for which folders may be moved without a pause, so that what is in them cannot be counted: removing a deep tree of an
# overlay's lower layers moves each of its folders, and so does somebody who hides what they write.
HIDDEN = 5.0
# A box is stopped when the host itself has less than this left of memory or of disk, whoever took it.
RESERVE = 256 * 2**20
CHUNK = 2**16


class Failure(RuntimeError):
    """The box itself could not be set up; the command has not run."""


class Gate(Protocol):
    """How a box says which process is its first one, before the command runs: the death of that one is everybody's.

    reading  a descriptor that can be read when there is news;  started: the process has been started, and holds its own ends
    leader   the pid, on the host, None if not known yet;  release: let the command run
    """

    reading: int

    def started(self) -> None: ...
    def leader(self) -> int | None: ...
    def release(self) -> None: ...


class Process:
    """A started process whose output, memory and disk are watched.

    A box with a gate is ended by its first process, of which a handle (a pidfd) is held from before the command runs, so that
    nothing the command does to the others can keep it alive. Without one, `end`, told the pid of the process, brings about the
    death of everything that it has started. The process has these variables and no others, since what it runs may read them.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        stdin: bytes,
        fds: Sequence[int],
        end: Callable[[int], None] | None = None,
        variables: Mapping[str, str] | None = None,
        gate: Gate | None = None,
    ):
        self._end, self._gate = end, gate
        self._leader: int | None = None
        self._first: int | None = None
        self._popen = subprocess.Popen(
            arguments,
            env=dict(variables or {}),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=fds,
        )
        os.set_blocking(self._popen.stdout.fileno(), False)
        self._stdin = memoryview(stdin)
        self.output = bytearray()

    def run(self, limits: Limits, written: Callable[[float], float], store: Path) -> Result:
        """Wait for the end, or bring it about; whatever happens here, nothing of the process is left afterwards.

        written  bytes that lie where the command may write; what is told of more than its argument need not be exact, and it is
                 infinite where they cannot be counted now
        store    a path on the file system that it writes to
        """
        start = time.perf_counter()
        try:
            if self._gate:
                self._gate.started()
            # What earlier commands have left does not stop one that clears it away.
            most = max(limits.disk, written(math.inf))
            ended = self._watch(limits, lambda held: written(most) + held.unnamed, most, store)
        finally:
            self._stop()
        if ended == "exit":
            # Whoever could print is gone, so this comes to an end without waiting.
            while len(self.output) <= limits.output and self._read():
                pass
            ended = "output" if len(self.output) > limits.output else "disk" if written(most) > most else "exit"
        del self.output[limits.output :]
        self._popen.stdout.close()
        code = self._popen.returncode
        code = -1 if ended != "exit" else 128 - code if code < 0 else code
        raw = bytes(self.output)
        return Result(code, raw.decode(errors="replace"), ended, time.perf_counter() - start, raw)

    def _watch(self, limits: Limits, taken: Callable[[Usage], float], most: float, store: Path) -> str:
        end = time.monotonic() + limits.seconds
        free_before = free(store)
        hidden_since: float | None = None
        look_at_memory = look_at_disk = time.monotonic() + LOOK
        gone = os.pidfd_open(self._popen.pid)
        with contextlib.closing(selectors.DefaultSelector()) as waiting:
            waiting.register(self._popen.stdout, selectors.EVENT_READ, self._read)
            waiting.register(gone, selectors.EVENT_READ, None)
            if self._gate:
                waiting.register(self._gate.reading, selectors.EVENT_READ, self._met)
            if self._popen.stdin:
                os.set_blocking(self._popen.stdin.fileno(), False)
                waiting.register(self._popen.stdin, selectors.EVENT_WRITE, self._write)
            try:
                while self._popen.poll() is None:
                    now = time.monotonic()
                    if now > end:
                        return "timeout"
                    if now >= look_at_memory:
                        held = usage(self._popen.pid, self._first)
                        if held.memory > limits.memory or available() < RESERVE:
                            return "memory"
                        look_at_memory = _next(now)
                        if now >= look_at_disk:
                            size, left = taken(held), free(store)
                            hidden_since = (hidden_since or now) if size == math.inf else None
                            if size == math.inf:
                                # What others on this host write meanwhile counts as well, since nothing better is known.
                                size = math.inf if now - hidden_since > HIDDEN else free_before - left
                            if size > most or left < RESERVE:
                                return "disk"
                            look_at_disk = _next(now)
                    for key, _ in waiting.select(min(LOOK, max(1e-3, end - now))):
                        if key.data and not key.data():
                            waiting.unregister(key.fileobj)
                    if len(self.output) > limits.output:
                        return "output"
            finally:
                os.close(gone)
        return "exit"

    def _met(self) -> bool:
        """Take hold of the box's first process, then let the command run."""
        pid = self._gate.leader()
        if pid is None:
            return self._popen.poll() is None
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            # While the started process lives, a pid of a child of its cannot have passed to somebody else.
            if _parent(pid) == self._popen.pid:
                self._leader, self._first = handle, pid
            else:
                os.close(handle)
        self._gate.release()
        return False

    def _read(self) -> bool:
        try:
            chunk = os.read(self._popen.stdout.fileno(), CHUNK)
        except BlockingIOError:
            return False
        self.output += chunk
        return bool(chunk)

    def _write(self) -> bool:
        try:
            sent = os.write(self._popen.stdin.fileno(), self._stdin[:CHUNK])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            sent = len(self._stdin)
        self._stdin = self._stdin[sent:]
        if not self._stdin:
            self._popen.stdin.close()
        return bool(self._stdin)

    def _stop(self) -> None:
        """End the box: its first process always, since the command may have made the others believe that all is over."""
        if self._leader is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._leader, signal.SIGKILL)
            # It is gone when all that it was the first of are.
            _over(self._leader)
            os.close(self._leader)
            self._leader = None
        elif self._end and self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._end(self._popen.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(PATIENCE)
        elif self._popen.poll() is None:
            self._popen.kill()
        try:
            self._popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(PATIENCE)
        if self._popen.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.close()


def _over(handle: int) -> None:
    """Wait until the process of a handle is gone, for as long as patience lasts."""
    with selectors.PollSelector() as waiting:
        waiting.register(handle, selectors.EVENT_READ)
        waiting.select(PATIENCE)


def _next(start: float) -> float:
    """When to look again, after a look that began at `start`."""
    now = time.monotonic()
    return now + min(LONGEST, max(LOOK, (now - start) / SHARE))


def _parent(pid: int) -> int:
    """The pid of a process's parent, 0 where it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0
