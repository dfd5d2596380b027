"""The filter of system calls: what it says of every call, by playing it, and its numbers against those of libseccomp."""

import ctypes
import struct
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="boxes need Linux")

from bpo.sandboxes.shell import syscalls  # noqa: E402

MACHINES = sorted(syscalls.ARCHITECTURES)
KINDS = sorted(syscalls.KINDS)


def said(kind, machine, number, arguments=(), audit=None):
    """What the filter answers to a call: a machine of its own for the instructions that it uses."""
    program = list(struct.iter_unpack("=HBBI", syscalls.compiled(kind, machine)))
    values = [*arguments, *[0] * (6 - len(arguments))]
    audit = syscalls.ARCHITECTURES[machine].audit if audit is None else audit
    data = struct.pack("=IIQ6Q", number, audit, 0, *(value & (2**64 - 1) for value in values))
    at, word = 0, 0
    while True:
        code, true, false, constant = program[at]
        at += 1
        if code == 0x20:
            (word,) = struct.unpack_from("=I", data, constant)
        elif code == 0x54:
            word &= constant
        elif code == 0x05:
            at += constant
        elif code == 0x15:
            at += true if word == constant else false
        elif code == 0x25:
            at += true if word > constant else false
        else:
            assert code == 0x06
            return constant


def refused(answer):
    return answer & 0x7FFF0000 == syscalls.ERROR


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", KINDS)
def test_forbidden_calls_are_refused_and_plain_ones_are_not(kind, machine):
    numbers = syscalls.ARCHITECTURES[machine].numbers
    for name in (*syscalls.FORBIDDEN, *syscalls.UNCOUNTED):
        if name in numbers:
            assert refused(said(kind, machine, numbers[name])), name
    told = set(numbers.values())
    assert all(said(kind, machine, number) == syscalls.ALLOW for number in range(syscalls.NEWEST + 1) if number not in told)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_other_machines_and_of_the_future_are_refused(kind, machine):
    refusal = syscalls.ERROR | syscalls.ENOSYS
    assert said(kind, machine, syscalls.NEWEST + 1) == refusal
    assert said(kind, machine, 1 | syscalls.VARIANT) == refusal, "the 32-bit variant of x86-64 has numbers of its own"
    assert said(kind, machine, 1, audit=0x40000003) == refusal


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_said_of_arguments(machine):
    numbers = syscalls.ARCHITECTURES[machine].numbers

    def ok(kind, name, *arguments):
        return (
            not refused(said(kind, machine, numbers[name], arguments))
            or said(kind, machine, numbers[name], arguments) == syscalls.ERROR
        )

    for kind in KINDS:
        assert ok(kind, "clone", 0x11)
        assert not ok(kind, "clone", 0x10000011), "children, but no user namespaces"
        assert ok(kind, "prlimit64", 0)
        assert not ok(kind, "prlimit64", 77), "limits of its own, but of no other process"
        assert ok(kind, "setpriority", 0, 0)
        assert not ok(kind, "setpriority", 0, 77)
        assert not ok(kind, "setpriority", 2, 0)
        assert ok(kind, "sched_setaffinity", 0)
        assert not ok(kind, "sched_setaffinity", 77)
        assert ok(kind, "ioctl", 0, 0x5401)
        assert not ok(kind, "ioctl", 0, 0x5412)
        assert not ok(kind, "ioctl", 0, 0x5412 | 1 << 40), "the kernel looks at the low half only, and so does the filter"
        assert ok(kind, "personality", 0x40000)
        assert not ok(kind, "personality", 0x400000)
        assert said(kind, machine, numbers["setsockopt"], (3, 1, 7)) == syscalls.ERROR, "taken for done, and not done"
        assert said(kind, machine, numbers["setsockopt"], (3, 1, 2)) == syscalls.ALLOW
    assert ok("overlay", "socket", 1)
    assert ok("overlay", "socket", 2)
    assert not ok("overlay", "socket", 40)
    assert ok("overlay", "socket", 16, 3, 0)
    assert not ok("overlay", "socket", 16, 3, 15)
    assert not ok("landlock", "socket", 1)
    assert not ok("landlock", "socket", 2)
    assert ok("landlock", "socketpair", 1, 1 | 0x80000)
    assert not ok("landlock", "socketpair", 1, 2)
    assert said("landlock", machine, numbers["fchmodat"]) == syscalls.NOTIFY
    assert said("overlay", machine, numbers["fchmodat"]) == syscalls.ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_libseccomp(machine):
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not installed")
    architecture = syscalls.ARCHITECTURES[machine]
    found = {
        name: library.seccomp_syscall_resolve_name_arch(ctypes.c_uint32(architecture.audit), name.encode())
        for name in architecture.numbers
    }
    # Calls that this libseccomp is too old to know are -1.
    known = {name: number for name, number in found.items() if number != -1}
    assert len(known) > 90
    assert known == {name: architecture.numbers[name] for name in known}


def test_a_machine_that_is_not_known_has_no_filter():
    assert syscalls.compiled("overlay", "riscv64") is None
    assert syscalls.asked("riscv64") == {}
