"""One loaded game as a graph of states: the planner and the text of ALFWorld, byte for byte, with a fork that is a reference.

An `EngineState` is a state that was reached: the planner's state id, the facts that the text is written from, the admissible
commands and the edges played so far. It never changes once expanded, so a snapshot is a reference to one, restoring is using
another one, several sandboxes can share an engine, and an action played twice from the same state is a dictionary look-up.

Facts and planner state are kept apart as in TextWorld, whose facts remember more than the planner's state does (`not_x` appears
once x was deleted); two paths share a node only if both agree.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from bpo.sandboxes.household import downward
from bpo.sandboxes.household.games import GameText
from bpo.sandboxes.household.grammar import Facts, Grammar, Placeholder, Signature, World, parse_grammar
from bpo.sandboxes.household.names import display_names
from bpo.sandboxes.household.translation import translate

NOTHING = "Nothing happens."  # what the engine says to a command that is not admissible


@dataclass(frozen=True)
class Operator:
    """One ground action: what applying it does to the facts, and its words."""

    id: int
    effects: int
    mapping: dict[Placeholder, str]
    template: str
    feedback: str
    fixed_command: str | None


class EngineState:
    """A reached state. `commands` maps every valid command to its operator; `admissible` is the engine's sorted list."""

    __slots__ = ("admissible", "commands", "delta", "digest", "edges", "facts", "state", "won")

    def __init__(self, state: int, facts: Facts, delta: frozenset, won: bool):
        self.state = state
        self.facts = facts
        self.delta = delta
        self.won = won
        self.commands: Mapping[str, Operator] | None = None
        self.admissible: tuple[str, ...] = ()
        self.edges: dict[str, tuple[EngineState, str]] = {}
        self.digest: str | None = None

    @property
    def size_bytes(self) -> int:
        """Estimate of the memory that keeping this node alive costs, without what it shares with the engine."""
        return sum(map(sys.getsizeof, (self.facts, self.delta, self.commands, self.admissible, self.edges)))


