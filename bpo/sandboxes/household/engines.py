"""Shares engines between the sandboxes of a process: one per game in use, and a few of the last games kept ready."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from bpo.sandboxes.household.engine import Engine
from bpo.sandboxes.household.games import GameText

KEEP_IDLE = 8  # engines of games that nobody plays just now
MOST_NODES = 5_000  # an engine that reached so many states (some 10 kB each) is replaced, so that memory stays bounded

_engines: dict[GameText, tuple[Engine, int]] = {}  # in use, with the number of users
_idle: OrderedDict[GameText, Engine] = OrderedDict()
_abandoned: deque[GameText] = deque()  # games whose borrower was garbage collected
_lock = threading.RLock()


def borrow(text: GameText) -> Engine:
    """Return the engine of a game, loading it if need be; give it back with `give_back`."""
    with _lock:
        _collect()
        if text in _engines:
            engine, users = _engines[text]
        else:
            engine, users = _idle.pop(text, None) or Engine(text), 0
        _engines[text] = (engine, users + 1)
        return engine


def give_back(text: GameText) -> None:
    """Declare that one borrower of the engine is done with it."""
    with _lock:
        engine, users = _engines.pop(text)
        if users > 1:
            _engines[text] = (engine, users - 1)
        elif engine.nodes > MOST_NODES:
            engine.close()
        else:
            _idle[text] = engine
            while len(_idle) > KEEP_IDLE:
                _idle.popitem(last=False)[1].close()


def abandon(text: GameText) -> None:
    """Declare from a destructor that a borrower is gone.

    A destructor may run at any moment, in the middle of `borrow` too, so the engine itself is given back by the next `borrow`.
    """
    _abandoned.append(text)


def clear() -> None:
    """Close every idle engine."""
    with _lock:
        _collect()
        while _idle:
            _idle.popitem()[1].close()


def _collect() -> None:
    while _abandoned:
        give_back(_abandoned.popleft())
