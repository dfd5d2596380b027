"""Writes a game's text from its grammar: TextWorld's parser, evaluated without copying contexts.

TextWorld parses a template each time it is used and deep-copies the context for every symbol, which is nine tenths of a step's
cost. Here a template is parsed once per process and evaluated as a pure function of (facts, mapping); the semantics, order of
answers and first-applicable-rule choice are TextWorld's, and the tests compare the text byte for byte.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from bpo.errors import BadInput

# A signature is (predicate, argument types); the facts with it are a sorted tuple of argument-name tuples.
Signature = tuple[str, tuple[str, ...]]
Facts = Mapping[Signature, tuple[tuple[str, ...], ...]]
Placeholder = tuple[str, str]  # name, type

_PYTHON = (ast.Expression, ast.BoolOp, ast.Or, ast.And, ast.BinOp, ast.Add, ast.Attribute, ast.Name, ast.Constant, ast.Load)
_TASK = re.compile(r'"rhs"\s*:\s*"(Your task is to: [^"\\]*)"')


@dataclass(frozen=True)
class Action:
    """How the grammar words one action: the command and the rule for what happens."""

    template: str
    feedback: str


@dataclass(frozen=True)
class _Rule:
    text: str
    condition: str


# Kinds of symbols: a text, a rule's name, a list of what `inner` gives, an expression, `inner` for every answer to a query.
_TEXT, _RULE, _LIST, _EVAL, _GIVEN = range(5)


class _Symbol(NamedTuple):
    """A part of a template: what `value` says by its kind."""

    kind: int
    value: str
    inner: _Symbol | None = None


class World:
    """The fixed part of a game that evaluating text needs: its entities and its types."""

    def __init__(self, entities: Mapping[str, object], types: list[tuple[str, list[str]]]):
        from textworld.logic import Type, TypeHierarchy

        self.entities = entities
        self._hierarchy = TypeHierarchy()
        first: dict[str, list[str]] = {}
        for name, supertypes in types:  # the domain declares `object` again; the first declaration counts
            first.setdefault(name, supertypes)
        for name, supertypes in first.items():
            self._hierarchy.add(Type(name, supertypes))
        self._signatures: dict[Signature, list[Signature]] = {}

    def signatures(self, predicate: str, kinds: tuple[str, ...]) -> list[Signature]:
        """Every signature that a query for (predicate, kinds) may match, in TextWorld's order."""
        key = (predicate, kinds)
        if key not in self._signatures:
            kinds_of = self._hierarchy.multi_subtypes([self._hierarchy.get(kind) for kind in kinds])
            self._signatures[key] = [(predicate, tuple(kind.name for kind in found)) for found in kinds_of]
        return self._signatures[key]

    def answers(self, query: str, facts: Facts, mapping: Mapping[Placeholder, str]) -> Iterator[dict[Placeholder, str]]:
        """Every assignment of objects to placeholders that makes `query` true; different placeholders get different objects."""
        predicates = _parse_query(query)

        def match(depth: int, found: dict[Placeholder, str], used: frozenset[str]) -> Iterator[dict[Placeholder, str]]:
            if depth == len(predicates):
                yield found
                return
            name, placeholders = predicates[depth]
            for signature in self.signatures(name, tuple(kind for _, kind in placeholders)):
                for arguments in facts.get(signature, ()):
                    new = _unify(placeholders, arguments, found, used)
                    if new is not None:
                        yield from match(depth + 1, found | new, used.union(new.values()) if new else used)

        return match(0, dict(mapping), frozenset(mapping.values()))


def _unify(placeholders, arguments, found, used) -> dict[Placeholder, str] | None:
    new: dict[Placeholder, str] = {}
    for placeholder, argument in zip(placeholders, arguments, strict=True):
        known = found.get(placeholder) or new.get(placeholder)
        if known is None:
            if argument in used or argument in new.values():
                return None
            new[placeholder] = argument
        elif known != argument:
            return None
    return new


class Grammar:
    """The parsed text of a game: `actions` by lower-case name, and `write`, which evaluates a template."""

    def __init__(self, actions: dict[str, Action], rules: dict[str, tuple[_Rule, ...]]):
        self.actions = actions
        self._rules = rules

    def write(self, template: str, world: World, facts: Facts, mapping: Mapping[Placeholder, str]) -> str:
        """The text of `template` where `mapping` says which object each placeholder of the action stands for."""
        return "".join(self._evaluate(symbol, world, facts, mapping) for symbol in _parse_template(template))

    def is_static(self, template: str, changing: frozenset[str]) -> bool:
        """Whether the template's text depends on the mapping and on unchanging facts alone, so that it can be kept."""
        return all(_static(symbol, changing) for symbol in _parse_template(template))

    def _evaluate(self, symbol: _Symbol, world: World, facts: Facts, mapping) -> str:
        if symbol.kind == _TEXT:
            return symbol.value
        if symbol.kind == _RULE:
            return self.write(self._choose(symbol.value, world, facts, mapping), world, facts, mapping)
        if symbol.kind == _LIST:
            return self._list(self._items(symbol.inner, world, facts, mapping), world, facts, mapping)
        return "".join(self._items(symbol, world, facts, mapping))

    def _items(self, symbol: _Symbol, world: World, facts: Facts, mapping) -> list[str]:
        if symbol.kind == _EVAL:
            names = {name: world.entities[thing] for (name, _), thing in mapping.items()}
            return [str(eval(_compile(symbol.value), {"__builtins__": {}}, names))]
        found = world.answers(symbol.value, facts, mapping) if symbol.value else [mapping]
        return [self._evaluate(symbol.inner, world, facts, answer) for answer in found]

    def _list(self, items: list[str], world: World, facts: Facts, mapping) -> str:
        if not items:
            return self.write("#list_empty#", world, facts, mapping)
        if len(items) == 1:
            return items[0]
        separator = self.write("#list_separator#", world, facts, mapping)
        return separator.join(items[:-1]) + self.write("#list_last_separator#", world, facts, mapping) + items[-1]

    def _choose(self, name: str, world: World, facts: Facts, mapping) -> str:
        for rule in self._rules.get(name, ()):
            if not rule.condition or next(world.answers(rule.condition, facts, mapping), None) is not None:
                return rule.text
        raise BadInput(f"the grammar has no applicable rule for '#{name}#'")


