"""Translates a PDDL problem into the planner's format, once: the result is kept on disk under the hash of its inputs.

The translator is pure Python and takes 0.1-0.3 s for a full-sized room, which is most of the stock engine's loading time. The
cache holds what playing needs (planning task, objects, initial facts, action parameters), not the translator's own objects.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import zlib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from bpo.cache import cache_dir, key_of
from bpo.errors import BadInput
from bpo.files import to_json
from bpo.provenance import code_of
from bpo.sandboxes.household.downward import version
from bpo.sealed import Damaged, read_sealed, write_sealed

KEEP = 4096  # cached problems, 3-30 kB each; beyond it the oldest quarter goes

_translator = threading.Lock()  # the translator replaces sys.argv and sys.stdout while it runs
_written = 0


@dataclass(frozen=True)
class Translation:
    """What playing needs of a translated problem.

    sas         the planning task
    objects     object name -> type name
    facts       initial facts of the problem as (predicate, argument names)
    parameters  action name -> its parameters as (name without '?', type name)
    types       (type name, names of all its supertypes)
    changing    predicates that some action or axiom changes
    """

    sas: str
    objects: dict[str, str]
    facts: list[tuple[str, tuple[str, ...]]]
    parameters: dict[str, list[tuple[str, str]]]
    types: list[tuple[str, list[str]]]
    changing: list[str]


def translate(domain: str, problem: str) -> Translation:
    """Return the translation of (domain, problem), from the cache where it is there and whole."""
    path = cache_dir("household", "translations") / f"{key_of(domain, problem, _made_by())}.z"
    with contextlib.suppress(OSError, Damaged):
        return _decode(read_sealed(path))
    found = _translate(domain, problem)
    with contextlib.suppress(OSError, BadInput):  # a full or read-only disk costs time, not the run
        _make_room(path.parent)
        write_sealed(path, zlib.compress(to_json(asdict(found)).encode(), 6))
    return found


@cache
def _made_by() -> list[str]:
    """What translates: our code and the planner's."""
    return [version(), code_of(_translate, Translation)]


def _decode(data: bytes) -> Translation:
    raw = json.loads(zlib.decompress(data))
    raw["facts"] = [(name, tuple(arguments)) for name, arguments in raw["facts"]]
    raw["types"] = [tuple(pair) for pair in raw["types"]]
    raw["parameters"] = {name: [tuple(pair) for pair in pairs] for name, pairs in raw["parameters"].items()}
    return Translation(**raw)


def _make_room(folder: Path) -> None:
    """Delete the oldest quarter when the folder holds more than KEEP files; looks once in 256 writes."""
    global _written
    _written += 1
    if _written % 256 != 1:
        return
    files = sorted((file.stat().st_mtime, file) for file in folder.glob("*.z"))
    if len(files) > KEEP:
        for _, file in files[: len(files) - KEEP * 3 // 4]:
            file.unlink(missing_ok=True)


def _translate(domain: str, problem: str) -> Translation:
    import fast_downward
    from fast_downward.translate.pddl import conditions, f_expression

    with _translator:
        arguments = sys.argv
        try:
            task, sas = fast_downward.pddl2sas(domain, problem)
        except (Exception, SystemExit) as error:
            raise BadInput(f"the planner cannot read this PDDL problem: {error!r}") from error
        finally:
            sys.argv = arguments

    def fact(entry) -> tuple[str, tuple[str, ...]] | None:
        """The fact behind an initial condition; equalities, costs and distances are none."""
        if isinstance(entry, conditions.Atom):
            return None if entry.predicate == "=" else (entry.predicate, tuple(entry.args))
        if isinstance(entry, f_expression.Assign) and entry.fluent.symbol != "total-cost":
            name = str(entry.expression.value)
            return None if name.isdigit() else (name, tuple(entry.fluent.args))
        return None

    axioms = {axiom.name for axiom in task.axioms}
    return Translation(
        sas=sas,
        objects={thing.name: thing.type_name for thing in task.objects},
        facts=[found for entry in task.init if (found := fact(entry)) is not None],
        parameters={action.name: [(p.name.strip("?"), p.type_name) for p in action.parameters] for action in task.actions},
        changing=sorted({effect.literal.predicate for action in task.actions for effect in action.effects} | axioms),
        types=[(kind.name, list(kind.supertype_names)) for kind in task.types],
    )
