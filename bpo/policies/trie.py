"""Admissible actions as a trie of token ids: which tokens may come next, and which are forced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from bpo.errors import BadInput

Node = dict  # token id -> Node; a finished action is a str instead of a Node


def build(encoded: Mapping[str, tuple[int, ...]]) -> Node:
    """Trie of the encoded actions; its leaves are the action texts.

    The encodings must be free of prefixes (end each with the same terminator). Actions that share an encoding cannot be told
    apart by the policy: the first one keeps it.
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
        if isinstance(node.setdefault(ids[-1], action), dict):
            raise BadInput(f"the tokens of action {action!r} begin those of another: a terminator must close them")
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

    lead        text before every action (a space after a cue that ends in a letter or sign)
    terminator  ids that close every action, so that no action is a prefix of another
    spell       how an action is written
    """

    def __init__(self, tokenizer, lead: str, terminator: tuple[int, ...], spell: Callable[[str], str] = str):
        self._tokenizer = tokenizer
        self._lead = lead
        self._terminator = terminator
        self._spell = spell
        self.encode = lru_cache(maxsize=100_000)(self._encode)
        self.trie = lru_cache(maxsize=4_096)(self._trie)

    def _encode(self, action: str) -> tuple[int, ...]:
        return (*self._tokenizer.encode(self._lead + self._spell(action), add_special_tokens=False), *self._terminator)

    def _trie(self, actions: tuple[str, ...]) -> Node:
        return build({action: self.encode(action) for action in actions})

    def path(self, actions: tuple[str, ...], action: str) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """The tokens of `action` and, for each, the ids allowed there; BadInput if it is not among `actions`."""
        if action not in actions:
            raise BadInput(f"action {action!r} is not admissible here (admissible: {', '.join(actions)})")
        tokens, node, choices = self.encode(action), self.trie(actions), []
        for token in tokens:
            choices.append(tuple(sorted(node)))
            node = node[token]
        return tokens, tuple(choices)
