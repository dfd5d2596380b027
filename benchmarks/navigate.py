"""How far a reader has to go to follow one thing through the code: modules entered and climbs, by reading the source.

    python benchmarks/navigate.py [CHECKOUT ...] [--word config --word tree --word task] [--start bpo.cli:train] [--route]

The reader starts at the command, reads functions in the order of their lines, and follows the thing: a name (`config`, or
`configs`), what is taken out of it (`config.settings`), parameters that it is given to, and objects that are made with it. A
call that is given it, or that makes it, is entered, once. In a function that does not hold it, every call is entered. Counted
are the modules in which the thing is used, and the climbs: returns to a module that was left, to read on there. The code is
not run, so a method is entered where the object's class can be read: of `self`, of parameters with an annotation, and of what
is made by the class's name. Give two checkouts to compare them.
"""

from __future__ import annotations

import argparse
import ast
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Function:
    """A function or method: where it is, its class if it has one, and its source."""

    module: str
    owner: str
    node: ast.FunctionDef

    @property
    def key(self) -> tuple[str, str, str]:
        """Module, class and name."""
        return self.module, self.owner, self.node.name

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters in order, without `self` and `cls`."""
        names = [argument.arg for argument in [*self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs]]
        return names[1:] if names[:1] in (["self"], ["cls"]) else names


@dataclass
class Code:
    """A package: functions by (module, owner, name), and what names mean in each module."""

    functions: dict[tuple[str, str, str], Function] = field(default_factory=dict)
    classes: dict[tuple[str, str], ast.ClassDef] = field(default_factory=dict)
    names: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path) -> Code:
        """Read the packages bpo and reproduce of a checkout."""
        code = cls()
        for path in sorted([*(root / "bpo").rglob("*.py"), *(root / "reproduce").rglob("*.py")]):
            parts = path.relative_to(root).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            code._read(module, ast.parse(path.read_text()))
        return code

    def _read(self, module: str, tree: ast.Module) -> None:
        meaning = self.names.setdefault(module, {})
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                meaning.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
            elif isinstance(node, ast.Import):
                meaning.update({alias.asname or alias.name: alias.name for alias in node.names})
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.functions[module, "", node.name] = Function(module, "", node)
            elif isinstance(node, ast.ClassDef):
                self.classes[module, node.name] = node
                for method in node.body:
                    if isinstance(method, ast.FunctionDef):
                        self.functions[module, node.name, method.name] = Function(module, node.name, method)

    def resolve(self, module: str, name: str) -> tuple[str, str] | None:
        """(module, name) of the definition that a dotted name of a module means."""
        first, _, rest = name.partition(".")
        for _ in range(5):  # a name may be passed on by several packages
            if not rest and ((module, "", first) in self.functions or (module, first) in self.classes):
                return module, first
            target = self.names.get(module, {}).get(first)
            if target is None:
                return None
            if target in self.names and rest:
                module, (first, _, rest) = target, rest.partition(".")
            else:
                module, _, first = target.rpartition(".")
        return None

    def types(self, function: Function) -> dict[str, tuple[str, str]]:
        """Name -> class, of parameters with an annotation and of `self`."""
        known = {"self": (function.module, function.owner)} if function.owner else {}
        for argument in [*function.node.args.args, *function.node.args.kwonlyargs]:
            place = self.resolve(function.module, ast.unparse(argument.annotation)) if argument.annotation else None
            if place in self.classes:
                known[argument.arg] = place
        return known

    def made(self, module: str, value: ast.expr) -> tuple[str, str] | None:
        """The class of which an expression makes an object, by its name or by a class method of it."""
        if not isinstance(value, ast.Call):
            return None
        dotted = ast.unparse(value.func)
        for name in (dotted, dotted.rpartition(".")[0]):
            if name and (place := self.resolve(module, name)) in self.classes:
                return place
        return None

    def targets(self, function: Function, call: ast.Call, types: dict[str, tuple[str, str]]) -> list[Function]:
        """The functions that a call may enter."""
        if isinstance(call.func, ast.Attribute):
            value, name = ast.unparse(call.func.value), call.func.attr
            if value in types and (found := self.functions.get((*types[value], name))):
                return [found]
        if place := self.resolve(function.module, ast.unparse(call.func)):
            found = self.functions.get((place[0], "", place[1])) or self.functions.get((*place, "__init__"))
            return [found] if found else []
        return []


class Reader:
    """Follows one thing through the code and notes the route, one line per function."""

    def __init__(self, code: Code, word: str):
        self.code, self.family = code, {word, f"{word}s"}
        self.read: set[tuple[str, str, str]] = set()
        self.makers: set[int] = set()
        self.route: list[str] = []
        self.modules: list[str] = []
        self.climbs = 0

    def follow(self, function: Function, known: frozenset[str] = frozenset(), depth: int = 0) -> bool:
        """Read one function in which the names `known` are the thing; whether the thing was met there or below."""
        self.read.add(function.key)
        names, types = set(known), self.code.types(function)
        nodes = in_order(function.node)
        self._note_makers(nodes)
        holds = bool(known) or any(self._uses(node, names) for node in nodes)
        met = left = False  # `left`: the reader has been in another module since the last line here
        for node in nodes:
            self._bind(function, node, names, types)
            used = self._uses(node, names)
            if used:
                met = True
                if left:
                    self.climbs += 1
                    self.route.append(f"{'  ' * depth}back in {function.module}, line {node.lineno}")
                    left = False
                if function.module not in self.modules:
                    self.modules.append(function.module)
            # In a function that does not hold the thing, the reader looks for it in whatever is called.
            if isinstance(node, ast.Call) and (used or not holds):
                for target in self.code.targets(function, node, types):
                    if target.key not in self.read:
                        self.route.append(f"{'  ' * (depth + 1)}{'.'.join(filter(None, target.key))}")
                        below = self.follow(target, self._inside(target, node, names), depth + 1)
                        left = left or (below and target.module != function.module)
                        met = met or below
        return met

    def _uses(self, node: ast.AST, names: set[str]) -> bool:
        """Whether this is the thing, or a call that is given it, is made on it, or returns it."""
        if isinstance(node, ast.Call):
            told = any(self._mentions(part, names) for part in given(node)) or self._rooted(node.func, names)
            return told or id(node) in self.makers
        return isinstance(node, ast.Name) and node.id in names | self.family

    def _mentions(self, node: ast.AST, names: set[str]) -> bool:
        return any(self._rooted(part, names) for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute))

    def _rooted(self, node: ast.AST, names: set[str]) -> bool:
        """Whether an expression is the thing or a part of it: `config`, `config.settings`, `self.config`."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
            if isinstance(node, ast.Attribute) and node.attr in self.family:
                return True
            node = node.value
        return isinstance(node, ast.Name) and node.id in names | self.family

    def _note_makers(self, nodes: list[ast.AST]) -> None:
        """Calls whose result is given the thing's name: the thing is made there."""
        for node in nodes:
            for target, value in bound(node):
                called = {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
                if isinstance(value, ast.Call) and called & self.family:
                    self.makers.add(id(value))

    def _bind(self, function: Function, node: ast.AST, names: set[str], types: dict[str, tuple[str, str]]) -> None:
        """Names that are given the thing, a part of it, or an object made with it; and what objects are made here."""
        for target, value in bound(node):
            made = self.code.made(function.module, value)
            if isinstance(target, ast.Name):
                if made:
                    types[target.id] = made
                if self._rooted(value, names) or (made and self._mentions(value, names)):
                    names.add(target.id)

    def _inside(self, target: Function, call: ast.Call, names: set[str]) -> frozenset[str]:
        """Parameters of the target that hold the thing."""
        held = {name for name, part in zip(target.parameters, call.args, strict=False) if self._mentions(part, names)}
        return frozenset(held | {part.arg for part in call.keywords if part.arg and self._mentions(part.value, names)})


def in_order(function: ast.FunctionDef) -> list[ast.AST]:
    """Names, assignments and calls of a body, in the order in which they are read; a call after what it is given."""
    wanted = (ast.Call, ast.Assign, ast.For, ast.withitem, ast.Name)
    nodes = [node for statement in function.body for node in ast.walk(statement) if isinstance(node, wanted)]
    places = {id(node): node.context_expr.lineno if isinstance(node, ast.withitem) else node.lineno for node in nodes}
    return sorted(nodes, key=lambda node: (places[id(node)], isinstance(node, ast.Call), getattr(node, "end_col_offset", 0)))


def given(call: ast.Call) -> list[ast.expr]:
    """What a call is given."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def bound(node: ast.AST) -> list[tuple[ast.AST, ast.expr]]:
    """(target, value) of an assignment, a loop or a `with`."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, ast.For):
        return [(node.target, node.iter)]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [(node.optional_vars, node.context_expr)]
    return []


def counted(root: Path, word: str, start: str) -> Reader:
    """The reader who has followed `word` from the function `start` ("module:name") in this checkout."""
    code, (module, _, name) = Code.of(root), start.partition(":")
    reader = Reader(code, word)
    reader.follow(code.functions[module, "", name])
    return reader


def main() -> None:
    """Print modules and climbs of every word in every checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).parent.parent])
    parser.add_argument("--word", action="append", help="what is followed (default: config, tree, task)")
    parser.add_argument("--start", default="bpo.cli:train", help="module:function where the reader starts")
    parser.add_argument("--route", action="store_true", help="also print where the reader goes")
    options = parser.parse_args()
    print(f"{'word':<8} {'checkout':<30} {'modules':>8} {'climbs':>8}")
    for word in options.word or ["config", "tree", "task"]:
        for root in options.checkouts:
            reader = counted(root, word, options.start)
            print(f"{word:<8} {root.resolve().name:<30} {len(reader.modules):>8} {reader.climbs:>8}")
            if options.route:
                print(*reader.route, sep="\n")


if __name__ == "__main__":
    main()
