"""A small parent for one command where there are no namespaces; run as a script, with its orders as JSON in the first argument.

It confines a child by Landlock, a filter of system calls and resource limits, waits for it, ends everything that the child has
left behind (orphans come to the runner, which is their subreaper), and exits as the child did. Landlock does not know modes and
times of files: the filter has the runner asked about them, which changes what is the box's own, in the caller's place.
It imports nothing but the standard library.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import select
import signal
import stat
import struct
import sys
import time
import warnings  # noqa: F401 - exec imports it, which it could not do once the child is confined

NEW_PRIVILEGES, SUBREAPER, DEATH_SIGNAL, DUMPABLE = 38, 36, 1, 4
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
# Landlock's rights over files by the version that brought them (1; 2: move between folders; 3: truncate; 5: ioctl on devices).
READ = 0b1101  # run a file, read a file, list a folder
FILES_BY_VERSION = {1: 13, 2: 14, 3: 15, 5: 16}
# Of those, the ones that make sense for a file that is no folder.
ON_FILES = 0b11 | 0b100 | 1 << 14 | 1 << 15
# Version 4: bind and connect of TCP. Version 6: no signals to, and no abstract sockets of, processes outside.
TCP, SCOPES, SIGNALS = 0b11, 0b11, 0b10
LIST, SETUP_FAILED = 0b1000, 125
# System calls by machine, with their numbers: seccomp and pidfd_getfd. The filter's mode, its flag for a handle that is asked,
# and what that handle takes: receive, answer, whether a question still stands; the lengths of question and answer.
SECCOMP = {"x86_64": 317, "aarch64": 277}
PIDFD_OPEN, PIDFD_GETFD, FILTER, LISTEN = 434, 438, 1, 1 << 3
RECEIVE, SEND, VALID = 0xC0502100, 0xC0182101, 0x40082102
QUESTION, ANSWER = "=QIIiIQ6Q", "=QqiI"
HERE, NO_FOLLOW, EMPTY, LONGEST_PATH = -100, 0x100, 0x1000, 4096

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


def confine(readable: list[str], listed: list[str], writable: list[str]) -> None:
    """Let this process and its children touch nothing else; of `listed` folders, only what they hold by name can be seen."""
    number = version()
    if number < 1:
        raise OSError("Landlock is missing")
    every = (1 << max(bits for since, bits in FILES_BY_VERSION.items() if since <= number)) - 1
    rules = Ruleset(every, TCP if number >= 4 else 0, SCOPES if number >= 6 else 0)
    length = 24 if number >= 6 else 16 if number >= 4 else 8
    handle = _checked(libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(length), ctypes.c_uint32(0)))
    for paths, rights in ((readable, READ), (listed, LIST), (writable, every)):
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
                allowed = rights if os.path.isdir(path) else rights & ON_FILES
                rule = Beneath(allowed & every, folder)
                _checked(libc.syscall(ADD_RULE, handle, 1, ctypes.byref(rule), ctypes.c_uint32(0)))
                os.close(folder)
    _restricted(handle)


def _restricted(handle: int) -> None:
    _checked(libc.prctl(NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(libc.syscall(RESTRICT_SELF, handle, ctypes.c_uint32(0)))
    os.close(handle)


def fence() -> bool:
    """Keep this process's signals, and those of its children, among themselves; whether that is so, by trying it."""
    parent = os.getppid()
    if version() < 6 or parent == 1:
        return False
    rules = Ruleset(0, 0, SIGNALS)
    handle = _checked(libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(24), ctypes.c_uint32(0)))
    _restricted(handle)
    try:
        os.kill(parent, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return False


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def filtered(code: bytes) -> int:
    """Let this process and its children make no system call that the filter refuses; returns the handle that is asked."""
    program = Program(len(code) // 8, code)
    _checked(libc.prctl(NEW_PRIVILEGES, 1, 0, 0, 0))
    call = SECCOMP[os.uname().machine], ctypes.c_uint(FILTER), ctypes.c_uint(LISTEN), ctypes.byref(program)
    return _checked(libc.syscall(*call))


def _checked(value: int) -> int:
    if value < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value


def child(orders: dict, ready: int) -> None:
    """Become the command; `ready` can be read when the runner holds what it is asked by."""
    try:
        if os.geteuid() != orders["user"]:
            os.setgroups([])
            os.setresgid(*[orders["group"]] * 3)
            os.setresuid(*[orders["user"]] * 3)
        libc.prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        for name, value in orders["limits"].items():
            number = getattr(resource, name)
            most = resource.getrlimit(number)[1]
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(number, (value, value))
        try:
            os.chdir(orders["folder"])
        except PermissionError:
            # A command has closed it to its own user: another starts elsewhere, and may open it again.
            os.chdir("/")
        if orders["confined"]:
            confine(orders["readable"], orders["listed"], orders["writable"])
        os.set_inheritable(orders["status"], False)
        if orders["filter"]:
            # The runner takes the handle out of this process, which the boxes' user may not reach into by itself.
            libc.prctl(DUMPABLE, 1, 0, 0, 0)
            os.write(orders["status"], struct.pack("=i", handle := filtered(bytes.fromhex(orders["filter"]))))
            os.read(ready, 1)
            os.close(handle)
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


def clear(fenced: bool) -> None:
    """End all that the command has left behind, until nothing is.

    Inside a fence that has been tried, everybody is signalled at once, so that none can start another in between.
    """
    while True:
        if fenced:
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


class AttributeBroker:
    """Changes modes and times of files below some folders, as the boxes' user, when the filter asks; of no other files.

    The file is opened first, by the caller's words, and it is the opened file that is looked at and changed: names that change
    meanwhile lead nowhere else.
    """

    def __init__(self, handle: int, asked: dict[str, int], folders: list[str], user: int, group: int):
        self.handle, self._user, self._group = handle, user, group
        self._folders = [os.path.realpath(path) for path in folders]
        self._calls = {number: name for name, number in asked.items()}

    def answer(self) -> None:
        """Take one question and answer it."""
        question = bytearray(struct.calcsize(QUESTION))
        try:
            _ioctl(self.handle, RECEIVE, question)
        except OSError:
            return  # the caller is gone
        number, pid, _, call, _, _, *arguments = struct.unpack(QUESTION, question)
        try:
            # The boxes' user has no rights beyond the box's; the runner's own may be root's.
            os.setegid(self._group)
            os.seteuid(self._user)
            self._done(self._calls[call], pid, number, arguments)
            error = 0
        except OSError as problem:
            error = problem.errno or errno.EPERM
        except (KeyError, ValueError, OverflowError, struct.error):
            error = errno.EINVAL
        finally:
            os.seteuid(os.getuid())
            os.setegid(os.getgid())
        with contextlib.suppress(OSError):
            _ioctl(self.handle, SEND, bytearray(struct.pack(ANSWER, number, 0, -error, 0)))

    def _done(self, name: str, pid: int, number: int, arguments: list[int]) -> None:
        at = "at" in name
        folder = _signed(arguments[0]) if at else HERE
        first = arguments[1] if at else arguments[0]
        rest = arguments[2:] if at else arguments[1:]
        flags = rest[1] & 0xFFFFFFFF if name in ("fchmodat2", "utimensat") else 0
        # A descriptor instead of a path: what it is open on is what is changed.
        direct = _signed(arguments[0]) if name == "fchmod" else folder if name == "utimensat" and not first else None
        mode = rest[0] & 0o7777 if name.startswith(("chmod", "fchmod")) else None
        times = None if mode is not None else self._times(name, pid, rest[0])
        opened = self._opened(pid, number, folder, first, flags, direct)
        try:
            self._change(opened, mode, times)
        finally:
            os.close(opened)

    def _opened(self, pid: int, number: int, folder: int, address: int, flags: int, direct: int | None) -> int:
        """A descriptor of the file that is meant, without any right to it."""
        path = b"" if direct is not None else _text(pid, address)
        if direct is None and not path and not flags & EMPTY:
            raise OSError(errno.ENOENT, "")
        base = folder if direct is None else direct
        place = f"/proc/{pid}/cwd" if base == HERE else f"/proc/{pid}/fd/{base}"
        start = os.open(place, os.O_PATH | os.O_CLOEXEC)
        # What was read is the caller's only if it still waits.
        _ioctl(self.handle, VALID, bytearray(struct.pack("=Q", number)))
        if not path:
            return start
        try:
            return os.open(path, os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if flags & NO_FOLLOW else 0), dir_fd=start)
        finally:
            os.close(start)

    def _change(self, opened: int, mode: int | None, times: tuple | None) -> None:
        path = f"/proc/self/fd/{opened}"
        real = os.readlink(path)
        if not any(real == folder or real.startswith(folder + "/") for folder in self._folders):
            raise OSError(errno.EPERM, "")
        info = os.fstat(opened)
        if mode is not None:
            if stat.S_ISLNK(info.st_mode):
                raise OSError(errno.EOPNOTSUPP, "")
            return os.chmod(path, mode)
        now, omitted = (1 << 30) - 1, (1 << 30) - 2
        if times is None or all(part[1] == now for part in times):
            return os.utime(path)
        if all(part[1] == omitted for part in times):
            return None
        kept = zip(times, (info.st_atime_ns, info.st_mtime_ns), strict=True)
        instead = {omitted: lambda was: was, now: lambda was: time.time_ns()}
        given = [instead[part[1]](was) if part[1] in instead else part[0] * 10**9 + part[1] for part, was in kept]
        return os.utime(path, ns=(given[0], given[1]))

    @staticmethod
    def _times(name: str, pid: int, address: int) -> tuple | None:
        """Times of last access and change as (seconds, nanoseconds), None for now."""
        if not address:
            return None
        if name == "utime":
            seen, changed = struct.unpack("=qq", _memory(pid, address, 16))
            return (seen, 0), (changed, 0)
        values = struct.unpack("=qqqq", _memory(pid, address, 32))
        scale = 1 if name == "utimensat" else 1000
        return (values[0], values[1] * scale), (values[2], values[3] * scale)


def _ioctl(handle: int, request: int, data: bytearray) -> None:
    _checked(libc.ioctl(handle, ctypes.c_ulong(request), (ctypes.c_char * len(data)).from_buffer(data)))


def _signed(value: int) -> int:
    return (value & 0xFFFFFFFF) - (1 << 32) if value & 0x80000000 else value & 0xFFFFFFFF


def _memory(pid: int, address: int, length: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        return os.pread(file.fileno(), length, address)


def _text(pid: int, address: int) -> bytes:
    """A path in another process's memory, which may end where the next page would begin."""
    text = b""
    while b"\0" not in text:
        if len(text) >= LONGEST_PATH:
            raise OSError(errno.ENAMETOOLONG, "")
        at = address + len(text)
        if not (chunk := _memory(pid, at, LONGEST_PATH - at % LONGEST_PATH)):
            raise OSError(errno.EFAULT, "")
        text += chunk
    return text[: text.index(b"\0")]


def _handle(pid: int, number: int) -> int:
    """A descriptor of another process, here."""
    process = _checked(libc.syscall(PIDFD_OPEN, pid, 0))
    try:
        return _checked(libc.syscall(PIDFD_GETFD, process, number, 0))
    finally:
        os.close(process)


def main() -> None:
    """Run the command of the orders."""
    orders = json.loads(sys.argv[1])
    _checked(libc.prctl(SUBREAPER, 1, 0, 0, 0))
    _checked(libc.prctl(DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0))
    fenced = bool(orders["confined"]) and fence()

    def stop(*_) -> None:
        clear(fenced)
        os._exit(SETUP_FAILED)

    signal.signal(signal.SIGTERM, stop)
    told, orders["status"], said = orders["status"], *reversed(os.pipe())
    os.set_inheritable(told, False)
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for end in (said, go):
            os.close(end)
        child(orders, ready)
    for end in (orders["status"], ready):
        os.close(end)
    broker = None
    if orders["filter"]:
        first = os.read(said, LONGEST_PATH)
        if len(first) == 4:
            handle = _handle(pid, struct.unpack("=i", first)[0])
            broker = AttributeBroker(handle, orders["asked"], orders["writable"], orders["user"], orders["group"])
            os.write(go, b"x")
        else:
            os.write(told, first)
    # The other end closes when the command has begun, or could not be.
    _watch(pid, broker, said, told, fenced)


def _watch(pid: int, broker: "AttributeBroker | None", said: int, told: int, fenced: bool) -> None:
    """Answer what is asked until the command has ended, end what it has left, and exit as it did."""
    waiting = select.poll()
    over = _checked(libc.syscall(PIDFD_OPEN, pid, 0))
    for handle in (over, said, *([broker.handle] if broker else [])):
        waiting.register(handle, select.POLLIN)
    status = None
    while status is None:
        for handle, event in waiting.poll(1000):
            if handle == said:
                if problem := os.read(said, LONGEST_PATH):
                    os.write(told, problem)
                else:
                    waiting.unregister(said)
            elif broker and handle == broker.handle:
                if event & select.POLLIN:
                    broker.answer()
                else:
                    waiting.unregister(handle)
            else:
                _, status = os.waitpid(pid, 0)
        _bury(pid)
    clear(fenced)
    code = os.waitstatus_to_exitcode(status)
    os._exit(128 - code if code < 0 else code)


def _bury(pid: int) -> None:
    """Orphans end here too."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == pid:
            return
        os.waitpid(ended.si_pid, 0)


if __name__ == "__main__":
    main()
