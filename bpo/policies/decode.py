"""The decode loop: many rows at once, each written from its own random stream, constrained to a trie or free."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from bpo.finite import require_mass
from bpo.policies.score import Choices, allowed_log_probs
from bpo.policies.trie import Node, forced
from bpo.policy import Decision


class ActionDecoder:
    """One decision while it is written. `choices` says what may come next; `push` takes a token and returns what to feed.

    A decoder that returns nothing to feed has finished. The first choice's entropy is the decision's.
    """

    def __init__(self):
        self.tokens: list[int] = []
        self.log_probs: list[float] = []
        self.allowed: list[Choices] = []
        self.entropies: list[float] = []
        self.ended = True

    def note(self, token: int, log_prob: float, allowed: Choices) -> None:
        self.tokens.append(token)
        self.log_probs.append(log_prob)
        self.allowed.append(allowed)

    def decision(self, action: str, prefilled: int, computed: int) -> Decision:
        free = [i for i, ids in enumerate(self.allowed) if ids is None or len(ids) > 1]
        return Decision(
            action=action,
            tokens=tuple(self.tokens),
            log_probs=tuple(self.log_probs),
            choices=tuple(self.allowed),
            entropy=self.entropies[0] if self.entropies else 0.0,
            prefilled=prefilled,
            generated=free[-1] + 1 if free else 0,  # forced tokens after the last choice are not needed to draw it
            computed=computed,
            entropies=tuple(self.entropies),
            ended=self.ended,
        )


class TrieDecoder(ActionDecoder):
    """Constrained writing: only tokens that lead to an admissible action; runs without a choice are written at once."""

    def __init__(self, root: Node):
        super().__init__()
        self._node: Node | str = root
        self.start = self._run()

    @property
    def choices(self) -> Choices:
        return tuple(sorted(self._node))

    @property
    def action(self) -> str:
        return self._node

    def _run(self) -> tuple[int, ...]:
        run, self._node = forced(self._node)
        for token in run:
            self.note(token, 0.0, (token,))
        return run

    @property
    def finished(self) -> bool:
        return isinstance(self._node, str)

    def push(self, token: int, log_prob: float) -> tuple[int, ...]:
        self.note(token, log_prob, self.choices)
        self._node = self._node[token]
        run = self._run()
        return () if self.finished else (token, *run)


class FreeDecoder(ActionDecoder):
    """Free writing: any token, until `over` says so or `limit` tokens are written; `parse` finds the action.

    draft   tokens of the action that are written already, where writing has paused; pauses says whether to pause again
    text    what tokens read as, for the action of a decision that pauses
    """

    start = ()
    choices: Choices = None
    finished = False

    def __init__(
        self,
        over: Callable[[list[int]], bool],
        parse: Callable[[list[int]], str],
        limit: int,
        draft: Sequence[int] = (),
        pauses: Callable[[list[int]], bool] = lambda tokens: False,
        text: Callable[[list[int]], str] = str,
    ):
        super().__init__()
        self._over, self._parse, self._limit, self._draft = over, parse, limit, draft
        self._pauses, self._text = pauses, text

    @property
    def action(self) -> str:
        return self._parse([*self._draft, *self.tokens]) if self.ended else self._text(self.tokens)

    def push(self, token: int, log_prob: float) -> tuple[int, ...]:
        self.note(token, log_prob, None)
        written = [*self._draft, *self.tokens]
        if len(written) >= self._limit or self._over(written):
            return ()
        self.ended = not self._pauses(written)
        return (token,) if self.ended else ()


def write(
    rows,
    logits: torch.Tensor,
    at: Sequence[int],
    decoders: Sequence[ActionDecoder],
    rngs: Sequence[np.random.Generator],
    temperature: float,
) -> list[int]:
    """Write every decoder to its end; returns how many tokens the model read for each.

    rows   what the model has read; logits [rows, vocabulary]: what it thinks comes next
    at     the row of each decoder. Decoders share a row until they part; what they write alike is read once, for the first
    """
    live = list(enumerate(at))
    read = [0] * len(decoders)
    while True:
        picks, log_probs, entropies = draw(
            logits[[row for _, row in live]], [decoders[i].choices for i, _ in live], [rngs[i] for i, _ in live], temperature
        )
        places: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for (i, row), token, log_prob, entropy in zip(live, picks, log_probs, entropies, strict=True):
            decoders[i].entropies.append(entropy)
            feed = decoders[i].push(token, log_prob)
            if feed:
                places.setdefault((row, feed), []).append(i)
        if not places:
            return read
        rows.take([row for row, _ in places])
        logits, counts = rows.feed([feed for _, feed in places])
        live = [(i, row) for row, members in enumerate(places.values()) for i in members]
        for members, count in zip(places.values(), counts, strict=True):
            read[members[0]] += count


def draw(logits, choices: Sequence[Choices], rngs, temperature: float) -> tuple[list[int], list[float], list[float]]:
    """Sample one token per row by inverse CDF in float64, one uniform number from each row's own generator.

    Returns tokens, their log-probabilities and the entropies (nats) of the distributions they came from.
    """
    if choices[0] is None:
        ids, log_probs = None, (logits / temperature).log_softmax(-1)
    else:
        ids, log_probs = allowed_log_probs(logits, choices, temperature)
        ids = ids.cpu().numpy()
    log_probs = log_probs.cpu().numpy().astype(np.float64)
    probs = np.exp(log_probs)
    entropy = -(probs * np.where(probs > 0, log_probs, 0.0)).sum(1)
    cdf = probs.cumsum(1)
    require_mass(cdf[:, -1])
    cut = np.array([rng.random() for rng in rngs])[:, None] * cdf[:, -1:]
    pick = (cdf > cut).argmax(1)
    rows = np.arange(len(pick))
    tokens = pick if ids is None else ids[rows, pick]
    return tokens.tolist(), log_probs[rows, pick].tolist(), entropy.tolist()
