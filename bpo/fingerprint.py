"""Which code a result depends on: everything that is reached from its roots, by what it does and not by where it stands.

The unit is a definition at the top of a module (a function, a class, a constant). A definition reaches those that its body
names, in its own module or by import. `digest` is over the bodies of all that is reached, with comments, docstrings, layout,
the annotations of functions and the paths of modules left out: moving a function changes nothing, editing it changes the digest
of what uses it and of nothing else. Nothing is imported or run to find this out.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

# What a name that stands for a whole module reaches, and a module's statements that define nothing.
WHOLE, LOOSE = "*", ""

# A definition as (module, name).
Place = tuple[str, str]


@dataclass(frozen=True)
class Module:
    """A module that was read and not run.

    name         dotted
    package      whether it is the __init__ of a package
    definitions  name -> the statements that define it
    imports      name -> (module, name in it); "" for a module itself
    """

    name: str
    package: bool
    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, Place]


def digest(roots: Iterable[Any], beyond: Callable[[str], bool] = lambda module: False) -> str:
    """64 hex digits over the code that `roots` reach; see `reached` for the arguments."""
    sources, found = _reach(roots, beyond)
    bodies = {hashlib.sha256(sources.reading(place).text.encode()).hexdigest() for place in found}
    return hashlib.sha256("".join(sorted(bodies)).encode()).hexdigest()


def reached(roots: Iterable[Any], beyond: Callable[[str], bool] = lambda module: False) -> frozenset[Place]:
    """All definitions that `roots` reach, they themselves included, in `bpo` and in the packages of the roots.

    roots   functions, classes, or text like "bpo.experiment:run"; a partial stands for its function, and what is defined
            within a function stands for the definition at the module's top that holds it
    beyond  says of a module that nothing in it but roots can change the result, so that it is not followed
    Errors: LookupError for a root that is not found.
    """
    return _reach(roots, beyond)[1]


def _reach(roots: Iterable[Any], beyond: Callable[[str], bool]) -> tuple[Sources, frozenset[Place]]:
    roots = [_bare(root) for root in roots]
    names = [root.partition(":")[0] if isinstance(root, str) else root.__module__ for root in roots]
    sources = _sources(frozenset({name.partition(".")[0] for name in [*names, __name__]}))
    found: set[Place] = set()
    todo = [sources.place(root) for root in roots]
    wanted = {home for place in todo for home in sources.home(place)}
    while todo:
        for place in sources.home(todo.pop()):
            if place not in found and (place in wanted or not beyond(place[0])):
                found.add(place)
                todo += [(place[0], LOOSE), *sources.reading(place).places]
    return sources, frozenset(place for place in found if place[1] in sources.module(place[0]).definitions)


def _bare(root: Any) -> Any:
    while isinstance(root, partial):
        root = root.func
    return root


class Sources:
    """The modules of some top-level packages, as their files say when they are first asked for."""

    def __init__(self, tops: frozenset[str]):
        self.folders = {top: folder for top in tops if (folder := _folder(top)) is not None}
        self._files: dict[str, tuple[Path, bool] | None] = {}
        self._modules: dict[str, Module] = {}
        self._readings: dict[Place, _Reading] = {}

    def has(self, name: str) -> bool:
        """Whether a dotted name is a module of these packages."""
        if name not in self._files:
            self._files[name] = self._find(name)
        return self._files[name] is not None

    def module(self, name: str) -> Module:
        """A module's definitions and imports; LookupError where it is none of these packages'."""
        if name not in self._modules:
            if not self.has(name):
                raise LookupError(f"no module {name!r} in {', '.join(sorted(self.folders))}")
            path, package = self._files[name]  # type: ignore[misc]
            self._modules[name] = self._read(name, path, package)
        return self._modules[name]

    def place(self, root: Any) -> Place:
        """Where a root stands."""
        if isinstance(root, str):
            module, _, name = root.partition(":")
        else:
            module, name = root.__module__, root.__qualname__.partition(".")[0]
            if name == "<lambda>":
                name = self._around(module, root.__code__.co_firstlineno)
        here = self.module(module)
        if name not in here.definitions and name not in here.imports:
            raise LookupError(f"{module} defines no {name!r}")
        return module, name

    def home(self, place: Place) -> list[Place]:
        """Where a name is really defined: imports are followed; a module stands for all that it defines."""
        module, name = place
        if not self.has(module):
            return []
        here = self.module(module)
        if name == WHOLE:
            return [(module, each) for each in here.definitions]
        if name in here.definitions or name == LOOSE:
            return [place]
        if name in here.imports:
            target, inner = here.imports[name]
            return self.home((target, inner or WHOLE))
        return self.home((f"{module}.{name}", WHOLE))

    def reading(self, place: Place) -> _Reading:
        """One definition, read."""
        if place not in self._readings:
            self._readings[place] = _Reading(self, place)
        return self._readings[place]

    def imported(self, node: ast.Import | ast.ImportFrom, module: str, package: bool) -> dict[str, Place]:
        """What an import statement brings: name -> (module, name in it), the latter "" for a module itself."""
        if isinstance(node, ast.Import):
            names = [(one.asname, one.name) if one.asname else (one.name.partition(".")[0],) * 2 for one in node.names]
            return {here: (there, "") for here, there in names}
        base = node.module or ""
        if node.level:
            parts = module.split(".") if package else module.split(".")[:-1]
            parts = parts[: len(parts) - node.level + 1]
            base = ".".join([*parts, *([node.module] if node.module else [])])
        found = {}
        for one in node.names:
            inner = f"{base}.{one.name}"
            found[one.asname or one.name] = (inner, "") if self.has(inner) else (base, one.name)
        return found

    def _read(self, name: str, path: Path, package: bool) -> Module:
        definitions: dict[str, list[ast.stmt]] = {}
        imports: dict[str, Place] = {}
        for statement in ast.parse(path.read_bytes()).body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                imports |= self.imported(statement, name, package)
            elif not (_is_text(statement) or _for_type_checkers(statement)):
                for defined in _defined(statement) or [LOOSE]:
                    definitions.setdefault(defined, []).append(statement)
        for statement in definitions.get(LOOSE, []):
            for node in ast.walk(statement):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    imports |= self.imported(node, name, package)
        return Module(name, package, definitions, imports)

    def _around(self, module: str, line: int) -> str:
        for name, statements in self.module(module).definitions.items():
            if any(statement.lineno <= line <= (statement.end_lineno or line) for statement in statements):
                return name
        raise LookupError(f"{module} has no definition around line {line}")

    def _find(self, name: str) -> tuple[Path, bool] | None:
        top, *parts = name.split(".")
        if top not in self.folders:
            return None
        place = self.folders[top].joinpath(*parts)
        if self.folders[top].is_file():
            return None if parts else (place, False)
        if (place / "__init__.py").is_file():
            return place / "__init__.py", True
        path = place.with_name(f"{place.name}.py")
        return (path, False) if parts and path.is_file() else None


_sources = cache(Sources)


class _Reading(ast.NodeTransformer):
    """One definition: `places` are what it names, `text` is its body with every name as it is called at home."""

    def __init__(self, sources: Sources, place: Place):
        module, name = place
        self.sources, self.here = sources, sources.module(module)
        statements = copy.deepcopy(self.here.definitions.get(name, []))
        self.imports = dict(self.here.imports)
        for statement in statements:
            for node in ast.walk(statement):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    self.imports |= sources.imported(node, module, self.here.package)
        self.places: list[Place] = []
        self.text = "\n".join(ast.dump(self.visit(statement)) for statement in statements)

    def visit_Import(self, node: ast.Import) -> None:
        """Imports are not part of what a definition does."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """As above."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        _without_docstring(node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._called([node.id]), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        chain, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            chain.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.imports:
            return ast.Name(self._called([inner.id, *chain]), node.ctx)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        # The name of a file beside this one: a program that is started and not imported.
        if isinstance(node.value, str) and node.value.endswith(".py"):
            folder = self.here.name if self.here.package else self.here.name.rpartition(".")[0]
            beside = f"{folder}.{node.value.removesuffix('.py')}"
            if node.value.removesuffix(".py").isidentifier() and self.sources.has(beside):
                self.places.append((beside, WHOLE))
        return node

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        _without_docstring(node)
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return self.generic_visit(node)

    def _called(self, chain: list[str]) -> str:
        """Note what a dotted name stands for; returns what it is called, without the path of modules before it."""
        first, *rest = chain
        if first not in self.imports:
            if first in self.here.definitions:
                self.places.append((self.here.name, first))
            return ".".join(chain)
        module, name = self.imports[first]
        rest = [name, *rest] if name else rest
        if not self.sources.has(module):
            return ".".join([module, *rest])
        while rest and self.sources.has(f"{module}.{rest[0]}") and rest[0] not in self.sources.module(module).definitions:
            module, rest = f"{module}.{rest[0]}", rest[1:]
        named = bool(rest) and not rest[0].startswith("__")
        self.places.append((module, rest[0] if named else WHOLE))
        return ".".join(rest) if rest else module.rpartition(".")[2]


def _folder(top: str) -> Path | None:
    """The folder of a top-level package, or the file of a module by itself; None for what is not in Python files."""
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        # An entry or an attribute that is set belongs to the name that holds it.
        while any(isinstance(part, ast.Subscript | ast.Attribute) for part in parts):
            parts = [part.value if isinstance(part, ast.Subscript | ast.Attribute) else part for part in parts]
        return [part.id for part in parts if isinstance(part, ast.Name)]
    return []


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _for_type_checkers(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"


def _without_docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]
