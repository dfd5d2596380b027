"""Named parts of one kind: those of this package, and those that installed packages register by entry points.

A package registers a part in its pyproject.toml, and nothing here has to change:

    [project.entry-points."bpo.methods"]
    my_method = "my_package.module:row"

A part of another package is imported when it is asked for by name and not before, so that one that does not work stands in the
way of nobody else.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from bpo.errors import BadInput

Part = TypeVar("Part")
# Where the parts of this package come from.
OWN = "bpo"


class Registry(Mapping[str, Part], Generic[Part]):
    """Parts by name: our own first, in the order of `own`, then those of other packages by name.

    word   what a part is, for messages
    group  the entry points of other packages
    kind   what every part must be an instance of: a class, or Callable, which type checkers take for no class
    own    () -> our own parts by name; called when the first part is asked for

    `registry[name]` raises KeyError for an unknown name, and BadInput for a part of another package that does not work.
    """

    def __init__(self, word: str, group: str, kind: Any, own: Callable[[], Mapping[str, Part]]):
        self.word, self.group, self.kind, self._make_own = word, group, kind, own

    def __getitem__(self, name: str) -> Part:
        if name in self._own:
            return self._own[name]
        points = self._others[name]
        if len(points) > 1:
            packages = " and ".join(_package(point) for point in points)
            raise BadInput(f"the {self.word} {name!r} is registered by {packages}: uninstall all of them but one")
        return self._load(points[0])

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._others

    def __len__(self) -> int:
        return len(self._own) + len(self._others)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._others

    def origin(self, name: str) -> str:
        """Where a part comes from: "bpo", or the other package with its version and the place in it."""
        if name in self._own:
            return OWN
        return ", ".join(f"{_package(point)} ({point.value})" for point in self._others[name])

    def working(self) -> dict[str, Part]:
        """All parts that can be had; `problems` says what is the matter with the others."""
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except BadInput:
                continue
        return found

    def registered(self) -> dict[str, str]:
        """The parts of other packages that can be had, with where they come from."""
        found = {}
        for name in self._others:
            with contextlib.suppress(BadInput):
                self[name]
                found[name] = self.origin(name)
        return found

    def problems(self) -> list[str]:
        """One sentence for every part of another package that cannot be used."""
        said = [
            f"{self._named(point)} takes a name that bpo has itself; it is left out"
            for point in self._points
            if point.name in self._own
        ]
        for name in self._others:
            try:
                self[name]
            except BadInput as error:
                said.append(str(error))
        return said

    def only(self, keep: Callable[[Part], bool]) -> Mapping[str, Part]:
        """The parts that `keep` is true of, as a mapping that looks when it is asked."""
        return _Only(self, keep)

    @cached_property
    def _own(self) -> Mapping[str, Part]:
        return self._make_own()

    @cached_property
    def _points(self) -> list[EntryPoint]:
        points = {(point.name, point.value, _package(point)): point for point in entry_points(group=self.group)}
        return [points[key] for key in sorted(points)]

    @cached_property
    def _others(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in self._points:
            if point.name not in self._own:
                found.setdefault(point.name, []).append(point)
        return found

    def _load(self, point: EntryPoint) -> Part:
        try:
            part = point.load()
        except (Exception, SystemExit) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise BadInput(f"{self._named(point)} cannot be loaded: {reason}") from error
        if not isinstance(part, self.kind):
            raise BadInput(f"{self._named(point)} is of type {type(part).__name__}; it must be a {self.kind.__name__}")
        return part

    def _named(self, point: EntryPoint) -> str:
        return f"the {self.word} {point.name!r} of the package {_package(point)} ({point.value})"


class _Only(Mapping[str, Part], Generic[Part]):
    def __init__(self, parts: Registry[Part], keep: Callable[[Part], bool]):
        self.parts, self.keep = parts, keep

    def __getitem__(self, name: str) -> Part:
        part = self.parts[name]
        if not self.keep(part):
            raise KeyError(name)
        return part

    def __iter__(self) -> Iterator[str]:
        return (name for name, part in self.parts.working().items() if self.keep(part))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Folders(Mapping[str, Part], Generic[Part]):
    """Parts that have a folder each: `name` in the module PACKAGE.name.MODULE, imported when it is asked for."""

    def __init__(self, package: str, module: str):
        self.package, self.module = package, module
        folders = [Path(folder) for folder in importlib.import_module(package).__path__]
        self._names = sorted(path.parent.name for folder in folders for path in folder.glob(f"*/{module}.py"))

    def __getitem__(self, name: str) -> Part:
        if name not in self._names:
            raise KeyError(name)
        return getattr(importlib.import_module(f"{self.package}.{name}.{self.module}"), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def parts_in(modules: Iterable[str], kind: type[Part]) -> dict[str, Part]:
    """The instances of `kind` that stand at the top of these modules, by the names they have there."""
    found: dict[str, Part] = {}
    for module in modules:
        for name, value in vars(importlib.import_module(module)).items():
            if isinstance(value, kind) and found.setdefault(name, value) is not value:
                raise ValueError(f"{module} has a second {kind.__name__} {name!r}")
    return found


def modules_of(package: str) -> list[str]:
    """The modules directly in a package, by name; none is imported but the package."""
    path = importlib.import_module(package).__path__
    return [f"{package}.{found.name}" for found in pkgutil.iter_modules(path)]


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"
