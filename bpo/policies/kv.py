"""Keys and values of tokens that have been read already: rows of a batch while it is decoded, prefixes between two calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers.cache_utils import Cache, DynamicLayer


@dataclass
class _Block:
    """Keys and values [2 x layers, heads, tokens, head size] of one path, and the contexts on it with their lengths."""

    tensor: torch.Tensor
    lengths: dict

    @property
    def size_bytes(self) -> int:
        return self.tensor.numel() * self.tensor.element_size()


class PrefixStore:
    """Keys and values by context: a pure cache, bounded in bytes, least recently used paths dropped first.

    A context's entry passes to its first successor, whose tensor begins with the same tokens: a path holds one tensor however
    many contexts lie on it, and all of them can still be branched from.
    """

    def __init__(self, limit_bytes: int):
        self._limit = limit_bytes
        self._size = 0
        self._blocks: OrderedDict[int, _Block] = OrderedDict()
        self._block_of: dict = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, context) -> bool:
        return context in self._block_of

    @property
    def size_bytes(self) -> int:
        return self._size

    def clear(self) -> None:
        self._blocks.clear()
        self._block_of.clear()
        self._size = 0

    def find(self, context) -> torch.Tensor | None:
        """Keys and values of the longest stored beginning of `context`, [2 x layers, heads, tokens, head size]."""
        while context is not None:
            block = self._block_of.get(context)
            if block is not None:
                self._blocks.move_to_end(id(block))
                return block.tensor[:, :, : block.lengths[context]]
            context = context.parent
        return None

    def put(self, context, tensor: torch.Tensor) -> None:
        """Store the keys and values of all tokens of `context`."""
        block = _Block(tensor, {context: tensor.shape[2]})
        parent = self._block_of.get(context.parent)
        if parent is not None and parent.lengths[context.parent] == parent.tensor.shape[2]:
            block.lengths |= parent.lengths
            self._drop(parent)
        self._blocks[id(block)] = block
        self._block_of |= dict.fromkeys(block.lengths, block)
        self._size += block.size_bytes
        while self._size > self._limit:
            self._drop(next(iter(self._blocks.values())))

    def _drop(self, block: _Block) -> None:
        del self._blocks[id(block)]
        for context in block.lengths:
            del self._block_of[context]
        self._size -= block.size_bytes


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

    Packing to the left leaves no holes inside a row, so a finished row is a slice; which columns a token may see is said by an
    explicit 4-D mask. The last column is a bin for the padding of shorter inputs; nothing ever looks at it.
    """

    def __init__(self, net, pasts: Sequence[torch.Tensor | None], columns: int):
        self._net = net
        self.lengths = [0 if past is None else past.shape[2] for past in pasts]
        layers, heads, size = net.kv_shape
        self._buffer = torch.zeros(layers, len(pasts), heads, columns + 1, size, dtype=net.dtype, device=net.device)
        for row, past in enumerate(pasts):
            if past is not None:
                self._buffer[:, row, :, : past.shape[2]] = past

    def feed(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Append tokens[i] (at least one) to row i; returns the logits [rows, vocabulary] after each row's last token."""
        counts = [len(new) for new in tokens]
        width = max(counts)
        ends = [length + count for length, count in zip(self.lengths, counts, strict=True)]
        self._make_room(max(ends))
        device = self._buffer.device
        ids = torch.tensor([[*new, *[0] * (width - len(new))] for new in tokens], device=device)
        inside = torch.arange(width, device=device) < torch.tensor(counts, device=device)[:, None]
        positions = torch.tensor(self.lengths, device=device)[:, None] + torch.arange(width, device=device)
        positions = torch.where(inside, positions, 0)
        places = torch.where(inside, positions, self._buffer.shape[3] - 1)
        seen = torch.arange(max(ends), device=device) <= positions[:, :, None]
        cache = Cache(
            layers=[_RowLayer(self._buffer[i], self._buffer[i + 1], places, max(ends)) for i in range(0, len(self._buffer), 2)]
        )
        last = (torch.arange(len(counts), device=device), torch.tensor(counts, device=device) - 1)
        logits = self._net.logits_at(ids, last, mask=seen[:, None], position_ids=positions, cache=cache)
        self.lengths = ends
        return logits

    def _make_room(self, columns: int) -> None:
        missing = columns + 1 - self._buffer.shape[3]
        if missing > 0:
            self._buffer = torch.nn.functional.pad(self._buffer, (0, 0, 0, missing + 16))

    def prefix(self, row: int, length: int) -> torch.Tensor:
        """A copy of the first `length` columns of a row, [2 x layers, heads, length, head size]."""
        return self._buffer[:, row, :, :length].clone()

    def take(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; a row may be repeated."""
        self._buffer = self._buffer[:, list(rows)]
        self.lengths = [self.lengths[row] for row in rows]


class PlainRows:
    """The same without a cache, every call reading the rows from their first token: for models whose cache is not plain.

    (Sliding windows, linear attention, layers of different shapes.) Also the reference that `CachedRows` is tested against.
    """

    def __init__(self, net, rows: int):
        self._net = net
        self._ids: list[tuple[int, ...]] = [()] * rows

    def feed(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        self._ids = [(*old, *new) for old, new in zip(self._ids, tokens, strict=True)]
        ids, mask = pad(self._ids, self._net.device)
        last = (torch.arange(len(ids), device=ids.device), mask.sum(1) - 1)
        return self._net.logits_at(ids, last, mask=mask)

    def take(self, rows: Sequence[int]) -> None:
        self._ids = [self._ids[row] for row in rows]


def pad(rows: Sequence[Sequence[int]], device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids padded on the right and their mask (1 = token), both int64 [rows, longest]."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)
    mask = torch.arange(width, device=device) < torch.tensor([len(row) for row in rows], device=device)[:, None]
    return ids, mask.long()
