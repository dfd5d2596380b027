"""What a language model makes of contexts, in groups that fit into memory together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from bpo.policies.net import Net
from bpo.policies.prefix_cache import pad
from bpo.policies.score import pack


def last_states(net: Net, ids: Sequence[tuple[int, ...]], budget: int) -> Iterator[tuple[list[int], torch.Tensor]]:
    """(indices, the model's states [n, size] after the last of each one's ids, in float32) by groups of `budget` tokens."""
    rows, row_of = pack(ids)
    net.check_length(max(map(len, rows), default=0))
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    for group in by_budget([len(rows[row]) for row in order], budget):
        place = {order[k]: i for i, k in enumerate(group)}
        indices = [i for i, row in enumerate(row_of) if row in place]
        padded, _ = pad([rows[row] for row in place], net.device)
        where = torch.tensor([(place[row_of[i]], len(ids[i]) - 1) for i in indices], device=net.device)
        yield indices, net.states_at(padded, tuple(where.T), mask=torch.ones_like(padded)).float()


def by_budget(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Consecutive positions of ascending `lengths` in groups with count x longest <= budget (or a single one)."""
    groups: list[list[int]] = []
    for k, length in enumerate(lengths):
        if not groups or (len(groups[-1]) + 1) * length > budget:
            groups.append([])
        groups[-1].append(k)
    return groups
