"""What a command and all that it has started hold of the host, read from /proc: without a cgroup nobody else counts it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GONE = b"(deleted)"
# Tables of a network of its own: those that say how much is queued, and the one that lists sockets alone.
QUEUES, UNIX = ("tcp", "tcp6", "udp", "udp6"), "unix"


@dataclass(frozen=True)
class Usage:
    """Bytes of memory, and bytes on disk of files that have no name any more."""

    memory: int
    unnamed: int


def usage(pid: int, network: int | None = None) -> Usage:
    """What a process and its descendants hold.

    Memory is that of no file, memory shared by mapping once and at its whole length, and what sockets can queue. `network` is a
    process in the network that is theirs alone, if there is one: sockets that are on their way in a message are listed there.
    A process that hides what it holds counts as one that has filled its address space.
    """
    memory = 0
    sockets: set[int] = set()
    shared: dict[tuple[str, str], int] = {}
    unnamed: dict[tuple[int, int], int] = {}
    for each in descendants(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            anonymous, whole = _status(each)
            memory += anonymous
            try:
                _mappings(each, shared)
                sockets |= _open(each, unnamed)
            except PermissionError:
                memory += whole - anonymous
    count = len(sockets)
    if network is not None:
        with contextlib.suppress(OSError, ValueError):
            count = max(count, _lines(network, UNIX))
            memory += sum(_queued(network, name) for name in QUEUES) if _in_use(network) else 0
    memory += count * _buffer() + sum(length for (device, _), length in shared.items() if device.startswith("00:"))
    files = sum(length for (device, _), length in shared.items() if not device.startswith("00:"))
    return Usage(memory, sum(unnamed.values()) + files)


def descendants(pid: int) -> Iterator[int]:
    """The process and all below it."""
    pids = [pid]
    while pids:
        pid = pids.pop()
        yield pid
        with contextlib.suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    pids += [int(child) for child in file.read().split()]


def available() -> int:
    """Bytes of memory that the host can still give out."""
    with open("/proc/meminfo") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))


def free(folder: Path) -> int:
    """Bytes that can still be written to the file system of `folder`."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _status(pid: int) -> tuple[int, int]:
    """Bytes of memory of a process that belong to no file, and of its whole address space."""
    found = {"RssAnon": 0, "VmSize": 0}
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = 1024 * int(rest.split()[0])
    return found["RssAnon"], found["VmSize"]


def _mappings(pid: int, shared: dict[tuple[str, str], int]) -> None:
    """Note the mappings of a process whose file has no name, by device and inode, each at its longest."""
    lengths: dict[tuple[str, str], int] = {}
    with open(f"/proc/{pid}/maps", "rb") as file:
        text = file.read()
    if GONE not in text:
        return
    for line in text.splitlines():
        if line.endswith(GONE):
            span, _, _, device, inode, *_ = line.decode(errors="replace").split()
            start, _, end = span.partition("-")
            lengths[device, inode] = lengths.get((device, inode), 0) + int(end, 16) - int(start, 16)
    for key, length in lengths.items():
        shared[key] = max(shared.get(key, 0), length)


def _open(pid: int, unnamed: dict[tuple[int, int], int]) -> set[int]:
    """The sockets that a process holds; its files without a name are noted, by device and inode."""
    sockets = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        with contextlib.suppress(FileNotFoundError):
            info = os.stat(path)
            if stat.S_ISSOCK(info.st_mode):
                sockets.add(info.st_ino)
            elif stat.S_ISREG(info.st_mode) and not info.st_nlink:
                unnamed[info.st_dev, info.st_ino] = 512 * info.st_blocks
    return sockets


def _lines(pid: int, table: str) -> int:
    with open(f"/proc/{pid}/net/{table}", "rb") as file:
        return max(0, file.read().count(b"\n") - 1)


def _in_use(pid: int) -> bool:
    """Whether there is any socket of IP: the tables themselves take milliseconds to read, however empty."""
    with open(f"/proc/{pid}/net/sockstat") as file, contextlib.suppress(FileNotFoundError):
        lines = file.readlines()
        with open(f"/proc/{pid}/net/sockstat6") as more:
            lines += more.readlines()
    return any(not line.startswith("sockets:") and line.split()[2] != "0" for line in lines)


def _queued(pid: int, table: str) -> int:
    """Bytes that wait in the sockets of a table."""
    with open(f"/proc/{pid}/net/{table}") as file:
        rows = [line.split()[4].split(":") for line in file.readlines()[1:]]
    return sum(int(sending, 16) + int(arrived, 16) for sending, arrived in rows)


@cache
def _buffer() -> int:
    """Bytes that a socket queues until its writer has to wait."""
    try:
        with open("/proc/sys/net/core/wmem_default") as file:
            return int(file.read())
    except OSError:
        return 212_992
