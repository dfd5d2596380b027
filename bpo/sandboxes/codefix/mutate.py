"""Bugs by small changes of the syntax tree: one operator, comparison, constant, variable or statement at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from bpo.files import lines

BINARY = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.FloorDiv),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitXor: (ast.BitAnd,),
}
COMPARED = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
KINDS = ("operator", "comparison", "constant", "variable", "missing", "extra")


@dataclass(frozen=True)
class Mutant:
    """A changed program and the kind of its change; `line` (from 1) is where the program first differs."""

    kind: str
    program: str
    line: int


def mutants(program: str, entry: str) -> list[Mutant]:
    """All single changes in the function `entry` and in what is defined around it, in a fixed order, without duplicates.

    `program` must be as `problems.bare` writes it, so that a change of the tree is a change of the lines it touches alone.
    """
    seen, found = {program}, []
    tree = ast.parse(program)
    for kind, text in _changes(tree):
        if text not in seen:
            seen.add(text)
            found.append(Mutant(kind, text, _first_difference(program, text)))
    return found


def _first_difference(one: str, other: str) -> int:
    pairs = zip(lines(one), lines(other), strict=False)
    return next((number for number, (a, b) in enumerate(pairs, start=1) if a != b), min(one.count("\n"), other.count("\n")))


def _changes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Kinds and texts of changed programs."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        names = _names(function)
        nodes = list(ast.walk(function))
        for node in nodes:
            for kind, change in _of(node, names):
                yield kind, _with(tree, node, change)
        for node in nodes:
            yield from _statements(tree, node)


def _of(node: ast.AST, names: list[str]) -> Iterator[tuple[str, dict]]:
    """Changes of one node, as new values of its fields."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        for other in BINARY.get(type(node.op), ()):
            yield "operator", {"op": other()}
    elif isinstance(node, ast.BoolOp):
        yield "operator", {"op": ast.Or() if isinstance(node.op, ast.And) else ast.And()}
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARED.get(type(node.ops[0]), ()):
            yield "comparison", {"ops": [other()]}
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "constant", {"value": not node.value}
        elif isinstance(node.value, int):
            yield "constant", {"value": node.value + 1}
            yield "constant", {"value": node.value - 1}
        elif isinstance(node.value, str) and 0 < len(node.value) <= 3:
            yield "constant", {"value": ""}
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        index = names.index(node.id)
        for step in (1, 2):
            other = names[(index + step) % len(names)]
            if other != node.id:
                yield "variable", {"id": other}


def _names(function: ast.FunctionDef) -> list[str]:
    """Parameters and assigned names of a function, in order of appearance."""
    found = [argument.arg for argument in function.args.args]
    found += [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return list(dict.fromkeys(found))


def _with(tree: ast.Module, node: ast.AST, change: dict) -> str:
    """The program with other fields of one node, which has its own again afterwards."""
    before = {field: getattr(node, field) for field in change}
    for field, value in change.items():
        setattr(node, field, value)
    text = ast.unparse(tree) + "\n"
    for field, value in before.items():
        setattr(node, field, value)
    return text


def _statements(tree: ast.Module, node: ast.AST) -> Iterator[tuple[str, str]]:
    """A statement left out (a block keeps one), or one of one line played twice."""
    for field in ("body", "orelse"):
        block = getattr(node, field, None)
        if not isinstance(block, list) or not all(isinstance(each, ast.stmt) for each in block):
            continue
        for index, statement in enumerate(block):
            simple = not hasattr(statement, "body")
            if len(block) > 1 and simple:
                yield "missing", _with(tree, node, {field: block[:index] + block[index + 1 :]})
            if simple and isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
                yield "extra", _with(tree, node, {field: [*block[: index + 1], *block[index:]]})
