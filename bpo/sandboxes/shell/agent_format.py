"""What an agent in a shell says and reads, as mini-swe-agent has it: one command a turn, its status and output in tags."""

from __future__ import annotations

import re

from bpo.sandboxes.shell.limits import Result

# A command that prints this line first, and succeeds, hands in the rest of what it prints.
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
# Longer output is shown without its middle.
LONGEST, HEAD, TAIL = 10_000, 5_000, 5_000
_FENCED = re.compile(r"```mswea_bash_command\s*\n(.*?)\n```", re.DOTALL)


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
    """What a command hands in, None where it does not."""
    first, _, rest = result.output.lstrip().partition("\n")
    return rest if result.ended == "exit" and result.code == 0 and first.strip() == SUBMIT else None


def commands(message: str) -> list[str]:
    """The bash commands that a message holds, each in a block fenced as ```mswea_bash_command; a turn must have exactly one."""
    return [found.strip() for found in _FENCED.findall(message)]
