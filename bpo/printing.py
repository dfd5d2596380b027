"""What a terminal is shown: text of users, files and sandboxes, never read as markup and never obeyed as a command."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

UNPRINTABLE = "\ufffd"


def printable(text: str) -> str:
    """The text without what a terminal obeys or cannot show: escapes, other controls, halves of characters. Lines stay.

    What the encoding of standard output lacks is written as an escape.
    """
    encoding = sys.stdout.encoding or "ascii"
    clean = "".join(sign if sign.isprintable() or sign in "\n\t" else UNPRINTABLE for sign in text)
    return clean.encode(encoding, "backslashreplace").decode(encoding)


def one_line(text: str) -> str:
    """The text with every stretch of white space as one space, and without what a terminal or a font cannot print."""
    return printable(" ".join(text.split()))


def say(text: str, error: bool = False) -> None:
    """Print a text of any origin on standard output, or on standard error."""
    print(printable(text), file=sys.stderr if error else sys.stdout, flush=True)


def console(error: bool = False, **options: Any) -> Console:
    """A rich console that takes brackets, colons and numbers as the signs they are."""
    from rich.console import Console

    return Console(stderr=error, markup=False, emoji=False, highlight=False, **options)


def tell(on: Console, text: str, wrap: bool = True) -> None:
    """Print a plain text on a console, above its progress bars where it has some; `wrap` breaks lines at its width."""
    on.print(printable(text), markup=False, emoji=False, highlight=False, soft_wrap=not wrap)


def spinner(text: str, on: Console) -> Any:
    """A spinner on a console, with a plain text, for as long as the block takes."""
    from rich.text import Text

    return on.status(Text(printable(text)))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", tight: bool = False) -> Table:
    """A table whose heads, cells and title are plain text.

    tight   no lines, and one space between columns, so that 80 columns of a terminal are enough; heads and all columns but the
            last are never cut or folded
    """
    from rich.table import Table
    from rich.text import Text

    looks: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0)} if tight else {"show_lines": True}
    made = Table(title=Text(printable(title)) if title else None, **looks)
    for number, head in enumerate(heads):
        last = number == len(heads) - 1
        made.add_column(Text(printable(head)), no_wrap=tight and not last, overflow="fold")
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    return made


def show_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", tight: bool = False, on: Console | None = None
) -> None:
    """Print a `table`."""
    (on or console()).print(table(heads, rows, title=title, tight=tight))


def bars(width: int, on: Console) -> Any:
    """Progress bars on a console, with room for `width` signs of description, which is plain text."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    description = TextColumn(f"{{task.description:>{width}}}", markup=False)
    return Progress(description, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), console=on)
