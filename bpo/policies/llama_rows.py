"""New tokens of some rows while acting: how they lie in one list, in a rectangle of queries and in the rows' buffer."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as nn

if TYPE_CHECKING:
    from bpo.policies.llama import Shape


# Neighbouring rows attend together unless cutting there saves more than this share of the scores.
SAVED = 0.15


class Rows:
    """The tokens that are appended to rows of a buffer [2 x layers, rows, heads, columns, head size] (see `Llama.append`).

    ids, places   int64 [tokens], the new tokens of all rows one after the other and their positions; longest: of a row
    last          int64 [rows], where in that list the last token of each row is
    """

    def __init__(self, tokens: Sequence[Sequence[int]], lengths: Sequence[int], buffer: torch.Tensor, shape: Shape):
        self._shape, columns = shape, buffer.shape[3]
        counts = [len(new) for new in tokens]
        ends = [length + count for length, count in zip(lengths, counts, strict=True)]
        count, start = torch.tensor(counts), torch.tensor(lengths)
        self.ids = torch.tensor([token for new in tokens for token in new])
        of_row = torch.repeat_interleave(count)
        self._first = count.cumsum(0) - count
        inside = torch.arange(len(self.ids)) - self._first[of_row]
        self.places = start[of_row] + inside
        self.last = (self._first + count - 1).clamp(min=0)
        self._ends = torch.tensor(ends)
        self.longest = max(ends)
        self._slots = ((of_row * shape.kv_heads)[:, None] + torch.arange(shape.kv_heads)) * columns + self.places[:, None]
        self._slots = self._slots.flatten()
        self._slices = [self._slice(*edges, counts, ends, start) for edges in itertools.pairwise(_cuts(counts))]

    def of_last(self) -> Rows:
        """The same rows where each has one query, that of its last token."""
        other = copy.copy(self)
        rows = len(self._ends)
        places = (self._ends - 1)[:, None]
        other._slices = [_Slice(0, rows, 0, rows, 1, None, self.longest, self._mask(places, self.longest))]
        return other

    def write(self, where: torch.Tensor, new: torch.Tensor) -> None:
        """Put the keys or values [tokens, heads, head size] of the new tokens into those of the rows."""
        where.view(-1, self._shape.size).index_copy_(0, self._slots, new.reshape(-1, self._shape.size))

    def attend(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """What the queries [tokens, heads, head size] see, [tokens, heads x head size]."""
        seen = [self._attend(one, queries[one.begin : one.end], keys, values) for one in self._slices]
        return seen[0] if len(seen) == 1 else torch.cat(seen)

    def _attend(self, one: _Slice, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        shape, rows = self._shape, one.high - one.low
        if one.at is not None:
            rectangle = queries.new_zeros(rows * one.width, shape.heads, shape.size)
            queries = rectangle.index_copy_(0, one.at, queries)
        asked = queries.reshape(rows, one.width * shape.groups, shape.kv_heads, shape.size).transpose(1, 2)
        keys, values = (part[one.low : one.high, :, : one.columns] for part in (keys, values))
        seen = nn.scaled_dot_product_attention(asked, keys, values, attn_mask=one.hidden, scale=1.0)
        seen = seen.transpose(1, 2).reshape(rows * one.width, shape.heads * shape.size)
        return seen if one.at is None else seen.index_select(0, one.at)

    def _slice(self, low: int, high: int, counts: list[int], ends: list[int], start: torch.Tensor) -> _Slice:
        width, columns = max(counts[low:high]), max(ends[low:high])
        tokens = sum(counts[low:high])
        at = None
        if tokens < (high - low) * width:
            count = torch.tensor(counts[low:high])
            of_row = torch.repeat_interleave(count)
            at = of_row * width + torch.arange(tokens) - (count.cumsum(0) - count)[of_row]
        begin = sum(counts[:low])
        hidden = self._mask(start[low:high, None] + torch.arange(width), columns)
        return _Slice(low, high, begin, begin + tokens, width, at, columns, hidden)

    def _mask(self, places: torch.Tensor, columns: int) -> torch.Tensor:
        """Added to the scores, [rows, 1, queries, columns]: nothing where a query at its place may look, else -inf."""
        places = places.repeat_interleave(self._shape.groups, 1)
        hidden = torch.arange(columns) > places[:, :, None]
        return torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None]


@dataclass(frozen=True)
class _Slice:
    """Rows low..high, which attend together, and their tokens begin..end of the list.

    width    queries of each row, padded; at: int64 [tokens], where each token is in the rectangle, None where that is full
    columns  keys that they look at; hidden: [rows, 1, queries, columns], added to the scores
    """

    low: int
    high: int
    begin: int
    end: int
    width: int
    at: torch.Tensor | None
    columns: int
    hidden: torch.Tensor


def _cuts(counts: Sequence[int]) -> list[int]:
    """Where rows are cut into slices that attend together: [0, ..., rows], wherever that saves enough padding."""
    most = max(counts)
    best, saved = 0, 0
    widest = 0
    for row, count in enumerate(counts[:-1], start=1):
        widest = max(widest, count)
        if row * (most - widest) > saved:
            best, saved = row, row * (most - widest)
    if saved <= SAVED * most * len(counts):
        return [0, len(counts)]
    return [*_cuts(counts[:best]), *(best + cut for cut in _cuts(counts[best:])[1:])]
