"""Log-probabilities of tokens under a mask of allowed ids, and the packing of steps into sequences."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bpo.policies.prompts import Context
from bpo.policy import Decision

Choices = tuple[int, ...] | None


def read_before(context: Context, decision: Decision) -> tuple[int, ...]:
    """What a model has to read to draw a decision, or to score it: everything before its last token with a choice."""
    return context.ids + decision.tokens[: decision.free[-1]] if decision.free else ()


def pack(sequences: Sequence[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Rows that contain every sequence as a prefix, and for each sequence the index of its row.

    In lexicographic order everything between a prefix and its extension has that prefix too, so looking at the neighbour is
    enough: a trajectory's steps become one row.
    """
    rows: list[tuple[int, ...]] = []
    row_of = [0] * len(sequences)
    for index in sorted(range(len(sequences)), key=sequences.__getitem__, reverse=True):
        sequence = sequences[index]
        if not rows or rows[-1][: len(sequence)] != sequence:
            rows.append(sequence)
        row_of[index] = len(rows) - 1
    return rows, row_of


def allowed_log_probs(logits: torch.Tensor, choices: Sequence[tuple[int, ...]], temperature: float):
    """Renormalised log-probabilities over the allowed ids.

    logits [n, vocabulary]; choices[i] the ids allowed in row i. Returns (ids, log_probs), both [n, most choices]; places beyond
    a row's own choices have log-probability -inf.
    """
    width = max(len(ids) for ids in choices)
    padded = torch.tensor([[*ids, *[ids[0]] * (width - len(ids))] for ids in choices], device=logits.device)
    real = (
        torch.arange(width, device=logits.device) < torch.tensor([len(ids) for ids in choices], device=logits.device)[:, None]
    )
    scores = (logits.gather(1, padded) / temperature).masked_fill(~real, -torch.inf)
    return padded, scores.log_softmax(-1)


def token_log_probs(logits, tokens: Sequence[int], choices: Sequence[Choices], temperature: float) -> torch.Tensor:
    """Log-probability [n] of tokens[i] in row i of logits [n, vocabulary] under choices[i] (None: the whole vocabulary)."""
    values = logits.new_zeros(len(tokens))
    open_rows = [i for i, ids in enumerate(choices) if ids is None]
    if open_rows:
        chosen = torch.tensor([[tokens[i]] for i in open_rows], device=logits.device)
        all_log_probs = (logits[open_rows] / temperature).log_softmax(-1)
        values = values.index_put((_index(open_rows, logits),), all_log_probs.gather(1, chosen)[:, 0])
    limited = [i for i, ids in enumerate(choices) if ids is not None]
    if limited:
        _, log_probs = allowed_log_probs(logits[limited], [choices[i] for i in limited], temperature)
        place = torch.tensor([[choices[i].index(tokens[i])] for i in limited], device=logits.device)
        values = values.index_put((_index(limited, logits),), log_probs.gather(1, place)[:, 0])
    return values


def _index(rows: list[int], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(rows, device=like.device)
