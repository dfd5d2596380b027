"""Loads libdownward.so, the planner that holds a game's state, and wraps the few calls that playing needs.

The library keeps its state in C globals, so every engine that is alive at the same time needs a file of its own. Three facts
decide the shape of this module. The shipped file has 33 MB of symbols that `strip` reduces to 1.1 MB. A loaded file can be
deleted at once: the mapping keeps it alive. And closing one is not safe, because its option registry is a process-wide unique
symbol that every copy registers itself in; so loaded copies go back to a pool and are used again. `load_sas` frees the
former game, hence memory and disk are bounded by the number of engines that were ever alive together.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import subprocess
import threading
from importlib import metadata, util
from pathlib import Path

import numpy as np

from bpo.cache import cache_dir
from bpo.files import unfinished_file, writing
from bpo.sealed import Damaged, read_sealed, write_sealed

LIMIT = 256  # live engines of one process, about 2 MB each; more means that somebody forgot to close sandboxes

_free: list[Downward] = []
_loaded = 0
_lock = threading.Lock()


class _Operator(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("name", ctypes.c_char * 1024), ("effects", ctypes.c_int))


class _Atom(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 1024),)


class Downward:
    """One loaded copy of the planner. State ids are small integers, valid until the next `load`."""

    def __init__(self, path: Path):
        lib = ctypes.CDLL(str(path))
        lib.load_sas.argtypes, lib.load_sas.restype = [ctypes.c_char_p], None
        lib.get_applicable_operators.argtypes, lib.get_applicable_operators.restype = [ctypes.POINTER(_Operator)], None
        lib.get_state.argtypes, lib.get_state.restype = [ctypes.POINTER(_Atom)], None
        lib.apply_operator.argtypes, lib.apply_operator.restype = [ctypes.c_int, ctypes.POINTER(_Atom)], ctypes.c_int
        lib.check_goal.restype = ctypes.c_bool
        # Exported by the library though TextWorld never declares them: they make a snapshot a single integer.
        lib.get_state_id.argtypes, lib.get_state_id.restype = [], ctypes.c_int
        lib.set_state_id.argtypes, lib.set_state_id.restype = [ctypes.c_int], None
        self._lib = lib
        self._operators = (_Operator * 64)()
        self._atoms = (_Atom * 64)()

    def load(self, sas: str) -> int:
        """Start the planning task `sas`, forget the former one, and return the id of its first state."""
        self._lib.load_sas(sas.encode())
        return self._lib.get_state_id()

    def applicable(self, state: int) -> list[tuple[int, bytes, int]]:
        """Operators applicable in `state` in the planner's order: id, name, number of effects."""
        self._lib.set_state_id(state)
        count = self._lib.get_applicable_operators_count()
        if count > len(self._operators):
            self._operators = (_Operator * (2 * count))()
        self._lib.get_applicable_operators(self._operators)
        return [(op.id, op.name, op.effects) for op in self._operators[:count]]

    def apply(self, state: int, operator: int, effects: int) -> tuple[int, list[str]]:
        """Apply an operator in `state`; return the id of the new state and the operator's effects as atom names."""
        if effects > len(self._atoms):
            self._atoms = (_Atom * (2 * effects))()
        self._lib.set_state_id(state)
        self._lib.apply_operator(operator, self._atoms)
        return self._lib.get_state_id(), [atom.name.decode("cp1252") for atom in self._atoms[:effects]]

    def won(self, state: int) -> bool:
        """Whether the goal holds in `state`."""
        self._lib.set_state_id(state)
        return self._lib.check_goal()

    def atoms(self, state: int) -> list[str]:
        """Every atom of `state`, as `Atom name(args)` or `NegatedAtom name(args)`."""
        return [name.decode("cp1252") for name in self.raw_atoms(state)]

    def raw_atoms(self, state: int) -> list[bytes]:
        """The same as the planner spells them."""
        self._lib.set_state_id(state)
        buffer = (_Atom * self._lib.get_state_size())()
        self._lib.get_state(buffer)
        return np.frombuffer(buffer, f"S{ctypes.sizeof(_Atom)}").tolist()


def acquire() -> Downward:
    """Return a planner that nobody else uses; give it back with `release`. More than LIMIT alive raise RuntimeError."""
    global _loaded
    with _lock:
        if _free:
            return _free.pop()
        if _loaded >= LIMIT:
            raise RuntimeError(
                f"{LIMIT} household engines are alive in this process; close sandboxes that are no longer needed"
            )
        _loaded += 1
    try:
        return _load_copy()
    except BaseException:
        with _lock:
            _loaded -= 1
        raise


def release(planner: Downward) -> None:
    """Take back a planner from `acquire`."""
    with _lock:
        _free.append(planner)


def loaded() -> int:
    """How many copies of the library this process holds, in use or free."""
    return _loaded


def _load_copy() -> Downward:
    program = _stripped_library()
    with unfinished_file(cache_dir("household"), ".so") as (handle, path), writing(path):
        with open(handle, "wb", closefd=False) as file:
            file.write(program)
        return Downward(path)


def _stripped_library() -> bytes:
    """The library without symbols, from the cache where it is whole; as it was shipped where `strip` is missing or fails."""
    spec = util.find_spec("fast_downward")
    source = Path(spec.submodule_search_locations[0]) / "libdownward.so"
    stat = source.stat()
    target = cache_dir("household") / f"downward-{version()}-{stat.st_size}-{stat.st_mtime_ns}.so"
    with contextlib.suppress(OSError, Damaged):
        return read_sealed(target)
    if shutil.which("strip") is None:
        return source.read_bytes()
    with unfinished_file(target.parent, ".so") as (_, temporary):
        done = subprocess.run(["strip", "-o", str(temporary), str(source)], capture_output=True, check=False)
        program = (temporary if done.returncode == 0 else source).read_bytes()
    write_sealed(target, program)
    return program


def version() -> str:
    """Version of the installed planner package, part of every cache key."""
    try:
        return metadata.version("fast-downward-textworld")
    except metadata.PackageNotFoundError:
        return "unknown"
