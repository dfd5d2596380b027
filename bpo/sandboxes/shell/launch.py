"""Runs one process with everything that it starts, under limits that the kernel does not keep for us."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bpo.sandboxes.shell.limits import Limits, Result

# Seconds between two looks at memory, and the share of the time that looking at the disk may take.
LOOK, DISK_SHARE = 0.05, 0.1
# A box is stopped when the host itself has less than this left of memory or of disk, whoever took it.
RESERVE = 256 * 2**20
CHUNK = 2**16


class Failure(RuntimeError):
    """The box itself could not be set up; the command has not run."""


class Process:
    """A started process whose output, memory and disk are watched.

    `end`, told the pid of the process, brings about the death of everything that it has started, and with it its own. The
    process has these variables and no others, since what it runs may read them.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        stdin: bytes,
        fds: Sequence[int],
        end: Callable[[int], None],
        variables: Mapping[str, str] | None = None,
    ):
        self._end = end
        self._popen = subprocess.Popen(
            arguments,
            env=dict(variables or {}),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=fds,
        )
        self._stdin = memoryview(stdin)
        self.output = bytearray()

    def run(self, limits: Limits, written: Callable[[], int], store: Path) -> Result:
        """Wait for the end, or bring it about; whatever happens here, nothing of the process is left afterwards.

        written  bytes that lie where the command may write
        store    a path on the file system that it writes to
        """
        start = time.perf_counter()
        # What earlier commands have left does not stop one that clears it away.
        most = max(limits.disk, written())
        try:
            ended = self._watch(limits, lambda: written() > most, store)
        finally:
            self._stop()
        code = self._popen.returncode
        code = -1 if ended != "exit" else 128 - code if code < 0 else code
        raw = bytes(self.output)
        return Result(code, raw.decode(errors="replace"), ended, time.perf_counter() - start, raw)

    def _watch(self, limits: Limits, full: Callable[[], bool], store: Path) -> str:
        end = time.monotonic() + limits.seconds
        look_at_memory = look_at_disk = time.monotonic() + LOOK
        gone = os.pidfd_open(self._popen.pid)
        with contextlib.closing(selectors.DefaultSelector()) as waiting:
            waiting.register(self._popen.stdout, selectors.EVENT_READ, self._read)
            waiting.register(gone, selectors.EVENT_READ, None)
            if self._popen.stdin:
                os.set_blocking(self._popen.stdin.fileno(), False)
                waiting.register(self._popen.stdin, selectors.EVENT_WRITE, self._write)
            try:
                while self._popen.poll() is None:
                    now = time.monotonic()
                    if now > end:
                        return "timeout"
                    if now >= look_at_memory:
                        if resident(self._popen.pid) > limits.memory or available() < RESERVE:
                            return "memory"
                        look_at_memory = now + LOOK
                    if now >= look_at_disk:
                        if full() or free(store) < RESERVE:
                            return "disk"
                        spent = time.monotonic() - now
                        look_at_disk = now + max(LOOK, spent / DISK_SHARE)
                    for key, _ in waiting.select(min(LOOK, max(1e-3, end - now))):
                        if key.data and not key.data():
                            waiting.unregister(key.fileobj)
                    if len(self.output) > limits.output:
                        return "output"
            finally:
                os.close(gone)
                del self.output[limits.output :]
        # All that could print is gone, so this comes to an end.
        while len(self.output) <= limits.output and self._read():
            pass
        if len(self.output) > limits.output:
            del self.output[limits.output :]
            return "output"
        return "disk" if full() else "exit"

    def _read(self) -> bool:
        chunk = os.read(self._popen.stdout.fileno(), CHUNK)
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
        """End what still runs; the process itself last, since it sees all the rest gone."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._end(self._popen.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(10)
            if self._popen.poll() is None:
                self._popen.kill()
                self._popen.wait()
        self._popen.stdout.close()
        if self._popen.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.close()


def resident(pid: int) -> int:
    """Bytes of memory of a process and its descendants that belong to no file; pages shared by a fork count twice."""
    total, pids = 0, [pid]
    while pids:
        folder = f"/proc/{pids.pop()}"
        with contextlib.suppress(OSError, ValueError):
            with open(f"{folder}/status") as file:
                total += sum(1024 * int(line.split()[1]) for line in file if line.startswith(("RssAnon", "RssShmem")))
            for thread in os.listdir(f"{folder}/task"):
                with open(f"{folder}/task/{thread}/children") as file:
                    pids += [int(child) for child in file.read().split()]
    return total


def available() -> int:
    """Bytes of memory that the host can still give out."""
    with open("/proc/meminfo") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))


def free(folder: Path) -> int:
    """Bytes that can still be written to the file system of `folder`."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def size(folder: Path) -> int:
    """Bytes on disk below `folder`, at least a page for everything that has a name; links are not followed."""
    total, folders = 0, [folder]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += max(4096, 512 * entry.stat(follow_symlinks=False).st_blocks)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total
