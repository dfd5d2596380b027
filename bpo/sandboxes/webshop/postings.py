"""The index on disk: which documents have a term, and how much the term says about each of them."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bpo.errors import BadInput
from bpo.files import published
from bpo.sandboxes.webshop.folders import mapped, write_head
from bpo.sandboxes.webshop.words import analyse

KIND, FORMAT = "search index", 1
# The parameters of BM25 that pyserini sets, in the precision that Lucene computes with.
K1, B, ONE = np.float32(0.9), np.float32(0.4), np.float32(1)
# How many words are sorted at a time while documents are read, and how many postings afterwards; 4 M take about 200 MB.
BATCH = 1 << 22
# Lucene stores a document's length in one byte, rounded down to one of these: exact below 40, then four significant bits.
LENGTHS = np.array(([*range(32)] + [24 + ((8 | bits) << shift) for shift in range(28) for bits in range(8)])[:256], np.int64)


@dataclass(frozen=True, slots=True)
class Found:
    """One term: the documents that have it, ascending, the level of each, the highest level, the weight (idf)."""

    documents: np.ndarray
    levels: np.ndarray
    highest: int
    weight: np.float32


@dataclass(frozen=True)
class Postings:
    """An inverted index, memory-mapped.

    docids       fixed-width UTF-8, ascending; a document's number is its place here, so equal scores are ordered by number
    saturation   float32, ascending: every value that term frequency / length norm takes; a level is a place in this list
    vocabulary   the terms, UTF-8, ascending, one after the other; ends: where each ends
    spans        (term, 3): the first and last + 1 of its postings, its highest level
    documents    int32, per posting the number of the document, ascending within a term
    levels       uint16 or uint32, per posting the level
    count        how many documents have any term
    """

    docids: np.ndarray
    saturation: np.ndarray
    vocabulary: np.ndarray
    ends: np.ndarray
    spans: np.ndarray
    documents: np.ndarray
    levels: np.ndarray
    count: int

    @classmethod
    def load(cls, folder: Path) -> Postings:
        """Map the index in `folder`; BadInput where there is none, or one of another format version."""
        names = ("docids", "saturation", "vocabulary", "ends", "spans", "documents", "levels")
        head, arrays = mapped(folder, KIND, FORMAT, names)
        return cls(**arrays, count=head["count"])

    def find(self, term: str) -> Found | None:
        """The postings of a term, None where no document has it."""
        wanted = term.encode()
        place = bisect_left(range(len(self.ends)), wanted, key=self._term)
        if place == len(self.ends) or self._term(place) != wanted:
            return None
        first, last, highest = self.spans[place].tolist()
        weight = np.float32(math.log(1 + (self.count - (last - first) + 0.5) / (last - first + 0.5)))
        return Found(self.documents[first:last], self.levels[first:last], highest, weight)

    def _term(self, place: int) -> bytes:
        return self.vocabulary[self.ends[place - 1] if place else 0 : self.ends[place]].tobytes()


def write_postings(documents: Iterable[tuple[str, str]], folder: Path, progress: Callable[[int], None] | None) -> None:
    """Index (docid, text) pairs in `folder`, which changes only when the index is whole; see `Index.build`."""
    with published(Path(folder)) as new:
        docids, lengths, terms = _read(documents, new, progress)
        order = np.argsort(docids, kind="stable")
        ordered = docids[order]
        if (twice := np.flatnonzero(ordered[1:] == ordered[:-1])).size:
            raise BadInput(f"document {ordered[twice[0]].decode()!r} comes twice")
        numbers = np.empty(len(order), np.int32)
        numbers[order] = np.arange(len(order))

        count = int((lengths > 0).sum())
        norms = LENGTHS.searchsorted(lengths, side="right") - 1
        average = np.float32(max(lengths.sum(), 1) / max(count, 1))
        inverse = ONE / (K1 * ((ONE - B) + B * LENGTHS.astype(np.float32) / average))
        saturation = _saturation(new, norms, inverse)
        spans = _merge(new, len(terms), numbers, saturation, inverse[norms])
        _write_vocabulary(new, terms, spans)
        np.save(new / "docids.npy", ordered)
        np.save(new / "saturation.npy", saturation)
        for block in _blocks(new):
            block.unlink()
        write_head(new, KIND, FORMAT, {"count": count})


def _read(documents, folder: Path, progress) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """The docids, the lengths in words and the terms by number; the postings go to the folder in blocks sorted by term."""
    docids, lengths, words = [], array("i"), array("i")
    terms: defaultdict[str, int] = defaultdict()
    terms.default_factory = terms.__len__
    first = 0

    def flush() -> None:
        owners = np.repeat(np.arange(first, len(lengths)), np.array(lengths[first:], np.int64))
        postings, times = np.unique(np.array(words, np.int64) << 32 | owners, return_counts=True)
        block = np.stack((postings >> 32, postings & 0xFFFFFFFF, times)).astype(np.int32)
        np.save(folder / f"block-{len(lengths):012}.npy", block)
        if progress:
            progress(len(lengths))

    for docid, text in documents:
        found = list(map(terms.__getitem__, analyse(text)))
        docids.append(docid.encode())
        lengths.append(len(found))
        words.extend(found)
        if len(words) >= BATCH:
            flush()
            first, words = len(lengths), array("i")
    flush()
    return np.array(docids, "S"), np.array(lengths, np.int64), terms


def _blocks(folder: Path) -> list[Path]:
    return sorted(folder.glob("block-*.npy"))


def _saturation(folder: Path, norms: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Every value of term frequency / length norm, ascending."""
    pairs = [np.empty(0, np.int64)]
    for block in _blocks(folder):
        _, owners, times = np.load(block)
        pairs.append(np.unique(times * np.int64(256) + norms[owners]))
    times, norm = np.divmod(np.unique(np.concatenate(pairs)), 256)
    return np.unique(times.astype(np.float32) * inverse[norm])


