"""Runs programs with their tests; started as a script in a box. It imports nothing but the standard library.

Standard input is JSON: a list of {"program", "tests", "seconds"}. Standard output is a JSON list of
[verdict, detail, CPU seconds of the program], verdict "pass", "fail" (an exception, named in the detail) or "timeout".

A program and its tests run in two processes. The program's comes from one that has never seen tests; the tests' calls the
program by a pipe and is answered in plain data, so that what is compared is the judge's own. That all tests passed is written
to another pipe, which the program's process never had, and neither may look into the other's memory.
"""

import _socket
import builtins
import contextlib
import ctypes
import json
import os
import signal
import struct
import sys
import types

PASSED = b"passed"
# Wall-clock seconds of a program or its tests: one that sleeps uses no CPU time.
WALL = 30
# Bytes of one message.
LONGEST = 2**28
DUMPABLE, RIGHTS = 4, 1
HEAD = struct.Struct("=Q")
ITERATORS = (types.GeneratorType, map, filter, zip, enumerate, reversed)
SEQUENCES = {tuple: "t", set: "s", frozenset: "f"}


class Unknown:
    """Stands for a value that is no plain data: it equals nothing and can do nothing."""


def encoded(value):
    """Plain data as JSON can hold it, kinds told apart; what is none becomes a mark."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [encoded(each) for each in value]
    if kind in SEQUENCES:
        return {SEQUENCES[kind]: [encoded(each) for each in value]}
    if kind is dict:
        return {"d": [[encoded(key), encoded(each)] for key, each in value.items()]}
    if kind is complex:
        return {"c": [value.real, value.imag]}
    if kind in (bytes, bytearray):
        return {"b": value.hex()}
    if kind is range:
        return {"r": [value.start, value.stop, value.step]}
    if isinstance(value, ITERATORS):
        return {"g": [encoded(each) for each in value]}
    if kind is types.ModuleType:
        return {"m": value.__name__}
    return {"u": ""}


def decoded(value):
    """The plain data of what `encoded` has made; ValueError for anything else."""
    if isinstance(value, list):
        return [decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    for sequence, mark in SEQUENCES.items():
        if kind == mark:
            return sequence(decoded(each) for each in inside)
    if kind == "d":
        return {decoded(key): decoded(each) for key, each in inside}
    if kind == "c":
        return complex(*inside)
    if kind == "b":
        return bytes.fromhex(inside)
    if kind == "r":
        return range(*inside)
    if kind == "g":
        return (each for each in decoded(inside))
    if kind == "m" and inside.partition(".")[0] in sys.stdlib_module_names:
        return __import__(inside)
    return Unknown()


def send(pipe, value):
    """Write one message."""
    data = json.dumps(value).encode()
    data = HEAD.pack(len(data)) + data
    while data:
        data = data[os.write(pipe, data) :]


def receive(pipe):
    """Read one message; EOFError where there is none."""

    def exactly(length):
        parts = []
        while length:
            part = os.read(pipe, min(length, 2**20))
            if not part:
                raise EOFError
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    (length,) = HEAD.unpack(exactly(HEAD.size))
    if length > LONGEST:
        raise EOFError
    return json.loads(exactly(length))


def begin(seconds, keep):
    """Be a process on its own, with nothing open but `keep`, under limits of time."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    low = 3
    for number in sorted(keep):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, 1024)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(WALL)


def serve(program, calls, replies):
    """Be the program: say how it began and what it has, then do what is called, until nobody calls."""
    space = {"__name__": "solution"}
    try:
        sys.setrecursionlimit(2000)
        sys.set_int_max_str_digits(0)
        exec(compile(program, "solution.py", "exec"), space)
        send(replies, {"names": {name: "call" if callable(value) else encoded(value) for name, value in space.items()}})
        while True:
            try:
                name, arguments, named = receive(calls)
            except EOFError:
                return
            try:
                arguments, named = decoded(arguments), decoded(named)
                answer = {"is": encoded(space[name](*arguments, **named))}
            except BaseException as error:
                answer = {"raised": type(error).__name__}
            send(replies, answer)
    except BaseException as error:
        send(replies, {"raised": type(error).__name__})


