"""Text to token ids and back without loss: what a text spells never becomes a special token, what is no text is seen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

# Half of a pair of code points, which no text holds: stands in for what is no text. Bytes that are not UTF-8 take others.
NO_TEXT = "\ud800"
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNKNOWN = "\ufffd"
# Texts whose ids are kept.
REMEMBERED = 4_096


def shown(text: str) -> str:
    """`text` as it can be shown to a reader: code points that stand for undecodable bytes are replaced."""
    return _SURROGATE.sub(_UNKNOWN, text)


def whole(text: str) -> bool:
    """Whether all of `text` is text, as `TextCodec.decode` tells."""
    return _SURROGATE.search(text) is None


class TextCodec:
    """Token ids of texts and texts of token ids, by a tokenizer of `transformers`.

    Special tokens (end of text, turns of a chat) are written by the caller, by their ids or around a text in `prompt`, never by
    a text that spells them. A tokenizer that changes what it reads (lower case, unknown words) does so here too.
    """

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder
        special = {token.content: i for i, token in added.items() if token.special}
        special |= dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
        self._special = frozenset(special.values())
        longest_first = sorted(filter(None, special), key=len, reverse=True)
        self._spelled = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._literal = {i: token.content for i, token in added.items()}
        self._bytes = _byte_of() if _by_bytes(tokenizer) else None
        # Sandboxes say the same things again and again.
        self.encode = lru_cache(maxsize=REMEMBERED)(self._encode)

    def _encode(self, text: str) -> tuple[int, ...]:
        """The ids of `text`; what it spells stays text."""
        return tuple(self._tokenizer.encode(shown(text), add_special_tokens=False, split_special_tokens=True))

    def prompt(self, before: str, text: str, after: str) -> tuple[int, ...]:
        """The ids of `before`, `text` and `after` as one text, whose special tokens `before` and `after` spell."""
        text = shown(text)
        everything = before + text + after
        if len(self._spelled.findall(everything)) == sum(len(self._spelled.findall(part)) for part in (before, after)):
            return self._recognised(everything)
        # Special tokens part what is around them, so the text can be encoded by itself, with what lies between it and them.
        ends = [found.end() for found in self._spelled.finditer(before)]
        starts = [found.start() for found in self._spelled.finditer(after)]
        left, right = (ends or [0])[-1], (starts or [len(after)])[0]
        middle = self.encode(before[left:] + text + after[:right])
        return self._recognised(before[:left]) + middle + self._recognised(after[right:])

    def _recognised(self, text: str) -> tuple[int, ...]:
        if not text:
            return ()
        return tuple(self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, with code points that no text holds (see `whole`) for special tokens and for broken bytes.

        Where the tokenizer is not one of bytes, every U+FFFD is taken for a broken byte.
        """
        pieces, run = [], []
        for token in [*ids, None]:
            if token is not None and token not in self._special:
                run.append(token)
                continue
            pieces.append(self._run(run))
            run = []
        return NO_TEXT.join(pieces)

    def _run(self, ids: Sequence[int]) -> str:
        if not ids:
            return ""
        if self._bytes is None:
            text = self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            return text.replace(_UNKNOWN, NO_TEXT)
        data = bytearray()
        for token in ids:
            if token in self._literal:
                data += self._literal[token].encode()
            else:
                data += bytes(self._bytes[sign] for sign in self._tokenizer.convert_ids_to_tokens(token) or "")
        return data.decode(errors="surrogateescape")


def _by_bytes(tokenizer) -> bool:
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    return type(decoder).__name__ == "ByteLevel"


def _byte_of() -> dict[str, int]:
    """The byte that each sign of a byte-level vocabulary stands for: printable ones themselves, the others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