class Engine:
    """Plays one game from any of its states. Call `close` when done: it gives the planner back.

    Exact with respect to `textworld.envs.PddlEnv` under `AlfredDemangler`: same feedback, same admissible commands, same end.
    Safe to use from several threads; one expansion runs at a time.
    """

    def __init__(self, text: GameText):
        translation = translate(text.domain, text.problem)
        self._grammar: Grammar = parse_grammar(text.grammar)
        self._objects = translation.objects
        self._parameters = translation.parameters
        self._changing = frozenset(translation.changing) | {f"not_{name}" for name in translation.changing}
        self._operators: dict[int, tuple[bytes, Operator]] = {}
        self._effects: dict[int, list[tuple[Signature, tuple[str, ...], Signature]]] = {}
        self._nodes: dict[tuple[int, frozenset], EngineState] = {}
        self._lock = threading.Lock()
        self._planner: downward.Downward | None = downward.acquire()
        try:
            state = self._planner.load(translation.sas)
            atoms = [self._atom(name) for name in self._planner.atoms(state)]
            facts = {(self._signature(name, arguments), arguments) for name, arguments in translation.facts}
            facts |= {(signature, arguments) for signature, arguments in atoms if not signature[0].startswith("not_")}
            names = {name for _, arguments in facts for name in arguments}
            self._world = World(display_names(names), translation.types)
            by_signature: dict[Signature, list[tuple[str, ...]]] = {}
            for signature, arguments in sorted(facts):
                by_signature.setdefault(signature, []).append(arguments)
            self._initial: Facts = {signature: tuple(found) for signature, found in by_signature.items()}
            self.root = self._node(state, self._initial, frozenset())
            self.intro = self._grammar.write("#intro#", self._world, self._initial, {})
        except BaseException:
            self.close()
            raise

    @property
    def nodes(self) -> int:
        """How many states have been reached since the game was loaded."""
        return len(self._nodes)

    def close(self) -> None:
        """Give the planner back; the nodes stay readable, but nothing can be played any more."""
        if self._planner is not None:
            downward.release(self._planner)
            self._planner = None

    def expand(self, node: EngineState) -> EngineState:
        """Fill in the commands of `node` and return it."""
        if node.commands is None:
            with self._lock:
                node.commands, node.admissible = self._commands(node)
        return node

    def step(self, node: EngineState, command: str) -> tuple[EngineState, str]:
        """Play `command` in `node`; return the expanded state it leads to and the engine's text."""
        known = node.edges.get(command)
        if known is None:
            operator = self.expand(node).commands.get(command)
            known = (node, NOTHING) if operator is None else self._apply(node, operator)
            if operator is not None:  # wrong commands are unbounded in number and cost nothing
                node.edges[command] = known
        self.expand(known[0])
        return known

    def digest(self, node: EngineState) -> str:
        """A name of the state that is equal in every process: a hash of its facts and of the planner's atoms."""
        if node.digest is None:
            with self._lock:
                atoms = sorted(self._running().raw_atoms(node.state))
            facts = repr(sorted(node.delta)).encode()
            node.digest = hashlib.blake2b(b"\n".join([facts, *atoms]), digest_size=16).hexdigest()
        return node.digest

    def _running(self) -> downward.Downward:
        if self._planner is None:
            raise RuntimeError("this household engine is closed")
        return self._planner

    def _commands(self, node: EngineState) -> tuple[dict[str, Operator], tuple[str, ...]]:
        commands: dict[str, Operator] = {}
        seen = set()
        for number, name, effects in self._running().applicable(node.state):
            if number not in self._operators:
                self._operators[number] = (name, self._operator(number, name.decode("cp1252"), effects))
            name, operator = self._operators[number]
            if name in seen:  # the translator splits an `or` into operators of one name; the first one counts
                continue
            seen.add(name)
            command = operator.fixed_command
            if command is None:
                command = self._grammar.write(operator.template, self._world, node.facts, operator.mapping)
            commands.setdefault(command, operator)
        return commands, tuple(sorted(commands))

    def _operator(self, number: int, name: str, effects: int) -> Operator:
        action, *arguments = name.split()
        words = self._grammar.actions[action]
        # Not strict: the name carries the action's own arguments, the parameters also those the translator added.
        mapping = dict(zip(self._parameters[action], arguments, strict=False))
        fixed = None
        if self._grammar.is_static(words.template, self._changing):
            fixed = self._grammar.write(words.template, self._world, self._initial, mapping)
        return Operator(number, effects, mapping, words.template, words.feedback, fixed)

    def _apply(self, node: EngineState, operator: Operator) -> tuple[EngineState, str]:
        with self._lock:
            planner = self._running()
            state, names = planner.apply(node.state, operator.id, operator.effects)
            if operator.id not in self._effects:  # the list is the operator's, whether or not a condition held
                self._effects[operator.id] = [self._effect(name) for name in names]
            facts, delta = self._change(node, self._effects[operator.id])
            child = self._node(state, facts, delta)
        return child, self._grammar.write(operator.feedback, self._world, child.facts, operator.mapping)

    def _change(self, node: EngineState, effects) -> tuple[Facts, frozenset]:
        facts, delta = dict(node.facts), set(node.delta)
        for signature, arguments, opposite in effects:
            for kind, present in ((opposite, False), (signature, True)):
                old = facts.get(kind, ())
                place = bisect_left(old, arguments)
                if (place < len(old) and old[place] == arguments) is not present:
                    facts[kind] = (*old[:place], arguments, *old[place:]) if present else old[:place] + old[place + 1 :]
                    delta ^= {(kind, arguments)}
        return facts, frozenset(delta)

    def _node(self, state: int, facts: Facts, delta: frozenset) -> EngineState:
        node = self._nodes.get((state, delta))
        if node is None:
            node = self._nodes[(state, delta)] = EngineState(state, facts, delta, self._running().won(state))
        return node

    def _signature(self, name: str, arguments: tuple[str, ...]) -> Signature:
        return name, tuple(self._objects[argument] for argument in arguments)

    def _atom(self, name: str) -> tuple[Signature, tuple[str, ...]]:
        kind, rest = name.split(" ", 1)
        predicate, rest = rest.split("(", 1)
        arguments = tuple(argument for argument in rest[:-1].split(", ") if argument)
        return self._signature(f"not_{predicate}" if kind == "NegatedAtom" else predicate, arguments), arguments

    def _effect(self, name: str) -> tuple[Signature, tuple[str, ...], Signature]:
        (predicate, kinds), arguments = self._atom(name)
        opposite = predicate[4:] if predicate.startswith("not_") else f"not_{predicate}"
        return (predicate, kinds), arguments, (opposite, kinds)
