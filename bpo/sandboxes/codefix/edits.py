"""Edits of single lines: what the constrained action space chooses from."""

from __future__ import annotations

import difflib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from bpo.files import lines
from bpo.sandboxes.codefix.mutate import mutants


@dataclass(frozen=True)
class Edit:
    """One line of the program that was given: written anew, removed (`new` is None), or with a line put after it.

    Lines count from 1, and always in the program as it was given, so that edits of other lines do not change what one means.
    """

    line: int
    new: str | None
    after: bool = False

    @property
    def action(self) -> str:
        """The edit as an action."""
        if self.new is None:
            return f"delete {self.line}"
        return f"{'insert' if self.after else 'edit'} {self.line}: {self.new.strip()}"


def between(given: str, wanted: str) -> list[Edit] | None:
    """The edits that turn one program into the other, None where they are not single lines."""
    one, other = lines(given), lines(wanted)
    found: list[Edit] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "replace" and i2 - i1 == j2 - j1:
            found += [Edit(i + 1, new) for i, new in zip(range(i1, i2), other[j1:j2], strict=True)]
        elif tag == "delete":
            found += [Edit(i + 1, None) for i in range(i1, i2)]
        elif tag == "insert" and j2 - j1 == 1 and i1 > 0:
            found.append(Edit(i1, other[j1], after=True))
        elif tag != "equal":
            return None
    return found


def applied(given: str, edits: Sequence[Edit]) -> str:
    """The program after some edits; a later edit of a line takes the place of an earlier one."""
    by_line = {edit.line: edit for edit in edits}
    kept = []
    for number, line in enumerate(lines(given), start=1):
        edit = by_line.get(number)
        if edit is None:
            kept.append(line)
        elif edit.after:
            kept += [line, edit.new]
        elif edit.new is not None:
            kept.append(edit.new)
    return "\n".join(kept) + "\n"


@cache
def candidates(given: str, entry: str, repair: tuple[Edit, ...], count: int, seed: str) -> tuple[Edit, ...]:
    """`count` edits to choose from, in the order of lines: those of the repair, and other changes of the kinds of bugs."""
    rng = random.Random(f"codefix/{seed}")
    others: list[Edit] = []
    actions = {edit.action for edit in repair}
    for mutant in mutants(given, entry):
        edits = between(given, mutant.program)
        if edits is not None and len(edits) == 1 and edits[0].action not in actions:
            actions.add(edits[0].action)
            others.append(edits[0])
    chosen = [*repair, *rng.sample(others, min(len(others), max(0, count - len(repair))))]
    return tuple(sorted(chosen, key=lambda edit: (edit.line, edit.after, edit.new or "")))