def _static(symbol: _Symbol, changing: frozenset[str]) -> bool:
    if symbol.kind == _LIST:
        return _static(symbol.inner, changing)
    if symbol.kind == _GIVEN:
        names = {name for name, _ in _parse_query(symbol.value)} if symbol.value else set()
        return not names & changing and _static(symbol.inner, changing)
    return symbol.kind in (_TEXT, _EVAL)


@lru_cache(maxsize=4096)
def _parse_template(template: str) -> tuple[_Symbol, ...]:
    from textworld.envs.pddl import textgen

    return tuple(_converted(symbol) for symbol in textgen._parse_and_convert(template, rule_name="symbols"))


def _converted(symbol) -> _Symbol:
    from textworld.envs.pddl import textgen

    if isinstance(symbol, textgen.TerminalSymbol):
        return _Symbol(_TEXT, str(symbol))
    if isinstance(symbol, textgen.NonterminalSymbol):
        return _Symbol(_RULE, str(symbol))
    if isinstance(symbol, textgen.ListSymbol):
        return _Symbol(_LIST, "", _converted(symbol.symbol))
    if isinstance(symbol, textgen.EvalSymbol):
        return _Symbol(_EVAL, symbol.expression)
    return _Symbol(_GIVEN, symbol.given or "", _converted(symbol.expression))


@lru_cache(maxsize=1024)
def _parse_query(query: str) -> tuple[tuple[str, tuple[Placeholder, ...]], ...]:
    from textworld.logic import Rule

    rule = Rule.parse_conjunctive_query(query)
    return tuple((p.name, tuple((ph.name, ph.type) for ph in p.parameters)) for p in rule.preconditions)


@lru_cache(maxsize=1024)
def _compile(expression: str) -> CodeType:
    """Compile a grammar expression; only names, attributes, constants, `or`, `and` and `+` are allowed.

    TextWorld evaluates whatever a game file says. Game files are data that people download, so anything else is refused.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise BadInput(f"the grammar expression {expression!r} is not valid: {error}") from error
    for node in ast.walk(tree):
        if not isinstance(node, _PYTHON) or (isinstance(node, ast.Attribute) and node.attr.startswith("_")):
            raise BadInput(f"the grammar expression {expression!r} is not allowed: only names, attributes, 'or' and '+' are")
    return compile(tree, "<grammar>", "eval")


def parse_grammar(text: str) -> Grammar:
    """Parse a game's grammar. Games that differ in the task sentence alone share one parse of the rest."""
    tasks = _TASK.findall(text)
    if len(tasks) != 1:
        return Grammar(*_parse_document(text))
    actions, rules = _parse_document(text.replace(tasks[0], "Your task is to: ?"))
    task = tuple(_Rule(rule.text.replace("Your task is to: ?", tasks[0]), rule.condition) for rule in rules["task"])
    return Grammar(actions, rules | {"task": task})


@lru_cache(maxsize=8)
def _parse_document(text: str) -> tuple[dict[str, Action], dict[str, tuple[_Rule, ...]]]:
    from textworld.envs.pddl import logic

    try:
        document = logic._PARSER.parse(text, rule_name="pddlStart")
        rules: dict[str, list[_Rule]] = {}
        actions = {}
        for part in document.parts:
            block = part if isinstance(part, logic.model.ActionGrammarNode) else part.grammar
            if isinstance(part, logic.model.ActionTypeNode):
                actions[part.name.lower()] = Action(part.template.template[1:-1], part.feedback.name[1:-1])
            if block is not None:
                # As TextWorld: a later block replaces a rule of the same name; comment lines are not JSON.
                lines = [line for line in block.code[3:-3].split("\n") if not line.lstrip().startswith("#")]
                rules.update(json.loads("\n".join(lines)))
    except Exception as error:
        raise BadInput(f"the game's grammar cannot be parsed: {error}") from error
    parsed = {}
    for name, entries in rules.items():
        parsed[name] = tuple(_Rule(entry["rhs"], entry.get("condition", "")) for entry in entries)
    return actions, parsed
