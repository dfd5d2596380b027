"""Searches that a constrained writer may choose from: runs of the phrases of the instruction (new here)."""

from __future__ import annotations

import re
from functools import lru_cache

# What separates two phrases, and what an instruction begins with.
_BREAK = re.compile(r",? and |, | with ")
_OPENING = re.compile(r"^find me ", re.IGNORECASE)
_PRICE = re.compile(r"^price lower than ")


@lru_cache(maxsize=4_096)
def queries(instruction: str) -> tuple[str, ...]:
    """The whole instruction, then every contiguous run of its phrases, longest first; the price limit is no phrase.

    An instruction of n phrases gives n (n + 1) / 2 runs. Repeated ones are listed once.
    """
    phrases = [phrase.strip() for phrase in _BREAK.split(_OPENING.sub("", instruction))]
    phrases = [phrase for phrase in phrases if phrase and not _PRICE.match(phrase)]
    runs = [
        " ".join(phrases[start : start + length])
        for length in range(len(phrases), 0, -1)
        for start in range(len(phrases) - length + 1)
    ]
    return tuple(dict.fromkeys((instruction, *runs)))
