"""WebShop's data files as users have them: the original download, or the compact layout of the thousand products."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bpo.cache import files_of
from bpo.errors import BadInput, choose, require
from bpo.reading import read_json, typed
from bpo.sandboxes.webshop.records import HumanGoal, Product, asin_of, product_of

SIZES = ("small", "full")
# (product file, attribute file) of each size; the first pair that is there is read.
PAIRS = {
    "small": (
        ("items_shuffle_1000.json", "items_ins_v2_1000.json"),
        ("products_1000.compact.json.gz", "attributes_1000.json.gz"),
    ),
    "full": (("items_shuffle.json", "items_ins_v2.json"),),
}
HUMAN_GOALS = ("items_human_ins.json", "human_goals_small_13.json.gz")
NOUNS = ("title_nouns_spacy3.8.json.gz",)
# The original leaves out entries whose asin is this word or longer than an asin can be.
NO_ASIN, WIDTH = "nan", 10
ORIGIN = "setup.sh of https://github.com/princeton-nlp/WebShop downloads them"


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one size of catalogue."""

    products: Path
    attributes: Path


def describe(folder: str | Path) -> dict[str, Source]:
    """The catalogues that a folder holds, by size ("small": 1,000 products, "full": 1.18 million); {} where there is none."""
    found = {}
    for size in SIZES:
        for names in PAIRS[size]:
            source = Source(*(Path(folder) / name for name in names))
            if source.products.is_file() and source.attributes.is_file():
                found[size] = source
                break
    return found


def identity(folder: str | Path, size: str = "small") -> list[list[Any]]:
    """[name, bytes, times of change] of the files of a catalogue, its goals and nouns: equal where nothing has changed.

    BadInput as `read_products`.
    """
    source = _source(folder, size)
    paths = [source.products, source.attributes, *_present(folder, HUMAN_GOALS), *_present(folder, NOUNS)]
    return [facts for path in paths for facts in files_of(path)]


def read_products(folder: str | Path, size: str = "small") -> Iterator[Product]:
    """The products of a catalogue in file order; the full one is read entry by entry.

    Entries without a proper asin and repeated ones are left out, as in the original. BadInput where the folder holds no
    catalogue of this size (before the first product), and where a file is damaged, which the full one shows only on the way.
    """
    source = _source(folder, size)
    if size == "full":
        require("ijson", "webshop")
    return _products(source, stream=size == "full")


def human_goals(folder: str | Path) -> dict[str, list[dict[str, Any]]]:
    """The goals that people wrote, as they stand in the file, by asin; BadInput where the folder has none."""
    present = _present(folder, HUMAN_GOALS)
    if not present:
        raise BadInput(f"{folder} holds no goals written by people ({' or '.join(HUMAN_GOALS)}): {ORIGIN}")
    goals = _mapping(present[0])
    typed(dict[str, list[HumanGoal]], goals, str(present[0]))
    return goals


def noun_lists(folder: str | Path) -> dict[str, list[str]] | None:
    """The nouns of every title, lower case, by asin; None where the folder has no such list."""
    present = _present(folder, NOUNS)
    return typed(dict[str, list[str]], _mapping(present[0]), str(present[0])) if present else None


def _source(folder: str | Path, size: str) -> Source:
    choose("size", size, SIZES)
    found = describe(folder)
    if size not in found:
        wanted = " or ".join(" + ".join(names) for names in PAIRS[size])
        present = [name for names in PAIRS[size] for name in names if (Path(folder) / name).is_file()]
        held = f" (it has: {', '.join(present)})" if present else f" (it has the {next(iter(found))} one)" if found else ""
        raise BadInput(f"{folder} holds no {size} WebShop catalogue{held}; looked for {wanted}: {ORIGIN}")
    return found[size]


def _present(folder: str | Path, names: Sequence[str]) -> list[Path]:
    return [path for name in names if (path := Path(folder) / name).is_file()]


def _products(source: Source, stream: bool) -> Iterator[Product]:
    attributes = dict(_streamed(source.attributes, pairs=True)) if stream else _mapping(source.attributes)
    entries = _streamed(source.products, pairs=False) if stream else _entries(source.products)
    seen = set()
    for number, entry in enumerate(entries):
        where = f"{source.products}: entry {number}"
        asin = asin_of(entry, where)
        if asin == NO_ASIN or len(asin) > WIDTH or asin in seen:
            continue
        product = product_of(entry, attributes.get(asin, {}), where, f"{source.attributes}: {asin}")
        if not stream and product.instruction and not product.instruction_attributes:
            raise BadInput(
                f"{source.attributes}: {asin}: instruction_attributes is empty; a product with an instruction needs one"
            )
        seen.add(asin)
        yield product


def _entries(path: Path) -> list[Any]:
    content = _parsed(path)
    if not isinstance(content, list):
        raise BadInput(f"{path} is no list of products")
    return content


def _mapping(path: Path) -> dict[str, Any]:
    content = _parsed(path)
    if not isinstance(content, Mapping):
        raise BadInput(f"{path} is no JSON object by asin")
    return content


def _parsed(path: Path) -> Any:
    try:
        return read_json(path, "a file of WebShop's data")
    except BadInput as error:
        raise BadInput(f"{error}: {ORIGIN}") from None


def _streamed(path: Path, pairs: bool) -> Iterator[Any]:
    """The (key, value) pairs of the object in a file, or the items of the list in it, one by one."""
    import ijson

    try:
        with _opened(path) as file:
            read = ijson.kvitems(file, "", use_float=True) if pairs else ijson.items(file, "item", use_float=True)
            yield from read
    except (OSError, EOFError, zlib.error, ijson.JSONError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} is damaged or no JSON ({error}): {ORIGIN}") from None


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else open(path, "rb")
