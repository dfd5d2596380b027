"""The system calls that no box may make, as a filter that the kernel runs (seccomp); compiled here, once per process and kind.

Overlay boxes are given the filter by bubblewrap, Landlock boxes by their runner. A call that the filter refuses fails with an
error, as if the kernel did not have it. Calls that are newer than this table are refused: what they do is not known.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

# What becomes of a call: values of SECCOMP_RET_*, an error in the low bits.
ALLOW, ERROR, NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
EPERM, EACCES, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT = 1, 13, 38, 95, 97
# The classic packet filter's instructions: load a word, mask it, jump, answer; where the kernel puts what of a call.
LOAD, MASK, ALWAYS, EQUAL, ABOVE, ANSWER = 0x20, 0x54, 0x05, 0x15, 0x25, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
# The last call of this table (mseal, Linux 6.10), and where x86-64 keeps the calls of its 32-bit variant.
NEWEST, VARIANT = 462, 0x40000000


@dataclass(frozen=True)
class Architecture:
    """A kind of processor: its name for the kernel, and the numbers of its calls (those it lacks are left out)."""

    audit: int
    numbers: Mapping[str, int]


@dataclass(frozen=True)
class Only:
    """A condition on one argument (its low 32 bits, under a mask): it is, or with `other` is not, one of these values."""

    argument: int
    values: tuple[int, ...]
    other: bool = False
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True)
class Rule:
    """What becomes of one call where all conditions hold."""

    call: str
    answer: int
    conditions: tuple[Only, ...] = ()


# Calls of one number on every architecture; then name: (x86-64, aarch64), None where there is none.
_SHARED = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "fchmodat2": 452,
    "statmount": 457,
    "listmount": 458,
    "lsm_set_self_attr": 460,
}
_TABLE = """
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272, add_key 248 217, request_key 249 218,
keyctl 250 219, bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, shmget 29 194, shmat 30 196, shmctl 31 195,
shmdt 67 197,
semget 64 190, semop 65 193, semtimedop 220 192, semctl 66 191, msgget 68 186, msgsnd 69 189, msgrcv 70 188,
msgctl 71 187, mq_open 240 180, mq_unlink 241 181, memfd_create 319 279, unshare 272 97, setns 308 268, clone 56 220,
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, name_to_handle_at 303 264, open_by_handle_at 304 265,
fanotify_init 300 262, lookup_dcookie 212 18, quotactl 179 60, acct 163 89, swapon 167 224, swapoff 168 225, reboot 169 142,
kexec_load 246 104, kexec_file_load 320 294, init_module 175 105, finit_module 313 273, delete_module 176 106,
create_module 174 -, get_kernel_syms 177 -, query_module 178 -, nfsservctl 180 42, sysfs 139 -, uselib 134 -, ustat 136 -,
_sysctl 156 -, syslog 103 116, iopl 172 -, ioperm 173 -, modify_ldt 154 -, vhangup 153 58, settimeofday 164 170,
clock_settime 227 112, clock_adjtime 305 266, adjtimex 159 171, move_pages 279 239, migrate_pages 256 238, personality 135 92,
sethostname 170 161, setdomainname 171 162, prlimit64 302 261, setpriority 141 140, sched_setaffinity 203 122,
sched_setscheduler 144 119, sched_setparam 142 118, sched_setattr 314 274, ioprio_set 251 30, ioctl 16 29, socket 41 198,
socketpair 53 199, setsockopt 54 208, chmod 90 -, fchmod 91 52, fchmodat 268 53, chown 92 -, fchown 93 55, lchown 94 -,
fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88, setxattr 188 5, lsetxattr 189 6,
fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, io_setup 206 0, fcntl 72 25,
inotify_add_watch 254 27
"""


def _numbers(column: int) -> dict[str, int]:
    rows = [row.split() for row in _TABLE.replace("\n", " ").split(",")]
    return {**_SHARED, **{row[0]: int(row[column]) for row in rows if row[column] != "-"}}


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, _numbers(1)), "aarch64": Architecture(0xC00000B7, _numbers(2))}

# Reach into other processes, load code into the kernel, name files by other ways than their paths, change the machine.
FORBIDDEN = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "process_madvise", "process_mrelease"),
    *("bpf", "perf_event_open", "userfaultfd", "lsm_set_self_attr", "lookup_dcookie", "modify_ldt"),
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "mount_setattr", "statmount", "listmount", "name_to_handle_at", "open_by_handle_at"),
    *("fanotify_init", "quotactl", "quotactl_fd", "acct", "swapon", "swapoff", "reboot", "kexec_load", "kexec_file_load"),
    *("init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module", "nfsservctl"),
    *("sysfs", "uselib", "ustat", "_sysctl", "syslog", "iopl", "ioperm", "vhangup", "settimeofday", "clock_settime"),
    *("clock_adjtime", "adjtimex", "move_pages", "migrate_pages", "sethostname", "setdomainname"),
)
# Memory and names that belong to no process and no folder, hence to nobody's limits: keys, System V objects, queues, files
# in memory; io_uring besides makes calls that no filter sees. Programs take the absence of these for an older kernel.
UNCOUNTED = (
    *("add_key", "request_key", "keyctl", "shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "memfd_create", "memfd_secret"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup"),
)
# Flags of clone that make namespaces; clone3 keeps its flags in memory, so that libraries must go on with clone.
NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
# Put characters into a terminal's input; a terminal's selection.
TERMINAL = (0x5412, 0x541C)
# Address space layouts that programs ask for: Linux's own, without randomness, with short inode numbers; and "what is it".
PERSONALITIES = (0, 0x40000, 0x20000, 0x8, 0x20008, 0xFFFFFFFF)
# Unix, IPv4, IPv6, and the kernel's tables of a namespace's own network; stream and sequenced packets.
UNIX, FAMILIES, NETLINK, CONNECTED = 1, (1, 2, 10, 16), 16, (1, 5)
# Options of a socket that make its buffers larger, with SOL_SOCKET.
SOCKET, BUFFERS = 1, (7, 8, 32, 33)
# The pipe's size, by fcntl; flags of files, by ioctl.
PIPE_SIZE, FILE_FLAGS = 1031, (0x40086602, 0x40046602, 0x401C5820)

_EVERYWHERE = (
    *(Rule(call, ERROR | EPERM) for call in FORBIDDEN),
    *(Rule(call, ERROR | ENOSYS) for call in UNCOUNTED),
    Rule("clone3", ERROR | ENOSYS),
    *(Rule("clone", ERROR | EPERM, (Only(0, (flag,), mask=flag),)) for flag in NAMESPACES),
    Rule("ioctl", ERROR | EPERM, (Only(1, TERMINAL),)),
    Rule("personality", ERROR | EPERM, (Only(0, PERSONALITIES, other=True),)),
    # Limits, priorities and processors of others.
    Rule("prlimit64", ERROR | EPERM, (Only(0, (0,), other=True),)),
    *(
        Rule(call, ERROR | EPERM, (Only(0, (0,), other=True),))
        for call in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
    ),
    Rule("setpriority", ERROR | EPERM, (Only(0, (0,), other=True),)),
    Rule("setpriority", ERROR | EPERM, (Only(1, (0,), other=True),)),
    Rule("ioprio_set", ERROR | EPERM, (Only(0, (1,), other=True),)),
    Rule("ioprio_set", ERROR | EPERM, (Only(1, (0,), other=True),)),
    # Buffers stay as large as the host makes them, so that counting sockets bounds what they hold; nobody needs to know.
    Rule("setsockopt", ERROR, (Only(1, (SOCKET,)), Only(2, BUFFERS))),
    Rule("fcntl", ERROR | EPERM, (Only(1, (PIPE_SIZE,)),)),
)
_OVERLAY = (
    Rule("socket", ERROR | EAFNOSUPPORT, (Only(0, FAMILIES, other=True),)),
    Rule("socket", ERROR | EAFNOSUPPORT, (Only(0, (NETLINK,)), Only(2, (0,), other=True))),
)
# Landlock knows no owners, modes, times and attributes, no sockets but TCP: what it cannot hold is refused, or asked of the
# runner, which does it in the caller's place if the file is one of the box's own.
ASKED = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat")
_LANDLOCK = (
    *(Rule(call, ERROR | EPERM) for call in ("chown", "fchown", "lchown", "fchownat")),
    *(
        Rule(call, ERROR | EOPNOTSUPP)
        for call in ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr")
    ),
    Rule("ioctl", ERROR | EOPNOTSUPP, (Only(1, FILE_FLAGS),)),
    # A watch tells what happens in folders that cannot be read.
    Rule("inotify_add_watch", ERROR | EACCES),
    Rule("socket", ERROR | EAFNOSUPPORT),
    Rule("socketpair", ERROR | EAFNOSUPPORT, (Only(0, (UNIX,), other=True),)),
    # A pair of datagram sockets could be turned to any other.
    Rule("socketpair", ERROR | EAFNOSUPPORT, (Only(1, CONNECTED, other=True, mask=0xF),)),
    *(Rule(call, NOTIFY) for call in ASKED),
)
KINDS = {"overlay": _EVERYWHERE + _OVERLAY, "landlock": _EVERYWHERE + _LANDLOCK}


@cache
def compiled(kind: str, machine: str | None = None) -> bytes | None:
    """The filter of a kind of box as the kernel takes it; None where this machine's calls are not known."""
    architecture = ARCHITECTURES.get(machine or platform.machine())
    return None if architecture is None else b"".join(struct.pack("=HBBI", *one) for one in _program(architecture, KINDS[kind]))


