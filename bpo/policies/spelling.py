"""How actions are spelled so that a line or a tag can hold any of them: what would end it is escaped, and read back.

Nothing changes in an action without the signs that are escaped, so that what a model learned to write stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

# Pictures of control characters, which texts hardly ever hold: one that comes before a sign takes its meaning away, one
# stands for the end of a line.
ESCAPE, NEWLINE = "\u241b", "\u2424"
_CALL = re.compile(r"\w+\[.*\]", re.DOTALL)


@dataclass(frozen=True)
class Spelling:
    """A way to write actions: `read(spell(action))` is `action`."""

    spell: Callable[[str], str]
    read: Callable[[str], str]


def _line(action: str) -> str:
    """An action without newlines."""
    return re.sub(f"[{ESCAPE}{NEWLINE}]", rf"{ESCAPE}\g<0>", action).replace("\n", NEWLINE)


def _unline(text: str) -> str:
    return re.sub(f"{ESCAPE}(.)|{NEWLINE}", lambda found: found[1] or "\n", text, flags=re.DOTALL)


def _tagged(action: str) -> str:
    """An action that holds no tag of an action."""
    return re.sub("<(?=/?action>)", f"<{ESCAPE}", action.replace(ESCAPE, 2 * ESCAPE))


def _untagged(text: str) -> str:
    return re.sub(f"{ESCAPE}({ESCAPE}?)", r"\1", text)


def _called(action: str) -> str:
    """An action of the form name[argument], with a space after every bracket that opens."""
    return action.replace("[", "[ ") if _CALL.fullmatch(action) else action


def _uncalled(text: str) -> str:
    return text.replace("[ ", "[") if _CALL.fullmatch(text) else text


LINE, TAGGED, CALL = Spelling(_line, _unline), Spelling(_tagged, _untagged), Spelling(_called, _uncalled)
