"""Search as Lucene does it, without Java: BM25 with every score equal to the last bit, and ties in the same order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from bpo.sandboxes.webshop.postings import Postings, write_postings
from bpo.sandboxes.webshop.words import analyse

# Queries that touch fewer postings than this are scored in full: choosing what to leave out would take longer.
FEW = 100_000
# Looking a document up in a list takes about as long as reading this many entries of it.
LOOK_UP = 32
# No score is lower.
TINY = float(np.finfo(np.float32).tiny)
# Longer queries (characters) are not remembered.
LONG = 2_000


@dataclass(frozen=True, slots=True)
class Part:
    """One term of a query: who has it and what that is worth.

    documents   the documents with the term, ascending
    levels      the level of each (see Postings)
    gains       float32, what each level adds to a score
    bound       the most that the term adds to any score
    """

    documents: np.ndarray
    levels: np.ndarray
    gains: np.ndarray
    bound: float

    def add_to(self, scores: np.ndarray) -> None:
        # numpy adds quickly only where both sides have the same type.
        np.add.at(scores, self.documents, np.take(self.gains.astype(scores.dtype, copy=False), self.levels))

    def of(self, documents: np.ndarray) -> np.ndarray:
        """What the term adds to the scores of `documents`, float32."""
        places = np.minimum(self.documents.searchsorted(documents), len(self.documents) - 1)
        return np.where(self.documents[places] == documents, self.gains[self.levels[places]], np.float32(0))


class Index:
    """An index on disk; memory-mapped, so that processes share it, and never written to after it was built."""

    def __init__(self, postings: Postings):
        self._postings = postings
        self._find = lru_cache(maxsize=8192)(postings.find)
        self._remembered = lru_cache(maxsize=4096)(self._search)

    @classmethod
    def build(
        cls,
        documents: Iterable[tuple[str, str]],
        folder: Path,
        progress: Callable[[int], None] | None = None,
    ) -> Index:
        """Index (docid, text) pairs in `folder`, in place of what is there once the new index is whole, and return it.

        `progress` is called now and then with the number of documents read. BadInput where a docid comes twice.
        """
        write_postings(documents, folder, progress)
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> Index:
        """The index in `folder`; BadInput where there is none, or one of another format version."""
        return cls(Postings.load(folder))

    def __len__(self) -> int:
        return len(self._postings.docids)

    def top(self, query: str, k: int = 50) -> tuple[str, ...]:
        """The docids of the `k` best documents, best first, equal scores by docid; fewer where fewer share a term."""
        return (self._remembered if len(query) <= LONG else self._search)(query, k)

    def _search(self, query: str, k: int) -> tuple[str, ...]:
        parts = self._parts(analyse(query))
        if not parts:
            return ()
        if k >= len(self) or sum(len(part.documents) for part in parts) < FEW:
            documents, scores = score_all(parts, len(self))
        else:
            documents = candidates(parts, k, len(self))
            scores = score(parts, documents)
        if len(scores) > k:
            kept = np.flatnonzero(scores >= kth_best(scores, k))
            documents, scores = documents[kept], scores[kept]
        order = np.lexsort((documents, -scores))[:k]
        return tuple(docid.decode() for docid in self._postings.docids[documents[order]].tolist())

    def _parts(self, terms: list[str]) -> list[Part]:
        """The known terms, those that can add most first; a term that the query repeats counts as often."""
        parts = []
        for term, times in Counter(terms).items():
            found = self._find(term)
            if found is None:
                continue
            weight = np.float32(times) * found.weight
            gains = weight - weight / (np.float32(1) + self._postings.saturation)
            parts.append(Part(found.documents, found.levels, gains, float(gains[found.highest])))
        return sorted(parts, key=lambda part: -part.bound)


def score_all(parts: list[Part], size: int) -> tuple[np.ndarray, np.ndarray]:
    """All documents with any of the terms, ascending, and their scores, float32."""
    scores = np.zeros(size)
    for part in parts:
        part.add_to(scores)
    documents = np.flatnonzero(scores)
    return documents, scores[documents].astype(np.float32)


def score(parts: list[Part], documents: np.ndarray) -> np.ndarray:
    """The scores of some documents, float32: the terms are added in the order of `score_all`, in float64 as Lucene does."""
    scores = np.zeros(len(documents))
    for part in parts:
        scores += part.of(documents)
    return scores.astype(np.float32)


def candidates(parts: list[Part], k: int, size: int) -> np.ndarray:
    """The documents, ascending, that can be among the `k` best: few, but certainly all of those (MaxScore pruning).

    Turtle and Flood 1995, "Query evaluation: strategies and optimizations". Terms are added from the most valuable to the
    least. A document is given up when all the terms to come cannot lift it to a score that `k` documents are known to reach.
    Whole lists are read until so few documents are left that looking them up in the other lists is less work.
    """
    lengths = [len(part.documents) for part in parts]
    # unread[i], to_come[i]: the entries of the lists i, i + 1, ... and the most that they add to a score
    unread, to_come = (np.append(np.cumsum(of[::-1])[::-1], 0).tolist() for of in (lengths, [part.bound for part in parts]))
    # Sums in float32 are off by a few units in the last place.
    slack = to_come[0] * len(parts) * 2.0**-22
    rows = max(1, min(64, size // (16 * k)))
    table = np.zeros((rows, -(-size // rows)), np.float32)
    scores = table.reshape(-1)
    reached, looked = 0.0, unread[0]
    for done, part in enumerate(parts, start=1):
        part.add_to(scores)
        # A look at all documents takes about as long as this many entries.
        if (looked - unread[done]) * 4 < size and done < len(parts):
            continue
        looked = unread[done]
        reached = max(reached, reached_by(parts, table, k))
        least = reached - to_come[done] - slack
        if np.count_nonzero(scores >= least) * LOOK_UP * (len(parts) - done) <= unread[done]:
            break
    left = np.flatnonzero(scores >= max(least, TINY)).astype(np.int32)
    partial = scores[left]
    for number in range(done, len(parts)):
        partial += parts[number].of(left)
        kept = partial >= reached - to_come[number + 1] - slack
        left, partial = left[kept], partial[kept]
    return left


def reached_by(parts: list[Part], table: np.ndarray, k: int) -> float:
    """A score that at least `k` documents reach: the `k`-th best among some that lead by the terms added so far.

    table   the scores so far, in rows of equal length; the best of each column stand for all, which spares a sort
    """
    lead = kth_best(table.max(axis=0), k)
    if lead <= 0:
        return 0.0
    leaders = np.flatnonzero(table >= lead).astype(np.int32)
    # Thousands may be level, and any `k` of them will do.
    return kth_best(score(parts, leaders[:: 1 + len(leaders) // (20 * k)]), k)


def kth_best(scores: np.ndarray, k: int) -> float:
    # numpy finds the k-th least quickly among many equal scores, but not the k-th greatest.
    return -float(np.partition(-scores, k - 1)[k - 1])