def asked(machine: str | None = None) -> dict[str, int]:
    """Numbers of the calls that the runner of a Landlock box is asked about."""
    architecture = ARCHITECTURES.get(machine or platform.machine())
    return {} if architecture is None else {name: architecture.numbers[name] for name in ASKED if name in architecture.numbers}


Instruction = tuple[int, int, int, int]


def _program(architecture: Architecture, rules: Iterable[Rule]) -> list[Instruction]:
    refused = ERROR | ENOSYS
    found: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, architecture.audit),
        (ANSWER, 0, 0, refused),
        (LOAD, 0, 0, NUMBER),
        (ABOVE, 0, 1, NEWEST),
        (ANSWER, 0, 0, refused),
    ]
    for rule in rules:
        if rule.call in architecture.numbers:
            found += _rule(architecture.numbers[rule.call], rule)
    return [*found, (ANSWER, 0, 0, ALLOW)]


def _rule(number: int, rule: Rule) -> list[Instruction]:
    """Instructions that answer one call, or come out behind themselves with the call's number loaded again."""
    body = [one for condition in rule.conditions for one in _condition(condition)]
    body.append((ANSWER, 0, 0, rule.answer))
    if rule.conditions:
        # Where a condition does not hold it leads to the end of the rule.
        body = [(ALWAYS, 0, 0, len(body) - at - 1) if one is _MISSED else one for at, one in enumerate(body)]
        body.append((LOAD, 0, 0, NUMBER))
    return [(EQUAL, 0, len(body), number), *body]


_MISSED: Instruction = (ALWAYS, 0, 0, 0)


def _condition(condition: Only) -> list[Instruction]:
    load: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS + 8 * condition.argument), (MASK, 0, 0, condition.mask)]
    return load + _members(condition.values, condition.other)


def _members(values: Sequence[int], other: bool) -> list[Instruction]:
    """Go on where the loaded word is among the values (or is not), else to what stands for "missed"."""
    tests: list[Instruction] = []
    for at, value in enumerate(values):
        left = len(values) - at - 1
        # Behind the last test stands the way of a word that equals none of them, one instruction long.
        tests.append((EQUAL, left + 1, 0, value))
    return [*tests, *([(ALWAYS, 0, 0, 1), _MISSED] if other else [_MISSED])]
