"""Training on a tree of sequences in one pass: what they share is in the list of tokens once, each attends along its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as nn

from bpo.policies.llama_layer import FeedForward, Layer, Projected, Shape
from bpo.policies.prefix_sharing import SharingPlan

# Most tokens of a segment that attend as one row. Rows attend together where that adds no more than this share of scores.
PIECE, PADDED = 96, 1.3
# Rows are put side by side by their tokens, in steps of so many, and then by the length of their paths.
FEW = 8

# Index of a segment and the offsets of those of its tokens that ask.
_Row = tuple[int, list[int]]


@dataclass(frozen=True)
class Block:
    """Segments of similar length whose tokens attend together.

    asked     int64 [rows x width], the token of each query (the first one stands in for padding)
    real      int64 [queries], which of them are queries; tokens: the tokens that ask, in that order
    path      int64 [rows x columns], the tokens on the path to each row, from its beginning
    pieces    for every row the segments on its path as (first token, first column, tokens)
    hidden    [rows, 1, queries, columns], added to the scores
    """

    asked: torch.Tensor
    real: torch.Tensor
    tokens: torch.Tensor
    path: torch.Tensor
    pieces: tuple[tuple[tuple[int, int, int], ...], ...]
    hidden: torch.Tensor


class Tree:
    """How the tokens of a plan lie in one list, and which attend to which.

    ids, places   int64 [tokens]; longest: tokens of the longest path
    blocks        for all tokens as queries; last: for the tokens at the wanted places alone
    wanted        int64, tokens at those places, each once; order: int64 [n], the one of them at each place
    """

    def __init__(self, planned: SharingPlan, places: Sequence[tuple[int, int]], shape: Shape):
        self._planned, self._shape = planned, shape
        segments = planned.segments
        self._first = [0]
        for segment in segments:
            self._first.append(self._first[-1] + len(segment.tokens))
        self.ids = torch.tensor([token for segment in segments for token in segment.tokens])
        self.places = torch.tensor([place for one in segments for place in range(one.start, one.start + len(one.tokens))])
        self.longest = max(one.start + len(one.tokens) for one in segments)
        asking: dict[int, set[int]] = {}
        found = [planned.place(sequence, position) for sequence, position in places]
        for segment, offset in found:
            asking.setdefault(segment, set()).add(offset)
        of_token = {}
        for segment in sorted(asking):
            for offset in sorted(asking[segment]):
                of_token[segment, offset] = len(of_token)
        self.order = torch.tensor([of_token[one] for one in found])
        self.wanted = torch.tensor([self._first[segment] + offset for segment, offset in of_token])
        self.blocks = self._blocks({i: list(range(len(one.tokens))) for i, one in enumerate(segments)})
        where = torch.full((len(self.ids),), -1)
        where[self.wanted] = torch.arange(len(self.wanted))
        self.last = self._blocks({segment: sorted(offsets) for segment, offsets in asking.items()}, where)

    def _blocks(self, asking: dict[int, list[int]], where: torch.Tensor | None = None) -> list[Block]:
        """Blocks of the segments that ask, at these offsets; `where` renumbers the tokens that ask."""
        # In pieces, so that what comes after a piece is not laid before it.
        rows = [(i, offsets[k : k + PIECE]) for i, offsets in asking.items() for k in range(0, len(offsets), PIECE)]
        rows.sort(key=lambda row: (-(-len(row[1]) // FEW), self._planned.segments[row[0]].start + row[1][-1], row))
        groups: list[list[_Row]] = []
        used = width = columns = 0
        for segment, offsets in rows:
            seen = self._planned.segments[segment].start + offsets[-1] + 1
            used, width, columns = used + len(offsets) * seen, max(width, len(offsets)), max(columns, seen)
            if not groups or (len(groups[-1]) + 1) * width * columns > PADDED * used:
                groups.append([])
                used, width, columns = len(offsets) * seen, len(offsets), seen
            groups[-1].append((segment, offsets))
        return [self._block(group, where) for group in groups]

    def _block(self, rows: Sequence[_Row], where: torch.Tensor | None) -> Block:
        segments = self._planned.segments
        width = max(len(offsets) for _, offsets in rows)
        columns = max(segments[segment].start + offsets[-1] + 1 for segment, offsets in rows)
        asked, real, at, path, pieces = [], [], [], [], []
        for row, (segment, offsets) in enumerate(rows):
            first, start = self._first[segment], segments[segment].start
            filled = offsets + offsets[:1] * (width - len(offsets))
            asked += [first + offset for offset in filled]
            at += [start + offset for offset in filled]
            real += range(row * width, row * width + len(offsets))
            chain = [(first, start, offsets[-1] + 1)]
            parent = segments[segment].parent
            while parent >= 0:
                chain.append((self._first[parent], segments[parent].start, len(segments[parent].tokens)))
                parent = segments[parent].parent
            pieces.append(tuple(reversed(chain)))
            for begin, _, length in pieces[-1]:
                path += range(begin, begin + length)
            path += [first] * (columns - start - offsets[-1] - 1)
        asked_tokens, places = torch.tensor(asked), torch.tensor(at).view(len(rows), width)
        if where is not None:
            asked_tokens = where[asked_tokens]
        hidden = torch.arange(columns) > places.repeat_interleave(self._shape.groups, 1)[:, :, None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None]
        numbers = torch.tensor(real)
        return Block(asked_tokens, numbers, asked_tokens[numbers], torch.tensor(path), tuple(pieces), mask)


class Attended(torch.autograd.Function):
    """What the tokens that ask see, [tokens that ask, heads x head size].

    queries [tokens that ask, heads, head size]; pairs [tokens, 2 x heads of keys, head size], keys and values of all
    """

    @staticmethod
    def forward(ctx, queries, pairs, blocks: Sequence[Block], shape: Shape, keep: bool):
        seen = torch.empty(len(queries), shape.heads * shape.size)
        ctx.blocks, ctx.shape, ctx.kept = blocks, shape, []
        ctx.sizes = len(queries), len(pairs)
        for block in blocks:
            rows = len(block.hidden)
            asked = queries.index_select(0, block.asked).view(rows, -1, shape.kv_heads, shape.size).transpose(1, 2)
            laid = pairs.index_select(0, block.path).view(rows, -1, 2 * shape.kv_heads, shape.size).transpose(1, 2)
            keys, values = laid.split(shape.kv_heads, 1)
            with torch.set_grad_enabled(keep):
                inputs = [part.detach().requires_grad_(keep) for part in (asked, keys, values)]
                found = nn.scaled_dot_product_attention(*inputs, attn_mask=block.hidden, scale=1.0)
            if keep:
                ctx.kept.append((found, inputs))
            found = found.detach().transpose(1, 2).reshape(-1, shape.heads * shape.size)
            seen.index_copy_(0, block.tokens, found.index_select(0, block.real))
        return seen

    @staticmethod
    def backward(ctx, grad):
        shape, (asking, tokens) = ctx.shape, ctx.sizes
        of_queries = grad.new_empty(asking, shape.heads, shape.size)
        of_pairs = grad.new_zeros(tokens, 2 * shape.kv_heads, shape.size)
        for block, (found, inputs) in zip(ctx.blocks, ctx.kept, strict=True):
            rows = len(block.hidden)
            of_found = grad.new_zeros(len(block.asked), grad.shape[1])
            of_found.index_copy_(0, block.real, grad.index_select(0, block.tokens))
            of_found = of_found.view(rows, -1, shape.kv_heads, shape.size).transpose(1, 2)
            asked, keys, values = torch.autograd.grad(found, inputs, of_found)
            asked = asked.transpose(1, 2).reshape(-1, shape.heads, shape.size)
            of_queries.index_copy_(0, block.tokens, asked.index_select(0, block.real))
            laid = torch.cat([keys, values], 1).transpose(1, 2)
            for row, pieces in enumerate(block.pieces):
                for first, column, length in pieces:
                    of_pairs[first : first + length] += laid[row, column : column + length]
        return of_queries, of_pairs, None, None, None


def read_tree(tree: Tree, shape: Shape, turns: torch.Tensor, embedding: torch.Tensor, layers: Sequence[Layer]) -> torch.Tensor:
    """States [n, size] at the tree's places, normed and not scaled; differentiable in the embedding and the layers."""
    keep, own = torch.is_grad_enabled(), shape.heads * shape.size
    x = nn.embedding(tree.ids, embedding)
    for number, layer in enumerate(layers):
        if number < len(layers) - 1:
            heads = Projected.apply(x, layer.qkv, turns, shape.heads + shape.kv_heads, shape)
            queries, pairs, blocks = *heads.split((shape.heads, 2 * shape.kv_heads), 1), tree.blocks
        else:
            # All tokens have keys and values; those that are wanted ask.
            pairs = Projected.apply(x, layer.qkv[own:], turns, shape.kv_heads, shape)
            x = x.index_select(0, tree.wanted)
            queries, blocks = Projected.apply(x, layer.qkv[:own], turns[tree.wanted], shape.heads, shape), tree.last
        x = torch.addmm(x, Attended.apply(queries, pairs, blocks, shape, keep), layer.out.T)
        x = FeedForward.apply(x, layer.gate_up, layer.down, shape.eps)
    return nn.rms_norm(x, x.shape[1:], None, shape.eps).index_select(0, tree.order)
