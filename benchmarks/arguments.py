"""What the benchmarks' command lines share: arguments that are checked, and one sentence and exit code 2 for what is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bpo.cli_paths import file_to_write
from bpo.errors import BadInput, shown
from bpo.printing import say

# The largest number that any of them counts to; above it is a slip of the hand.
MOST = 10_000_000


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one sentence, without the usage in front."""

    def error(self, message: str) -> None:
        refuse(f"{self.prog}: {message} ({self.prog} --help shows what is possible)")


def refuse(sentence: str) -> None:
    """End with the sentence and exit code 2."""
    say(sentence.replace("\n", " "), error=True)
    sys.exit(2)


def count(low: int = 1, high: int = MOST) -> Callable[[str], int]:
    """An argument that counts something, from `low` to `high`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{shown(text)} cannot be used; it must be a whole number from {low} to {high:,}")
        return int(text)

    return read


def file_path(text: str) -> Path:
    """An argument that names a file to write; its folder is made where there is none."""
    try:
        file_to_write("the file", Path(text))
    except BadInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)


def run(main: Callable[[], None]) -> None:
    """Run a benchmark; input that it cannot use is one sentence."""
    try:
        main()
    except BadInput as error:
        refuse(f"{Path(sys.argv[0]).name}: {error}")
