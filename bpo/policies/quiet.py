"""Libraries that draw on the terminal, kept from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from transformers.utils import logging


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """Keep transformers from drawing bars over ours while it reads or writes weights."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
