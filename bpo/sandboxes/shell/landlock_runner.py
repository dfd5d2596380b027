"""A small parent for one command where there are no namespaces; run as a script, with its orders as JSON in the first argument.

It confines a child by Landlock and resource limits, waits for it, ends everything that the child has left behind (orphans
come to the runner, which is their subreaper), and exits as the child did. It imports nothing but the standard library.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import warnings  # noqa: F401 - exec imports it, which it could not do once the child is confined

NEW_PRIVILEGES, SUBREAPER, DEATH_SIGNAL = 38, 36, 1
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
# Landlock's rights over files by the version that brought them (1; 2: move between folders; 3: truncate; 5: ioctl on devices).
READ = 0b1101  # run a file, read a file, list a folder
FILES_BY_VERSION = {1: 13, 2: 14, 3: 15, 5: 16}
# Of those, the ones that make sense for a file that is no folder.
ON_FILES = 0b11 | 0b100 | 1 << 14 | 1 << 15
# Version 4: bind and connect of TCP. Version 6: no signals to, and no abstract sockets of, processes outside.
TCP, SCOPES = 0b11, 0b11
SETUP_FAILED = 125

libc = ctypes.CDLL(None, use_errno=True)


class Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """Landlock's version in this kernel, 0 where it is missing or switched off."""
    return max(0, libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


def confine(readable: list[str], writable: list[str]) -> None:
    """Let this process and its children touch nothing else; TCP is closed from version 4 on, UDP stays open."""
    number = version()
    if number < 1:
        raise OSError("Landlock is missing")
    every = (1 << max(bits for since, bits in FILES_BY_VERSION.items() if since <= number)) - 1
    rules = Ruleset(every, TCP if number >= 4 else 0, SCOPES if number >= 6 else 0)
    length = 24 if number >= 6 else 16 if number >= 4 else 8
    handle = _checked(libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(length), ctypes.c_uint32(0)))
    for paths, rights in ((readable, READ), (writable, every)):
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
                allowed = rights if os.path.isdir(path) else rights & ON_FILES
                rule = Beneath(allowed & every, folder)
                _checked(libc.syscall(ADD_RULE, handle, 1, ctypes.byref(rule), ctypes.c_uint32(0)))
                os.close(folder)
    _checked(libc.prctl(NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(libc.syscall(RESTRICT_SELF, handle, ctypes.c_uint32(0)))
    os.close(handle)


def _checked(value: int) -> int:
    if value < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value


def child(orders: dict) -> None:
    """Become the command."""
    try:
        if os.geteuid() != orders["user"]:
            os.setgroups([])
            os.setresgid(*[orders["group"]] * 3)
            os.setresuid(*[orders["user"]] * 3)
        for name, value in orders["limits"].items():
            number = getattr(resource, name)
            most = resource.getrlimit(number)[1]
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(number, (value, value))
        os.chdir(orders["folder"])
        if orders["confined"]:
            confine(orders["readable"], orders["writable"])
        os.set_inheritable(orders["status"], False)
        os.execvpe(orders["command"][0], orders["command"], orders["variables"])
    except BaseException as error:
        os.write(orders["status"], f"{type(error).__name__}: {error}".encode())
    os._exit(SETUP_FAILED)


def descendants(pid: int) -> list[int]:
    """Processes below this one that are not yet gone."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
            for each in map(int, file.read().split()):
                found.append(each)
                with contextlib.suppress(OSError):
                    found += descendants(each)
    return found


def clear() -> None:
    """End all that the command has left behind, until nothing is."""
    while True:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main() -> None:
    """Run the command of the orders."""
    orders = json.loads(sys.argv[1])
    _checked(libc.prctl(SUBREAPER, 1, 0, 0, 0))
    _checked(libc.prctl(DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0))

    def stop(*_) -> None:
        clear()
        os._exit(SETUP_FAILED)

    signal.signal(signal.SIGTERM, stop)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        child(orders)
    while True:
        # Orphans end here too.
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            break
    clear()
    code = os.waitstatus_to_exitcode(status)
    os._exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    main()
