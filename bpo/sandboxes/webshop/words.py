"""Words as search counts them: the analyser that Lucene applies to English text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from bpo.errors import require

STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ]
)
# Lucene's tokenizer looks at no more characters than this when it searches for the end of a word; the rest is a new word.
LONGEST = 255
# The pictographs of Unicode 11. Later lists are shorter, and stars and notes stand in many product titles.
PICTOGRAPHS = (
    "A9 AE 203C 2049 2122 2139 2194-2199 21A9-21AA 231A-231B 2328 2388 23CF 23E9-23F3 23F8-23FA 24C2 25AA-25AB 25B6 25C0 "
    "25FB-25FE 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271D 2721 2728 2733-2734 2744 2747 274C 274E "
    "2753-2755 2757 2763-2767 2795-2797 27A1 27B0 27BF 2934-2935 2B05-2B07 2B1B-2B1C 2B50 2B55 3030 303D 3297 3299 "
    "1F000-1F0FF 1F10D-1F10F 1F12F 1F16C-1F171 1F17E-1F17F 1F18E 1F191-1F19A 1F1AD-1F1E5 1F201-1F20F 1F21A 1F22F "
    "1F232-1F23A 1F23C-1F23F 1F249-1F3FA 1F400-1F53D 1F546-1F64F 1F680-1F6FF 1F774-1F77F 1F7D5-1F7FF 1F80C-1F80F "
    "1F848-1F84F 1F85A-1F85F 1F888-1F88F 1F8AE-1F8FF 1F90C-1F93A 1F93C-1F945 1F947-1FFFD"
)
# A word in lower-case ASCII: colons join letters, commas and semicolons digits, full stops and apostrophes either.
ASCII_WORD = re.compile(
    r"(?<!_)_*+[a-z0-9](?:[a-z0-9_]|(?<=[a-z])[:.'](?=[a-z])|(?<=[0-9])[.,;'](?=[0-9]))*+",
)


def analyse(text: str) -> list[str]:
    """The terms of a text in order, repeated as often as they occur: words, lower case, without stop words, stemmed.

    Equal to Lucene's English analyser as pyserini sets it up: UAX #29 words, possessive ending, Porter stemmer.
    BadInput where the packages of the extra `webshop` are missing.
    """
    if text.isascii():
        words = ASCII_WORD.findall(text.lower())
        if max(map(len, words), default=0) > LONGEST:
            words = list(_windowed(ASCII_WORD, text.lower()))
    else:
        words = [word for chunk in text.split(" ") for word in _chunk_words(chunk)]
    return [term for term in map(_term, words) if term]


def _chunk_words(chunk: str) -> Iterator[str] | list[str]:
    """The words of a text without spaces."""
    pattern, chunk = (ASCII_WORD, chunk.lower()) if chunk.isascii() else (_any_word(), chunk)
    return pattern.findall(chunk) if len(chunk) <= LONGEST else _windowed(pattern, chunk)


def _windowed(pattern: re.Pattern, text: str) -> Iterator[str]:
    """The words of a text, none longer than the window that Lucene reads them through."""
    place = 0
    while place < len(text):
        # A slice, because a look-behind must not see the end of the word before.
        found = pattern.match(text[place : place + LONGEST])
        if found:
            yield found[0]
        place += found.end() if found else 1


@lru_cache(maxsize=1 << 18)
def _term(word: str) -> str:
    """What is searched for in place of a word; "" for a stop word."""
    if word.endswith(("'s", "’s", "＇s", "'S", "’S", "＇S")):
        word = word[:-2]
    if not word.isascii():
        # Letter by letter as in Java: no final sigma, and a dotted capital I becomes a plain i.
        word = "".join(letter.lower()[0] for letter in word)
    return "" if word in STOP_WORDS else _stemmer().stem(word, to_lowercase=False)


@cache
def _stemmer():
    require("nltk", "webshop")
    from nltk.stem.porter import PorterStemmer

    # The extensions are what Lucene's port of Porter's program has; snowball's differs on words such as "technology".
    return PorterStemmer(mode=PorterStemmer.MARTIN_EXTENSIONS)


@cache
def _any_word():
    """The pattern of a word in any script, by the word-break classes of UAX #29."""
    require("regex", "webshop")
    import regex

    def kind(*names: str) -> str:
        return "[" + "".join(rf"\p{{WB={name}}}" for name in names) + "]"

    # Marks belong to the character before them (rule WB4).
    marks = kind("Extend", "Format", "ZWJ") + "*+"
    hebrew, single, double = kind("Hebrew_Letter") + marks, kind("Single_Quote") + marks, kind("Double_Quote") + marks
    # A Hebrew letter before quotes is left to the quoted form, which is longer.
    letter = f"(?:{kind('ALetter')}{marks}|{hebrew}(?!{single}|{double}{hebrew}))"
    digit, katakana, low = kind("Numeric") + marks, kind("Katakana") + marks, kind("ExtendNumLet") + marks
    in_word = kind("MidLetter", "MidNumLet", "Single_Quote") + marks
    in_number = kind("MidNum", "MidNumLet", "Single_Quote") + marks
    run = (
        rf"(?:{katakana}(?:(?:{low})*{katakana})*"
        rf"|(?:{hebrew}(?:{double}{hebrew}|{single})"
        rf"|{digit}(?:(?:(?:{low})*|{in_number}){digit})*"
        rf"|{letter}(?:(?:(?:{low})*|{in_word}){letter})*)+)"
    )
    word = rf"(?:{low})*{run}(?:(?:{low})+{run})*(?:{low})*"

    ranges = ("-".join(rf"\U{end:>08}" for end in part.split("-")) for part in PICTOGRAPHS.split())
    picture = f"[{''.join(ranges)}]"
    joined = r"\u200D(?!\u200D*" + picture + ")"
    around = rf"(?:[[\p{{WB=Extend}}\p{{WB=Format}}]--[\uFE0E\uFE0F]]|{joined})*"
    emoji = rf"\u200D*{picture}{around}\uFE0F?(?:\u200D+{picture}{around}\uFE0F?)*"
    key = rf"[#*]{around}\uFE0F?\u20E3{around}"
    tone = rf"[\U0001F3FB-\U0001F3FF]{around}"
    flag = f"(?:{kind('Regional_Indicator')}{marks}){{2}}"

    south_east_asian = rf"(?:\p{{LB=SA}}{marks})+"
    ideograph = rf"[\p{{Script=Han}}\p{{Script=Hiragana}}]{marks}"
    return regex.compile("|".join((emoji, key, tone, flag, word, south_east_asian, ideograph)), regex.V1)
