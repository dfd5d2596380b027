"""Training on what a tree shares: every common beginning of many sequences is read once, forwards and backwards.

Sequences are cut into segments, each with the tokens between two places where sequences part. `staged` reads segments in
stages, parents before children, on top of the keys and values of what lies above them; those stay in the graph, so that the
gradients of all children add up in them. `packed` reads everything as one row under a mask that shows a token its own path
alone: the plain reference, which pays for attention between branches that see nothing of each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers.cache_utils import Cache, DynamicLayer

from bpo.policies.prefix_cache import common_length, pad

# Shared beginnings of fewer tokens are read again; the cheapest of these plans is taken.
SHORTEST = (16, 32, 64, 128)
# Padded tokens in one batch of a stage: fewer than a batch without sharing may have, since lengths of segments differ more.
STAGE_TOKENS = 2048
# What reading costs, forwards and backwards, in units of reading one token without attention: a batch by itself; attention as a
# multiple of its arithmetic, plain and causal or under a mask; laying one known token before a row. Fitted to times of the tiny
# model and SmolLM2 on a CPU.
BATCH, CAUSAL, MASKED, BEFORE = 100.0, 1.2, 0.9, 0.1
# A plan must be estimated to be cheaper by more than the estimate errs.
GAIN = 1.05


@dataclass(frozen=True)
class Segment:
    """Tokens between two places where sequences part.

    tokens  its token ids; start: tokens before it on every path through it
    parent  index of the segment before it, -1 where there is none
    leaf    whether nothing follows it
    """

    tokens: tuple[int, ...]
    start: int
    parent: int
    leaf: bool


@dataclass(frozen=True)
class SharingPlan:
    """Sequences as segments.

    segments  parents before children
    paths     for every sequence the indices of its segments, in order
    """

    segments: tuple[Segment, ...]
    paths: tuple[tuple[int, ...], ...]

    @property
    def unique(self) -> int:
        """Tokens that are read."""
        return sum(len(segment.tokens) for segment in self.segments)

    def place(self, sequence: int, position: int) -> tuple[int, int]:
        """Segment and offset of a token of a sequence."""
        index = next(i for i in reversed(self.paths[sequence]) if self.segments[i].start <= position)
        return index, position - self.segments[index].start

    def stages(self) -> list[list[int]]:
        """Indices of segments that can be read together: inner ones by level, then all that nothing follows."""
        level: list[int] = []
        for segment in self.segments:
            level.append(0 if segment.parent < 0 else level[segment.parent] + 1)
        inner = [i for i, segment in enumerate(self.segments) if not segment.leaf]
        stages = [[i for i in inner if level[i] == depth] for depth in sorted({level[i] for i in inner})]
        return [*stages, [i for i, segment in enumerate(self.segments) if segment.leaf]]


def best(sequences: Sequence[tuple[int, ...]], batch_tokens: int, pair: float) -> SharingPlan | None:
    """The cheapest plan, None where reading every sequence by itself is not much dearer.

    pair  cost of one token's attention to one other, in units of reading a token without attention
    """
    parted = _parted(sequences)
    cheapest = min((_cut(parted, shortest) for shortest in SHORTEST), key=lambda one: cost(one, batch_tokens, pair))
    alone = _cut(parted, max(map(len, sequences), default=0) + 1)
    return cheapest if GAIN * cost(cheapest, batch_tokens, pair) < cost(alone, batch_tokens, pair) else None


def cost(planned: SharingPlan, batch_tokens: int, pair: float) -> float:
    """What reading in stages costs, in units of reading one token without attention."""
    total = 0.0
    for stage in planned.stages():
        for group in _batches(planned, stage, batch_tokens):
            segments = [planned.segments[i] for i in group]
            width, before = max(len(one.tokens) for one in segments), max(one.start for one in segments)
            seen = MASKED * (width + before) if before else CAUSAL * width / 2
            total += BATCH + len(group) * (width * (1 + pair * seen) + BEFORE * before)
    return total


def together(sequences: Sequence[tuple[int, ...]], budget: int) -> list[list[int]]:
    """Indices of sequences in groups with at most `budget` unique tokens (or a single one), neighbours in one group."""
    parted = _parted(sequences)
    groups: list[list[int]] = []
    spent = 0
    for index, row, known in zip(parted.order, parted.rows, parted.common, strict=True):
        spent += len(row) - (known if known >= SHORTEST[0] else 0)
        if not groups or spent > budget:
            groups.append([])
            spent = len(row)
        groups[-1].append(index)
    return groups


def plan(sequences: Sequence[tuple[int, ...]], shortest: int = SHORTEST[0]) -> SharingPlan:
    """Cut sequences where they part; none may begin another. Beginnings of fewer than `shortest` tokens are not shared."""
    return _cut(_parted(sequences), shortest)


@dataclass(frozen=True)
class _Parted:
    """Sequences in lexicographic order (`order`: their indices), and how many tokens each shares with the one before it."""

    rows: Sequence[tuple[int, ...]]
    order: Sequence[int]
    common: Sequence[int]


def _parted(sequences: Sequence[tuple[int, ...]]) -> _Parted:
    order = sorted(range(len(sequences)), key=sequences.__getitem__)
    rows = [sequences[i] for i in order]
    common = [0] * min(1, len(rows)) + [common_length(one, other) for one, other in itertools.pairwise(rows)]
    return _Parted(rows, order, common)


def _cut(parted: _Parted, shortest: int) -> SharingPlan:
    rows, order, common = parted.rows, parted.order, parted.common
    segments: list[Segment] = []
    paths: list[tuple[int, ...]] = [()] * len(rows)

    def cut(low: int, high: int, start: int, path: tuple[int, ...]) -> None:
        parent = path[-1] if path else -1
        if high - low == 1:
            segments.append(Segment(rows[low][start:], start, parent, True))
            paths[order[low]] = (*path, len(segments) - 1)
            return
        end = min(common[low + 1 : high])
        if end - start >= shortest:
            segments.append(Segment(rows[low][start:end], start, parent, False))
            path, start = (*path, len(segments) - 1), end
        edges = [low, *(i for i in range(low + 1, high) if common[i] == end), high]
        for first, last in itertools.pairwise(edges):
            cut(first, last, start, path)

    if rows:
        cut(0, len(rows), 0, ())
    return SharingPlan(tuple(segments), tuple(paths))


class _Layer(DynamicLayer):
    """One layer while a stage is read: hands out what lies before the rows and their own, keeps their own."""

    def __init__(self, keys: torch.Tensor | None, values: torch.Tensor | None):
        super().__init__()
        self.before = None if keys is None else (keys, values)
        self.own: tuple[torch.Tensor, torch.Tensor] | None = None
        self.is_initialized = True

    def update(self, key_states, value_states, *args, **kwargs):
        self.own = (key_states, value_states)
        if self.before is None:
            return key_states, value_states
        return torch.cat([self.before[0], key_states], 2), torch.cat([self.before[1], value_states], 2)

    def get_seq_length(self) -> int:
        return 0 if self.before is None else self.before[0].shape[2]


def staged(net, planned: SharingPlan, places: Sequence[tuple[int, int]], batch_tokens: int) -> torch.Tensor:
    """Logits [n, vocabulary] in float32 at the (sequence, position) pairs `places`; differentiable.

    A stage is read in batches of rows of similar length, of at most `batch_tokens` and STAGE_TOKENS padded tokens.
    """
    found = [planned.place(sequence, position) for sequence, position in places]
    wanted: dict[int, list[int]] = {}
    for number, (segment, _) in enumerate(found):
        wanted.setdefault(segment, []).append(number)
    memory: dict[int, list[torch.Tensor]] = {}
    logits: list[torch.Tensor] = []
    order: list[int] = []
    for stage in planned.stages():
        for group in _batches(planned, stage, batch_tokens):
            numbers = [(row, number) for row, segment in enumerate(group) for number in wanted.get(segment, ())]
            where = (
                torch.tensor([row for row, _ in numbers], dtype=torch.int64, device=net.device),
                torch.tensor([found[number][1] for _, number in numbers], dtype=torch.int64, device=net.device),
            )
            logits.append(_read(net, planned, group, memory, where))
            order += [number for _, number in numbers]
    back = torch.empty(len(order), dtype=torch.int64)
    back[torch.tensor(order, dtype=torch.int64)] = torch.arange(len(order))
    return torch.cat(logits)[back.to(net.device)]


def _batches(planned: SharingPlan, stage: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Segments of similar length; those that begin their sequences apart from the others, since they need no mask."""
    segments = planned.segments
    groups: list[list[int]] = []
    for index in sorted(stage, key=lambda i: (segments[i].parent >= 0, len(segments[i].tokens), segments[i].start, i)):
        length = len(segments[index].tokens)
        mixed = groups and (segments[groups[-1][-1]].parent >= 0) != (segments[index].parent >= 0)
        # Rows that stand on nothing need no mask, and take as many tokens as they do without sharing.
        most = batch_tokens if segments[index].parent < 0 else min(batch_tokens, STAGE_TOKENS)
        if not groups or mixed or (len(groups[-1]) + 1) * length > most:
            groups.append([])
        groups[-1].append(index)
    return groups


