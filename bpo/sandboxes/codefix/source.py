"""Programs as the bytes of a file and as text: the encoding is the one that Python reads them in (PEP 263)."""

from __future__ import annotations

import importlib.util
import io
import tokenize


def decoded(data: bytes) -> str:
    """The text of a program's file: after its byte order mark or its declared encoding, UTF-8 without either.

    SyntaxError where Python could not read it either.
    """
    try:
        return importlib.util.decode_source(data)
    except (UnicodeError, LookupError) as error:
        raise SyntaxError(str(error)) from None


def encoded(program: str) -> bytes:
    """The file of a program, in the encoding that the program declares; in UTF-8 where there is none that can hold it."""
    # A declaration is ASCII, in one of the first two lines.
    head = "\n".join(program.split("\n")[:2]).encode("ascii", "replace")
    try:
        declared, _ = tokenize.detect_encoding(io.BytesIO(head).readline)
        return program.encode("utf-8" if program.startswith("\ufeff") else declared)
    except (SyntaxError, UnicodeError, LookupError):
        return program.encode(errors="surrogateescape")
