"""Keys and values of tokens that have been read already: shared by all paths that begin alike, and rows of a batch on top."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from transformers.cache_utils import Cache, DynamicLayer

Ids = tuple[int, ...]


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning of two sequences."""
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)


@dataclass(eq=False)
class _Node:
    """Tokens between two places where stored sequences part.

    tensor   their keys and values [2 x layers, heads, at least as many as tokens, head size]; the rest is room to grow
    states   by number of tokens read (1 = after the first): the model's state there, where somebody has asked for logits
    """

    tokens: Ids
    tensor: torch.Tensor
    parent: _Node | None
    children: dict[int, _Node] = field(default_factory=dict)
    states: dict[int, torch.Tensor] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(one.numel() * one.element_size() for one in (self.tensor, *self.states.values()))


@dataclass(frozen=True)
class Known:
    """What is stored of a sequence: its first `length` tokens, in pieces [2 x layers, heads, tokens, head size].

    state    [size] after its last token (see `Net.states_at`), if all of it is stored and that is too
    """

    pieces: tuple[torch.Tensor, ...]
    length: int
    state: torch.Tensor | None


class PrefixStore:
    """A tree of token sequences with their keys and values: every beginning that sequences share is stored once.

    A fork is a node with two children: nothing is copied for it, and nothing that lies above it is read again. It is a pure
    cache, bounded in bytes; what was used least recently goes first, the ends of sequences before their beginnings.
    """

    def __init__(self, limit_bytes: int):
        self._limit = limit_bytes
        self.clear()

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def size_bytes(self) -> int:
        return self._size

    @property
    def keeps(self) -> bool:
        """Whether anything is kept at all."""
        return self._limit > 0

    def clear(self) -> None:
        self._root = _Node((), torch.empty(0), None)
        self._nodes: OrderedDict[_Node, None] = OrderedDict()  # the least recently used first, children before parents
        self._size = 0

    def find(self, ids: Ids) -> Known:
        """What is stored of the sequence `ids`."""
        node, inside, length = self._walk(ids)
        self._touch(node)
        state = node.states.get(inside) if length == len(ids) else None
        pieces = []
        while node.parent is not None:
            pieces.append(node.tensor[:, :, :inside])
            node, inside = node.parent, len(node.parent.tokens)
        return Known(tuple(reversed(pieces)), length, state)

    def known(self, ids: Ids) -> int:
        """How many tokens of the sequence `ids` are stored."""
        return self._walk(ids)[2]

    def put(self, ids: Ids, tensor: torch.Tensor, state: torch.Tensor) -> None:
        """Store what is new of the sequence `ids`, whose keys and values are `tensor`, and the state after its last token."""
        if not self.keeps:
            return
        node, inside, length = self._walk(ids)
        if length < len(ids):
            node = self._split(node, inside)
            rest, new = ids[length:], tensor[:, :, length:]
            if node.parent is None or node.children:
                node = self._add(_Node(rest, new.clone(), node))
            else:
                self._grow(node, rest, new)
            inside = len(node.tokens)
        if inside not in node.states:
            node.states[inside] = state.clone()
            self._size += state.numel() * state.element_size()
        self._touch(node)
        while self._size > self._limit:
            self._drop(next(iter(self._nodes)))

    def evict_except(self, sequences: Sequence[Ids]) -> None:
        """Forget what is no beginning of one of these sequences and does not begin with one of them."""
        kept: set[_Node] = set()
        below: set[_Node] = set()
        for ids in sequences:
            node, inside, length = self._walk(ids)
            if length < len(ids):
                node = self._split(node, inside)
            else:
                below.add(node)
            while node.parent is not None and node not in kept:
                kept.add(node)
                node = node.parent
        while below:
            children = below.pop().children.values()
            kept.update(children)
            below.update(children)
        for node in [node for node in self._nodes if node not in kept]:
            self._drop(node)

    def _walk(self, ids: Ids) -> tuple[_Node, int, int]:
        """The node in which the longest stored beginning of `ids` ends, how many of its tokens that takes, and its length."""
        node, length = self._root, 0
        while length < len(ids) and (child := node.children.get(ids[length])) is not None:
            following = ids[length : length + len(child.tokens)]
            if following != child.tokens:
                inside = common_length(following, child.tokens)
                return child, inside, length + inside
            node, length = child, length + len(child.tokens)
        return node, len(node.tokens), length

    def _split(self, node: _Node, inside: int) -> _Node:
        """Cut a node after `inside` tokens; returns the first half, or the node itself where there is nothing to cut."""
        if inside == len(node.tokens):
            return node
        parent, tail = node.parent, node.tokens[inside:]
        assert parent is not None
        self._size -= node.size_bytes
        # Copies: as parts of one tensor, neither could be freed without the other.
        top = _Node(node.tokens[:inside], node.tensor[:, :, :inside].clone(), parent, {tail[0]: node})
        top.states = {place: state for place, state in node.states.items() if place <= inside}
        node.states = {place - inside: state for place, state in node.states.items() if place > inside}
        node.tensor, node.tokens = node.tensor[:, :, inside : inside + len(tail)].clone(), tail
        node.parent, parent.children[top.tokens[0]] = top, top
        self._nodes[top] = None
        self._size += top.size_bytes + node.size_bytes
        self._touch(top)
        return top

    def _add(self, node: _Node) -> _Node:
        assert node.parent is not None
        node.parent.children[node.tokens[0]] = node
        self._nodes[node] = None
        self._size += node.size_bytes
        return node

    def _grow(self, node: _Node, tokens: Ids, tensor: torch.Tensor) -> None:
        """Append to a node that nothing follows; its room doubles, so that a path is not copied at every step."""
        used, needed = len(node.tokens), len(node.tokens) + len(tokens)
        self._size -= node.size_bytes
        if needed > node.tensor.shape[2]:
            room = max(needed, 2 * used) - used
            node.tensor = torch.nn.functional.pad(node.tensor[:, :, :used], (0, 0, 0, room))
        node.tensor[:, :, used:needed] = tensor
        node.tokens += tokens
        self._size += node.size_bytes

    def _touch(self, node: _Node) -> None:
        while node.parent is not None:
            self._nodes.move_to_end(node)
            node = node.parent

    def _drop(self, node: _Node) -> None:
        assert node.parent is not None
        del self._nodes[node]
        del node.parent.children[node.tokens[0]]
        self._size -= node.size_bytes