def _merge(folder: Path, terms: int, numbers: np.ndarray, saturation: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Write the postings of all blocks by term and document number; the spans, by term in order of first occurrence."""
    blocks = [np.load(block, mmap_mode="r") for block in _blocks(folder)]
    counts = sum((np.bincount(block[0], minlength=terms) for block in blocks), np.zeros(terms, np.int64))
    starts = np.append(0, np.cumsum(counts))
    total = int(starts[-1])
    highest = np.zeros(terms, np.int64)
    size = np.uint16 if len(saturation) <= 1 << 16 else np.uint32
    documents = np.lib.format.open_memmap(folder / "documents.npy", "w+", np.int32, (total,))
    levels = np.lib.format.open_memmap(folder / "levels.npy", "w+", size, (total,))
    first = 0
    while first < terms:
        last = max(first + 1, int(starts.searchsorted(starts[first] + BATCH, side="right")) - 1)
        ranges = [slice(*block[0].searchsorted((first, last))) for block in blocks]
        term, owner, times = np.concatenate([block[:, rows] for block, rows in zip(blocks, ranges, strict=True)], axis=1)
        order = np.argsort((term.astype(np.int64) << 32) | numbers[owner])
        level = saturation.searchsorted(times.astype(np.float32) * inverse[owner])[order]
        documents[starts[first] : starts[last]] = numbers[owner][order]
        levels[starts[first] : starts[last]] = level
        highest[first:last] = np.maximum.reduceat(level, starts[first:last] - starts[first])
        first = last
    return np.stack((starts[:-1], starts[1:], highest), axis=1)


def _write_vocabulary(folder: Path, terms: dict[str, int], spans: np.ndarray) -> None:
    ascending = sorted(terms)
    encoded = [term.encode() for term in ascending]
    np.save(folder / "vocabulary.npy", np.frombuffer(b"".join(encoded), np.uint8))
    np.save(folder / "ends.npy", np.cumsum([len(term) for term in encoded], dtype=np.int64))
    np.save(folder / "spans.npy", spans[[terms[term] for term in ascending]] if terms else spans)