class Raised(Exception):
    """The program raised; the message is the exception's name."""


def answer(replies):
    """What the program replies; what it raised is raised here, as far as its kind is known here."""
    message = receive(replies)
    if "raised" in message:
        kind = getattr(builtins, str(message["raised"]), None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            raise kind.__new__(kind)
        raise Raised(str(message["raised"]))
    return message


def caller(name, calls, replies):
    """A function that has the program's function of this name called."""

    def call(*arguments, **named):
        send(calls, [name, encoded(list(arguments)), encoded(named)])
        return decoded(answer(replies)["is"])

    return call


def test(tests, calls, replies, told):
    """Be the tests: call the program, and say how that went."""
    try:
        sys.set_int_max_str_digits(0)
        names = answer(replies)["names"]
        # What tests import or define goes before what the program has under the same name.
        space = {
            name: caller(name, calls, replies) if value == "call" else decoded(value)
            for name, value in names.items()
            if not name.startswith("__")
        }
        space["__name__"] = "tests"
        exec(compile(tests, "tests.py", "exec"), space)
        os.write(told, PASSED)
    except EOFError:
        return
    except Raised as error:
        os.write(told, str(error).encode()[:100])
    except BaseException as error:
        os.write(told, type(error).__name__.encode())


def nursery(orders):
    """Start programs, one at a time, and say how each ended; never sees a test."""
    while True:
        data, passed, *_ = orders.recvmsg(HEAD.size, 256)
        if not data:
            os._exit(0)
        calls, replies = struct.unpack("=ii", passed[0][2])
        case = receive(orders.fileno())
        pid = os.fork()
        if pid == 0:
            begin(case["seconds"], (calls, replies))
            serve(case["program"], calls, replies)
            os._exit(0)
        os.close(calls)
        os.close(replies)
        send(orders.fileno(), pid)
        _, status, usage = os.wait4(pid, 0)
        send(orders.fileno(), [status, usage.ru_utime + usage.ru_stime])


def judged(case, orders):
    """The verdict on one case."""
    (calls, call), (reply, replies), (said, told) = os.pipe(), os.pipe(), os.pipe()
    passed = struct.pack("=ii", calls, replies)
    orders.sendmsg([bytes(HEAD.size)], [(_socket.SOL_SOCKET, RIGHTS, passed)])
    send(orders.fileno(), {"program": case["program"], "seconds": case["seconds"]})
    os.close(calls)
    os.close(replies)
    program = receive(orders.fileno())
    pid = os.fork()
    if pid == 0:
        # What the program needs is the program's to use up.
        begin(WALL, (call, reply, told))
        test(case["tests"], call, reply, told)
        os._exit(0)
    for each in (call, reply, told):
        os.close(each)
    _, ended = os.waitpid(pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program, signal.SIGKILL)
    status, used = receive(orders.fileno())
    verdict = os.read(said, 4096)
    os.close(said)
    times = (signal.SIGPROF, signal.SIGALRM)
    if any(os.WIFSIGNALED(each) and os.WTERMSIG(each) in times for each in (status, ended)):
        return "timeout", "", used
    if verdict == PASSED:
        return "pass", "", used
    return "fail", verdict.decode(errors="replace") or "it ended before its tests did", used


def main():
    """Judge the cases of standard input."""
    # Processes of one user may read each other's memory, unless that is switched off; it stays so over a fork.
    ctypes.CDLL(None).prctl(DUMPABLE, 0, 0, 0, 0)
    orders, theirs = (_socket.socket(fileno=pair.detach()) for pair in _socket.socketpair())
    if os.fork() == 0:
        orders.close()
        nursery(theirs)
    theirs.close()
    json.dump([judged(case, orders) for case in json.load(sys.stdin)], sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