def _read(net, planned: SharingPlan, group: Sequence[int], memory: dict[int, list[torch.Tensor]], where) -> torch.Tensor:
    """Read some segments at once; keeps the keys and values of those that others stand on in `memory`."""
    segments = [planned.segments[i] for i in group]
    ids, _ = pad([segment.tokens for segment in segments], net.device)
    width = ids.shape[1]
    layers = net.kv_shape[0] // 2
    starts = torch.tensor([segment.start for segment in segments], device=net.device)
    longest = int(starts.max())
    if longest == 0:
        cache = Cache(layers=[_Layer(None, None) for _ in range(layers)])
        # Padding on the right is invisible to a causal model, and a plain mask keeps the fast attention path.
        logits = net.logits_at(ids, where, mask=torch.ones_like(ids), position_ids=_places(starts, width), cache=cache)
    else:
        above = [_above(planned, i, memory) for i in group]
        cache = Cache(layers=[_Layer(*_before(above, layer, longest)) for layer in range(layers)])
        new = torch.arange(width, device=net.device)
        old = torch.arange(longest, device=net.device) < starts[:, None]
        causal = (new <= new[:, None]).expand(len(group), width, width)
        mask = torch.cat([old[:, None].expand(-1, width, -1), causal], 2)[:, None]
        logits = net.logits_at(ids, where, mask=mask, position_ids=_places(starts, width), cache=cache)
    for row, index in enumerate(group):
        if not planned.segments[index].leaf:
            length = len(planned.segments[index].tokens)
            memory[index] = [tensor[row, :, :length] for layer in cache.layers for tensor in layer.own]
    return logits


