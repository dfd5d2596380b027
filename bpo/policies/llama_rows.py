"""New tokens of some rows while acting: how they lie in one list, in a rectangle of queries and in the rows' buffer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as nn

if TYPE_CHECKING:
    from bpo.policies.llama import Shape


class Rows:
    """The tokens that are appended to rows of a buffer [2 x layers, rows, heads, columns, head size] (see `Llama.append`).

    ids, places   int64 [tokens], the new tokens of all rows one after the other and their positions; longest: of a row
    last          int64 [rows], where in that list the last token of each row is
    """

    def __init__(self, tokens: Sequence[Sequence[int]], lengths: Sequence[int], buffer: torch.Tensor, shape: Shape):
        self._shape, columns = shape, buffer.shape[3]
        counts, starts = torch.tensor([len(new) for new in tokens]), torch.tensor(lengths)
        self.ids = torch.tensor([token for new in tokens for token in new])
        of_row = torch.repeat_interleave(counts)
        first = counts.cumsum(0) - counts
        inside = torch.arange(len(self.ids)) - first[of_row]
        self.places = starts[of_row] + inside
        self.last = (first + counts - 1).clamp(min=0)
        self._ends = starts + counts
        self.longest, self._width = int(self._ends.max()), int(counts.max())
        self._slots = ((of_row * shape.kv_heads)[:, None] + torch.arange(shape.kv_heads)) * columns + self.places[:, None]
        self._slots = self._slots.flatten()
        # Where each token is in the rectangle; None where it is full.
        self._at = None if len(self.ids) == len(tokens) * self._width else of_row * self._width + inside
        self._hidden = self._mask(starts[:, None] + torch.arange(self._width))

    def of_last(self) -> Rows:
        """The same rows where each has one query, that of its last token."""
        other = copy.copy(self)
        other._width, other._at = 1, None
        other._hidden = self._mask((self._ends - 1)[:, None])
        return other

    def write(self, where: torch.Tensor, new: torch.Tensor) -> None:
        """Put the keys or values [tokens, heads, head size] of the new tokens into those of the rows."""
        where.view(-1, self._shape.size).index_copy_(0, self._slots, new.reshape(-1, self._shape.size))

    def attend(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """What the queries [tokens, heads, head size] see, [tokens, heads x head size]."""
        shape, rows = self._shape, len(self._ends)
        if self._at is not None:
            rectangle = queries.new_zeros(rows * self._width, shape.heads, shape.size)
            queries = rectangle.index_copy_(0, self._at, queries)
        asked = queries.reshape(rows, self._width * shape.groups, shape.kv_heads, shape.size).transpose(1, 2)
        keys, values = keys[:, :, : self.longest], values[:, :, : self.longest]
        seen = nn.scaled_dot_product_attention(asked, keys, values, attn_mask=self._hidden, scale=1.0)
        seen = seen.transpose(1, 2).reshape(rows * self._width, shape.heads * shape.size)
        return seen if self._at is None else seen[self._at]

    def _mask(self, places: torch.Tensor) -> torch.Tensor:
        """Added to the scores, [rows, 1, queries, columns]: nothing where a query at its place may look, else -inf."""
        places = places.repeat_interleave(self._shape.groups, 1)
        hidden = torch.arange(self.longest) > places[:, :, None]
        return torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None]
