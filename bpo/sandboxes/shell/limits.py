"""What a command in a box may use, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, fields

from bpo.errors import BadInput

MiB = 2**20
# The kernel's limit for one argument of a program in bytes, its closing NUL included.
ARGUMENT = 128 * 1024
# How a command can end, with the sentence that an agent is told.
ENDINGS = {
    "exit": "",
    "timeout": "the command took too long and was stopped with everything it had started",
    "memory": "the command used too much memory and was stopped with everything it had started",
    "disk": "the command wrote too much to disk and was stopped with everything it had started",
    "output": "the command printed too much and was stopped with everything it had started",
}


@dataclass(frozen=True)
class Limits:
    """Limits of one command.

    seconds    wall-clock time
    memory     bytes: address space of a process, and resident memory of all of them together
    disk       bytes: the largest file, and all that lies in the layer that the command writes to
    processes  processes and threads at once
    output     bytes printed on standard output and standard error together
    """

    seconds: float = 60.0
    memory: int = 2048 * MiB
    disk: int = 512 * MiB
    processes: int = 64
    output: int = 4 * MiB

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**63:
                raise BadInput(f"the limit {field.name} is {value!r}; it must be a number above 0 that fits into 63 bits")
            if field.name != "seconds" and (value != int(value) or value >= 2**63):
                raise BadInput(f"the limit {field.name} is {value!r}; it must be a whole number that fits into 63 bits")


@dataclass(frozen=True)
class Result:
    """What a command did.

    code    its exit status; 128 + n where signal n ended it; -1 where a limit did
    output  standard output and standard error in the order of writing, to be shown: undecodable bytes are replaced
    ended   a key of ENDINGS
    raw     the bytes of the output; None where `output` is all there is
    """

    code: int
    output: str
    ended: str
    seconds: float
    raw: bytes | None = None

    @property
    def exact(self) -> str:
        """The output to be used: bytes that are not UTF-8 come back when it is encoded with errors="surrogateescape"."""
        return self.output if self.raw is None else self.raw.decode(errors="surrogateescape")

    @property
    def note(self) -> str:
        """The sentence about the limit that ended the command, empty where none did."""
        return ENDINGS[self.ended]