def _places(starts: torch.Tensor, width: int) -> torch.Tensor:
    return starts[:, None] + torch.arange(width, device=starts.device)


def _above(planned: SharingPlan, index: int, memory: dict[int, list[torch.Tensor]]) -> list[torch.Tensor]:
    """Keys and values, by layer, of all that lies before a segment: [heads, start, head size] each."""
    chain = []
    parent = planned.segments[index].parent
    while parent >= 0:
        chain.append(memory[parent])
        parent = planned.segments[parent].parent
    return [torch.cat(parts, 1) if len(parts) > 1 else parts[0] for parts in zip(*reversed(chain), strict=True)]


def _before(above: Sequence[list[torch.Tensor]], layer: int, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of one layer for all rows, [rows, heads, longest, head size]; rows that are shorter end in zeros."""
    return tuple(  # type: ignore[return-value]
        torch.stack([_filled(tensors[2 * layer + part], longest) for tensors in above]) for part in (0, 1)
    )


def _filled(tensor: torch.Tensor, length: int) -> torch.Tensor:
    missing = length - tensor.shape[1]
    return torch.nn.functional.pad(tensor, (0, 0, 0, missing)) if missing else tensor


def packed(net, planned: SharingPlan, places: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The same logits from one row for all segments, under a mask that shows every token what lies before it on its path."""
    segments = planned.segments
    first = [0]
    for segment in segments:
        first.append(first[-1] + len(segment.tokens))
    seen = torch.zeros(planned.unique, planned.unique, dtype=torch.bool, device=net.device)
    for index, segment in enumerate(segments):
        own = slice(first[index], first[index + 1])
        seen[own, own] = torch.ones(len(segment.tokens), len(segment.tokens), dtype=torch.bool, device=net.device).tril()
        parent = segment.parent
        while parent >= 0:
            seen[own, first[parent] : first[parent + 1]] = True
            parent = segments[parent].parent
    ids = torch.tensor([[token for segment in segments for token in segment.tokens]], device=net.device)
    positions = torch.cat([torch.arange(segment.start, segment.start + len(segment.tokens)) for segment in segments])
    found = [planned.place(sequence, position) for sequence, position in places]
    columns = torch.tensor([first[segment] + offset for segment, offset in found], device=net.device)
    cache = Cache(layers=[_Layer(None, None) for _ in range(net.kv_shape[0] // 2)])
    where = (torch.zeros_like(columns), columns)
    return net.logits_at(ids, where, mask=seen[None, None], position_ids=positions[None].to(net.device), cache=cache)