class _RowLayer(DynamicLayer):
    """One layer's view of the rows' buffer: new keys and values go to each row's own positions, in place."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, places: torch.Tensor, width: int):
        super().__init__()
        self.keys, self.values, self.is_initialized = keys, values, True
        self._rows = torch.arange(len(keys), device=keys.device)[:, None]
        self._places = places
        self._width = width

    def update(self, key_states, value_states, *args, **kwargs):
        self.keys[self._rows, :, self._places] = key_states.transpose(1, 2)
        self.values[self._rows, :, self._places] = value_states.transpose(1, 2)
        return self.keys[:, :, : self._width], self.values[:, :, : self._width]

    def get_seq_length(self) -> int:
        return self._width - self._places.shape[1]


class CachedRows:
    """Rows of different lengths in one buffer [2 x layers, rows, heads, columns, head size], each packed from column 0 on.

    What the store knows of a row is gathered into the buffer, and what is read here goes into the store at once. Packing to the
    left leaves no holes inside a row, so a row is a slice; which columns a token may see is said by an explicit 4-D mask. The
    last column is a bin for the padding of shorter inputs; nothing ever looks at it.
    """

    def __init__(self, net, store: PrefixStore, ids: Sequence[Ids]):
        self._net, self._store = net, store
        net.check_length(max(map(len, ids)))
        self._ids, self._lengths = list(ids), [0] * len(ids)
        self._known: list[torch.Tensor | None] = [None] * len(ids)
        layers, heads, size = net.kv_shape
        columns = max(map(len, ids)) + 16
        self._buffer = torch.zeros(layers, len(ids), heads, columns + 1, size, dtype=net.dtype, device=net.device)

    def read(self) -> tuple[torch.Tensor, list[int]]:
        """Logits [rows, vocabulary] after the rows, and how many tokens of each had to be read for them.

        What several rows begin with, and is not known, is read first, and counted at the first of them.
        """
        counts = [0] * len(self._ids)
        known = [self._gather(row) for row in range(len(self._ids))]
        beginnings = self._beginnings(known) if self._store.keeps else []
        if beginnings:
            for ids, count in zip(beginnings, CachedRows(self._net, self._store, beginnings).read()[1], strict=True):
                counts[next(row for row, own in enumerate(self._ids) if own[: len(ids)] == ids)] += count
            for row in range(len(self._ids)):
                self._gather(row)
        logits, own = self._read()
        return logits, [sum(pair) for pair in zip(counts, own, strict=True)]

    def feed(self, tokens: Sequence[Ids]) -> tuple[torch.Tensor, list[int]]:
        """Append tokens[i] (at least one) to row i, and read the rows."""
        self._ids = [old + new for old, new in zip(self._ids, tokens, strict=True)]
        self._net.check_length(max(map(len, self._ids)))
        self._make_room(max(map(len, self._ids)))
        for row, state in enumerate(self._known):
            # Only where all was known before can somebody have gone on before.
            if state is not None:
                self._gather(row)
        return self._read()

    def take(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; a row may be repeated."""
        if list(rows) != list(range(len(self._ids))):
            self._buffer = self._buffer[:, list(rows)]
            self._lengths, self._ids = [self._lengths[row] for row in rows], [self._ids[row] for row in rows]
            self._known = [self._known[row] for row in rows]

    def _beginnings(self, known: Sequence[int]) -> list[Ids]:
        """What two rows or more begin with, longer than what is known of them, at every place where rows part."""
        found: dict[Ids, None] = {}
        order = sorted(range(len(self._ids)), key=self._ids.__getitem__)
        for row, following in itertools.pairwise(order):
            one, other, longer = self._ids[row], self._ids[following], known[row] + 1
            if len(one) >= longer and one[:longer] == other[:longer]:
                found[one[: common_length(one, other)]] = None
        return list(found)

    def _gather(self, row: int) -> int:
        """Copy what the store knows of a row, and this does not, into the buffer; returns how many tokens the store knows."""
        found = self._store.find(self._ids[row])
        self._known[row] = found.state
        start, held = 0, self._lengths[row]
        for piece in found.pieces:
            end = start + piece.shape[2]
            if end > held:
                self._buffer[:, row, :, held:end] = piece[:, :, held - start :]
                held = end
            start = end
        # Without its state the last token is read again: logits are what is asked for.
        self._lengths[row] = min(held, len(self._ids[row]) - (found.state is None))
        return found.length

    def _read(self) -> tuple[torch.Tensor, list[int]]:
        unread = [ids[length:] for ids, length in zip(self._ids, self._lengths, strict=True)]
        states = self._forward(unread) if any(unread) else None
        if states is None or not all(unread):
            found = [known if known is not None else states[row] for row, known in enumerate(self._known)]
            states = torch.stack(found)
        for row, new in enumerate(unread):
            if new:
                self._known[row] = None
                self._store.put(self._ids[row], self._of(row), states[row])
        return self._net.logits(states), [len(new) for new in unread]

    def _forward(self, tokens: Sequence[Ids]) -> torch.Tensor:
        """States after the last of the tokens that are appended to each row; that of a row without new tokens says nothing."""
        counts = [len(new) for new in tokens]
        ends = [length + count for length, count in zip(self._lengths, counts, strict=True)]
        if self._net.own is not None:
            states = self._net.own.append(tokens, self._lengths, self._buffer, self._net.version())
            self._lengths = ends
            return states
        width = max(counts)
        device = self._buffer.device
        ids = torch.tensor([[*new, *[0] * (width - len(new))] for new in tokens], device=device)
        inside = torch.arange(width, device=device) < torch.tensor(counts, device=device)[:, None]
        positions = torch.tensor(self._lengths, device=device)[:, None] + torch.arange(width, device=device)
        positions = torch.where(inside, positions, 0)
        places = torch.where(inside, positions, self._buffer.shape[3] - 1)
        seen = torch.arange(max(ends), device=device) <= positions[:, :, None]
        cache = Cache(
            layers=[_RowLayer(self._buffer[i], self._buffer[i + 1], places, max(ends)) for i in range(0, len(self._buffer), 2)]
        )
        last = (torch.arange(len(counts), device=device), (torch.tensor(counts, device=device) - 1).clamp(min=0))
        states = self._net.states_at(ids, last, mask=seen[:, None], position_ids=positions, cache=cache)
        self._lengths = ends
        return states

    def _make_room(self, columns: int) -> None:
        missing = columns + 1 - self._buffer.shape[3]
        if missing > 0:
            self._buffer = torch.nn.functional.pad(self._buffer, (0, 0, 0, missing + 16))

    def _of(self, row: int) -> torch.Tensor:
        """Keys and values of a row, [2 x layers, heads, tokens, head size]: a view."""
        return self._buffer[:, row, :, : self._lengths[row]]


class PlainRows:
    """The same without a cache, every call reading the rows from their first token: for models whose cache is not plain.

    (Sliding windows, linear attention, layers of different shapes.) Also the reference that `CachedRows` is tested against.
    """

    def __init__(self, net, ids: Sequence[Ids]):
        self._net, self._ids = net, list(ids)

    def read(self) -> tuple[torch.Tensor, list[int]]:
        self._net.check_length(max(map(len, self._ids)))
        ids, mask = pad(self._ids, self._net.device)
        last = (torch.arange(len(ids), device=ids.device), mask.sum(1) - 1)
        return self._net.logits_at(ids, last, mask=mask), [len(row) for row in self._ids]

    def feed(self, tokens: Sequence[Ids]) -> tuple[torch.Tensor, list[int]]:
        self._ids = [old + new for old, new in zip(self._ids, tokens, strict=True)]
        return self.read()

    def take(self, rows: Sequence[int]) -> None:
        self._ids = [self._ids[row] for row in rows]


def pad(rows: Sequence[Sequence[int]], device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids padded on the right and their mask (1 = token), both int64 [rows, longest]."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)
    mask = torch.arange(width, device=device) < torch.tensor([len(row) for row in rows], device=device)[:, None]
    return ids, mask.long()
