"""Admissible actions as a trie of token ids: which tokens may come next, and which are forced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from bpo.errors import BadInput

Node = dict  # token id -> Node; a finished action is a str instead of a Node


def build(encoded: Mapping[str, tuple[int, ...]]) -> Node:
    """Trie of the encoded actions; its leaves are the action texts.

    BadInput unless the encodings differ and are free of prefixes (end each with the same terminator).
    """
    root: Node = {}
    for action, ids in encoded.items():
        node = root
        for token in ids[:-1]:
            node = node.setdefault(token, {})
            if isinstance(node, str):
                raise BadInput(
                    f"the tokens of action {node!r} begin those of {action!r}: give every action the same terminator"
                )
        there = node.setdefault(ids[-1], action)
        if isinstance(there, dict):
            raise BadInput(f"the tokens of action {action!r} begin those of another: a terminator must close them")
        if there != action:
            raise BadInput(f"the actions {there!r} and {action!r} have the same tokens")
    return root


def forced(node: Node | str) -> tuple[tuple[int, ...], Node | str]:
    """The run of tokens from `node` on that leaves no choice (possibly empty), and where it ends."""
    run = []
    while isinstance(node, dict) and len(node) == 1:
        ((token, node),) = node.items()
        run.append(token)
    return tuple(run), node


class ActionCodec:
    """Token ids of actions and tries of action lists, remembered, since the same ones return at every step.

    text        token ids of a text
    lead        text before every action (a space after a cue that ends in a letter or sign)
    terminator  ids that close every action, so that no action is a prefix of another
    spell       how an action is written
    """

    def __init__(
        self,
        text: Callable[[str], tuple[int, ...]],
        lead: str,
        terminator: tuple[int, ...],
        spell: Callable[[str], str] = str,
    ):
        self._text = text
        self._lead = lead
        self._terminator = terminator
        self._spell = spell
        self.encode = lru_cache(maxsize=100_000)(self._encode)
        self.trie = lru_cache(maxsize=4_096)(self._trie)

    def _encode(self, action: str) -> tuple[int, ...]:
        return (*self._text(self._lead + self._spell(action)), *self._terminator)

    def _trie(self, actions: tuple[str, ...]) -> Node:
        return build(self._apart(actions))

    def _apart(self, actions: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
        """The ids of each action; one that has another's, since the tokenizer sees no difference, is written with a number."""
        found: dict[str, tuple[int, ...]] = {}
        taken: set[tuple[int, ...]] = set()
        for action in dict.fromkeys(actions):
            names = (action, *(f"{action} ({number})" for number in range(2, len(actions) + 1)))
            ids = next((ids for ids in map(self.encode, names) if ids not in taken), None)
            if ids is None:
                raise BadInput(f"the tokenizer cannot tell the action {action!r} from others that are listed with it")
            found[action] = ids
            taken.add(ids)
        return found

    def path(self, actions: tuple[str, ...], action: str) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """The tokens of `action` and, for each, the ids allowed there; BadInput if it is not among `actions`."""
        if action not in actions:
            raise BadInput(f"action {action!r} is not admissible here (admissible: {', '.join(actions)})")
        node, choices = self.trie(actions), []
        tokens = self.encode(action)
        if _leaf(node, tokens) != action:
            tokens = self._apart(actions)[action]
        for token in tokens:
            choices.append(tuple(sorted(node)))
            node = node[token]
        return tokens, tuple(choices)


def _leaf(node: Node, tokens: tuple[int, ...]) -> str | None:
    """The action that these tokens lead to."""
    for token in tokens:
        node = node.get(token, {}) if isinstance(node, dict) else {}
    return node if isinstance(node, str) else None
