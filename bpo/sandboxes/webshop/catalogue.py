"""A catalogue: products, search, nouns and goals, built once into the cache and read from there."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bpo.cache import cache_dir, key_of
from bpo.errors import BadInput, choose, require
from bpo.files import locked, published, write_json
from bpo.provenance import code_of, versions
from bpo.sandboxes.webshop import files, generator, search, store
from bpo.sandboxes.webshop import goals as goal_rules
from bpo.sandboxes.webshop.records import Goal, Product
from bpo.sealed import is_whole, seal_folder

# The most products a search finds.
MOST = 50
KINDS = ("synthetic", "human")
# What reads the nouns of titles where no list of them lies beside the products.
SPACY_MODEL = "en_core_web_sm"

Nouns = Callable[[Product], Sequence[str]]


class Catalogue:
    """Products with their search, nouns and goals; read only, so any number of sessions share one.

    kind   "synthetic" or "human" goals
    goals  in the one order that tasks are numbered by
    """

    def __init__(self, folder: Path, nouns: Nouns, kind: str):
        self.kind = kind
        self._store = store.CatalogueStore.load(folder / "products")
        self._index = search.Index.load(folder / "index")
        self._nouns = lru_cache(maxsize=65_536)(lambda asin: tuple(nouns(self.product(asin))))
        self.goals = tuple(_goal(entry) for entry in json.loads((folder / "goals.json").read_text()))

    def __len__(self) -> int:
        return len(self._store)

    def __iter__(self) -> Iterator[Product]:
        return iter(self._store)

    def product(self, asin: str) -> Product:
        """The product with this identifier; KeyError where there is none."""
        return self._store.product(asin)

    def search(self, query: str) -> tuple[str, ...]:
        """Identifiers of the products found, best first, at most 50."""
        return self._index.top(query, MOST)

    def nouns(self, asin: str) -> tuple[str, ...]:
        """Nouns of a product's title, lower case, with repetitions."""
        return self._nouns(asin)


def open_catalogue(data: str | None = None, size: str = "small", goals: str | None = None) -> Catalogue:
    """The catalogue of a folder with WebShop's files, or the embedded one; built into the cache where it is not there yet.

    size   "small" or "full": which of the two file sets of the folder
    goals  "synthetic" or "human"; default: synthetic, but human in the full catalogue, whose synthetic goals are too many

    Sandboxes of a process share a catalogue as long as its files do not change.

    Errors: BadInput for a folder without the files, and where the goals or the nouns of titles cannot be had.
    """
    choose("size", size, files.SIZES)
    kind = choose("goals", goals or ("human" if size == "full" else "synthetic"), KINDS)
    if data is None:
        if (size, kind) != ("small", "synthetic"):
            raise BadInput("the embedded catalogue is small and has synthetic goals; other sizes and goals need data=FOLDER")
        return _opened(None, size, kind, "", str(cache_dir("webshop")))
    if (size, kind) == ("full", "synthetic"):
        raise BadInput("the full catalogue has goals written by people only: goals must be 'human'")
    return _opened(os.path.abspath(data), size, kind, key_of(files.identity(data, size)), str(cache_dir("webshop")))


def _versions() -> dict[str, str]:
    """Of the packages that read and stem texts, and shuffle goals."""
    return {name: number for name, number in versions().items() if name in ("python", "numpy", "nltk", "regex")}


@cache
def _opened(data: str | None, size: str, kind: str, identity: str, place: str) -> Catalogue:
    nouns = generator.title_nouns if data is None else title_nouns(data)
    made_by = [code_of(build, generator.generate, files.read_products, files.human_goals), _versions()]
    folder = Path(place) / key_of(data, size, kind, identity, made_by)
    with locked(folder.with_suffix(".lock")):
        if not is_whole(folder):
            products = generator.generate() if data is None else files.read_products(data, size)
            quiet = size == "small" or not Console(stderr=True).is_terminal
            products = track(products, "building the catalogue", console=Console(stderr=True), transient=True, disable=quiet)
            build(products, files.human_goals(data) if kind == "human" else None, folder)
    return Catalogue(folder, nouns, kind)


def build(products: Iterable[Product], written: Mapping[str, Sequence[Mapping[str, Any]]] | None, folder: Path) -> None:
    """Write the catalogue of these products to `folder`, whole or not at all.

    written  goals that people wrote, by product; None: synthetic goals
    """
    rng, wanted = random.Random(goal_rules.PRICE_SEED), []

    def noted() -> Iterator[Product]:
        for product in goal_rules.priced(products, rng):
            if product.instruction if written is None else product.asin in written:
                wanted.append(product)
            yield product

    with published(folder) as temporary:
        store.CatalogueStore.build(noted(), temporary / "products")
        documents = ((product.asin, product.document) for product in store.CatalogueStore.load(temporary / "products"))
        search.Index.build(documents, temporary / "index")
        # All prices are drawn before the first limit.
        made = goal_rules.synthetic_goals(wanted, rng) if written is None else goal_rules.human_goals(wanted, written, rng)
        write_json(temporary / "goals.json", [astuple(goal) for goal in goal_rules.ordered(made)])
        seal_folder(temporary)


def title_nouns(data: str) -> Nouns:
    """The nouns of titles: from the list beside the products, or as the original finds them, by spaCy's small model.

    BadInput where the model is needed and not installed: at once where there is no list, else at the first title outside it.
    """
    listed = files.noun_lists(data)
    if listed is None:
        _tagger(data)
        listed = {}
    return lambda product: listed[product.asin] if product.asin in listed else _tagged(product.title, data)


def _tagged(title: str, data: str) -> list[str]:
    return [word.text.lower() for word in _tagger(data)(title) if word.pos_ in ("NOUN", "PROPN")]


@cache
def _tagger(data: str) -> Any:
    require("spacy", "webshop")
    import spacy

    try:
        return spacy.load(SPACY_MODEL)
    except OSError:
        raise BadInput(
            f"{data} holds no list of the nouns of all titles ({' or '.join(files.NOUNS)}), so the reward needs spaCy's model: "
            f"python -m spacy download {SPACY_MODEL}"
        ) from None


def _goal(entry: Sequence[Any]) -> Goal:
    asin, text, attributes, options, upper, weight = entry
    chosen = tuple(option if isinstance(option, str) else tuple(option) for option in options)
    return Goal(asin, text, tuple(attributes), chosen, upper, weight)
