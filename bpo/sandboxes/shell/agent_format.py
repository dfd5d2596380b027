"""What an agent in a shell says and reads, as mini-swe-agent has it: one command a turn, its status and output in tags."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass

from bpo.sandboxes.shell.limits import Result
from bpo.sandboxes.shell.store import NOBODY, may_change_user
from bpo.sandboxes.shell.workspace import ARGUMENT, Workspace

# A command that prints this line first, and succeeds, hands in the rest of what it prints.
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
# What a fence says of the block that it opens, where that is a command.
COMMAND = "mswea_bash_command"
# Longer output is shown without its middle.
LONGEST, HEAD, TAIL = 10_000, 5_000, 5_000
# What bash says of a command that ends too early.
UNFINISHED = (b"delimited by end-of-file", b"unexpected EOF while looking for", b"unexpected end of file")
# Reads a command without running it: no cores, no files, seconds of the processor, KiB of memory.
READER = ("bash", "-c", "ulimit -c 0 -f 0 -t 5 -v 1048576 && exec bash -n")
PATIENCE = 20.0
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^\n]*?)[ \t\r]*")


def shown(result: Result) -> str:
    """What the agent reads after a command."""
    text = f"<returncode>{result.code}</returncode>\n"
    if result.note:
        text += f"<exception>{result.note}</exception>\n"
    output = result.output.rstrip("\n")
    if len(output) < LONGEST:
        return f"{text}<output>\n{output}\n</output>"
    left_out = len(output) - HEAD - TAIL
    return (
        f"{text}<warning>The output was too long; its middle is left out. Use a command that prints less.</warning>\n"
        f"<output_head>\n{output[:HEAD]}\n</output_head>\n<elided_chars>{left_out}</elided_chars>\n"
        f"<output_tail>\n{output[-TAIL:]}\n</output_tail>"
    )


def submission(result: Result) -> str | None:
    """What a command hands in, to the byte (see `Result.exact`); None where it does not."""
    first, _, rest = result.exact.lstrip().partition("\n")
    return rest if result.ended == "exit" and result.code == 0 and first.strip() == SUBMIT else None


@dataclass(frozen=True)
class _Fence:
    """A line of a message that can open a block or close one: its sign, how many of them, what it says of the block."""

    line: int
    sign: str
    length: int
    info: str

    def closes(self, other: _Fence) -> bool:
        return self.sign == other.sign and self.length >= other.length and not self.info


def commands(message: str) -> list[str]:
    """The bash commands that a message holds, each in a block fenced as ```mswea_bash_command; a turn must have exactly one.

    Blocks are read as in CommonMark; a command may hold blocks that name their language. Where it is in doubt what the command
    is (a block is not closed, bash would wait for more, or another block comes after a command and could be its rest), the
    message holds none. A command with fences of its own is never in doubt inside a longer fence.
    """
    lines = message.split("\n")
    fences = [fence for number, line in enumerate(lines) if (fence := _fence(number, line)) is not None]
    found: list[str] = []
    open_fences: list[_Fence] = []
    for fence in fences:
        if not open_fences:
            if found and fence.info != COMMAND:
                return []
            open_fences.append(fence)
        elif fence.closes(open_fences[-1]):
            last = open_fences.pop()
            if not open_fences and last.info == COMMAND:
                found.append("\n".join(lines[last.line + 1 : fence.line]))
        elif open_fences[0].info == COMMAND and fence.sign == open_fences[-1].sign and fence.length >= open_fences[-1].length:
            open_fences.append(fence)
    if open_fences or any(waits(command) for command in found) or not "".join(found).strip():
        return []
    return found


def waits(command: str) -> bool:
    """Whether a command ends before it is finished: in a here-document, a quotation or a block.

    The shell would run what comes before, and half a here-document too. It is asked to read the command without running it,
    where one line could leave anything done. That shell is outside of boxes, and reads what an agent wrote: it has little time
    and memory, writes nothing, and is nobody's where this process is root's. What it cannot read waits.
    """
    if ("\n" not in command and "<<" not in command) or len(command) >= ARGUMENT:
        return False
    nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if may_change_user() else {}
    variables = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    script = command.encode(errors="surrogateescape")
    try:
        done = subprocess.run(READER, input=script, capture_output=True, env=variables, cwd="/", timeout=PATIENCE, **nobody)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode < 0 or any(words in done.stderr for words in UNFINISHED)


def played(workspace: Workspace, command: str, seconds: float | None = None) -> Result:
    """What a command does in a workspace; one that is not finished is not run."""
    if waits(command):
        return Result(2, "bash: the command is not finished, so nothing of it was run\n", "exit", 0.0)
    return workspace.run(command, seconds)


def _fence(number: int, line: str) -> _Fence | None:
    match = _FENCE.fullmatch(line)
    if match is None or (match[1][0] == "`" and "`" in match[2]):
        return None
    return _Fence(number, match[1][0], len(match[1]), match[2])
