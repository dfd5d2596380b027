"""Refuses a commit message whose subject is longer than 72 characters or runs into its body: `subject.py FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

LONGEST = 72


def fault(message: str) -> str:
    """What is wrong with a commit message, in one sentence; empty where nothing is."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0].strip() if lines else ""
    if not subject:
        return "the message has no subject"
    if len(subject) > LONGEST and not subject.startswith("Merge "):
        return f"the subject has {len(subject)} characters; it must have at most {LONGEST}"
    if len(lines) > 1 and lines[1].strip():
        return "the second line must be blank: it parts the subject from the body"
    return ""


if __name__ == "__main__":
    sys.exit(fault(Path(sys.argv[1]).read_text()) or 0)
