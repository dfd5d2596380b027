"""Search against Lucene's own results and against a naive reference; the files it is built from and the ones it leaves."""

import gzip
import json
import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpo.errors import BadInput

pytest.importorskip("nltk", reason="the webshop extra is not installed")
pytest.importorskip("regex", reason="the webshop extra is not installed")
pytest.importorskip("ijson", reason="the webshop extra is not installed")

from bpo.sandboxes.webshop import files, postings, search
from bpo.sandboxes.webshop.postings import LENGTHS
from bpo.sandboxes.webshop.records import Product
from bpo.sandboxes.webshop.search import Index
from bpo.sandboxes.webshop.store import CatalogueStore
from bpo.sandboxes.webshop.words import STOP_WORDS, analyse
from tests.places import SHARED

DATA = SHARED / "data" / "webshop"
real = pytest.mark.skipif(not DATA.exists(), reason=f"the reference data are not here ({DATA})")

WORDS = ["shirt", "shirts", "red", "blue", "large", "long", "sleeve", "cotton", "women's", "12", "3.5", "the", "★"]


def read(name):
    with gzip.open(DATA / name) as file:
        return json.load(file)


@pytest.fixture(scope="module")
def products():
    return list(files.read_products(DATA))


@pytest.fixture(scope="module")
def index(products, tmp_path_factory):
    documents = ((product.asin, product.document) for product in products)
    return Index.build(documents, tmp_path_factory.mktemp("search") / "index")


def reference(documents, query, k=50):
    """BM25 as a textbook has it, one document at a time, in the precision of Lucene's numbers."""
    one = np.float32(1)
    terms = {docid: Counter(analyse(text)) for docid, text in documents}
    lengths = {docid: sum(counts.values()) for docid, counts in terms.items()}
    count = sum(length > 0 for length in lengths.values())
    average = np.float32(sum(lengths.values()) / max(count, 1))
    k1, b = np.float32(0.9), np.float32(0.4)
    scores = {}
    for docid, counts in terms.items():
        total = 0.0
        for term, times in Counter(analyse(query)).items():
            if not counts[term]:
                continue
            having = sum(term in other for other in terms.values())
            weight = np.float32(times) * np.float32(math.log(1 + (count - having + 0.5) / (having + 0.5)))
            length = np.float32(max(known for known in LENGTHS.tolist() if known <= lengths[docid]))
            norm = one / (k1 * ((one - b) + b * length / average))
            total += float(weight - weight / (one + np.float32(counts[term]) * norm))
        if total:
            scores[docid] = float(np.float32(total))
    return tuple(sorted(scores, key=lambda docid: (-scores[docid], docid))[:k])


# What Lucene found


@real
def test_the_search_cases_are_equal(index):
    cases = read("search_cases_30.json.gz")
    assert len(cases) == 30
    assert [index.top(case["query"]) for case in cases] == [tuple(case["top50"]) for case in cases]


@real
def test_the_pages_of_the_traces_show_what_search_finds(index, products):
    asins, pages = {product.asin for product in products}, 0
    for episode in read("golden_traces_100.json.gz"):
        query = ""
        for step in episode["steps"]:
            action = re.match(r"(.+)\[(.+)\]", step["action"])
            if action and action[1] == "search":
                query = action[2].lower()
            shown = re.search(r"\[SEP\] Page (\d+) \(Total results: (\d+)\)", step["obs"])
            if shown and not query.startswith("<"):
                number, found = int(shown[1]), index.top(query)
                on_page = [part for part in step["obs"].split(" [SEP] ") if part in asins]
                assert list(found[10 * number - 10 : 10 * number]) == on_page, query
                assert len(found) == int(shown[2])
                pages += 1
    assert pages >= 250


@real
def test_pruning_changes_nothing_on_the_real_products(index, monkeypatch):
    queries = [case["query"] for case in read("search_cases_30.json.gz")]
    expected = [index._search(query, k) for query in queries for k in (1, 10, 50, 700)]
    monkeypatch.setattr(search, "FEW", 0)
    assert [index._search(query, k) for query in queries for k in (1, 10, 50, 700)] == expected


# The analyser


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Women's T-Shirts, 3.5 oz", ["women", "t", "shirt", "3.5", "oz"]),
        ("1,000.50 3;4 3:4 3.x", ["1,000.50", "3;4", "3", "4", "3", "x"]),
        ("a.b b:c rock'n'roll 'quoted'", ["a.b", "b:c", "rock'n'rol", "quot"]),
        ("foo_bar _x_ ___ -", ["foo_bar", "_x_"]),
        ("kids’ boy’s BOYS'S", ["kid", "boi", "boi"]),
        ("technology 7s dying", ["technolog", "7s", "dy"]),
        ("漢字かなカタカナ 한국어", ["漢", "字", "か", "な", "カタカナ", "한국어"]),
        ("ไทยภาษา", ["ไทยภาษา"]),
        ("5★ ♬☛ 👍🏽 👨‍👩‍👧 🇺🇸🇺 #️⃣ 1️⃣", ["5", "★", "♬", "☛", "👍🏽", "👨‍👩‍👧", "🇺🇸", "#️⃣", "1️⃣"]),
        ("naïve CAFÉ's İX ΣΑΣ", ["naïv", "café", "ix", "σασ"]),
        ("אב\"ג ה'", ['אב"ג', "ה'"]),
        ("x" * 600, ["x" * 255, "x" * 255, "x" * 90]),
        ("é" * 300, ["é" * 255, "é" * 45]),
        (" ".join(sorted(STOP_WORDS)).upper(), []),
        ("", []),
    ],
)
def test_words(text, terms):
    assert analyse(text) == terms


@given(st.text("ab19_.:,;' -\"#xsS", max_size=30))
def test_the_pattern_for_ascii_finds_what_the_one_for_any_script_finds(text):
    from bpo.sandboxes.webshop.words import ASCII_WORD, _any_word

    assert ASCII_WORD.findall(text.lower()) == _any_word().findall(text.lower())


def test_lengths_are_stored_as_lucene_stores_them():
    assert LENGTHS[:44].tolist() == [*range(40), 40, 42, 44, 46]
    assert (len(LENGTHS), LENGTHS[-1], (np.diff(LENGTHS) > 0).all()) == (256, 24 + (15 << 27), True)


# Pruning against the reference


@st.composite
def shops(draw):
    """Documents, many of them alike so that scores tie, in any order, and a query that may repeat words."""
    texts = draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=8))
    chosen = draw(st.lists(st.sampled_from(texts), min_size=1, max_size=40))
    names = draw(st.permutations(range(len(chosen))))
    query = " ".join(draw(st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=12)))
    return [(f"B{name:03}", text) for name, text in zip(names, chosen, strict=True)], query, draw(st.integers(1, 45))


@settings(max_examples=120, deadline=None)
@given(shops())
def test_search_equals_the_reference_with_and_without_pruning(tmp_path_factory, shop):
    documents, query, k = shop
    expected = reference(documents, query, k)
    index = Index.build(documents, tmp_path_factory.mktemp("shop") / "index")
    with pytest.MonkeyPatch.context() as patch:
        for few in (0, 1 << 30):
            patch.setattr(search, "FEW", few)
            assert index._search(query, k) == expected


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """4,000 documents with words of Zipf frequency, copies among them; sorted in several batches."""
    rng = np.random.default_rng(5)
    words = np.array([f"w{number}" for number in range(800)])
    texts = [" ".join(words[np.minimum(rng.zipf(1.3, rng.integers(1, 60)), 800) - 1]) for _ in range(2_000)]
    documents = [(f"{number:05}", texts[rng.integers(len(texts))]) for number in rng.permutation(4_000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "BATCH", 9_000)
        return Index.build(documents, tmp_path_factory.mktemp("crowd") / "index")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 799) | st.integers(0, 20), max_size=25), st.integers(1, 60))
def test_pruning_never_changes_the_best(crowd, numbers, k):
    query = " ".join(f"w{number}" for number in numbers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "FEW", 1 << 30)
        expected = crowd._search(query, k)
        patch.setattr(search, "FEW", 0)
        assert crowd._search(query, k) == expected


def test_pruning_leaves_out_most_documents(crowd):
    """Three rare words beside frequent ones: the frequent ones alone cannot reach the best."""
    parts = crowd._parts([f"w{number}" for number in (0, 1, 2, 3, 500, 510, 520)])
    matching = len(search.score_all(parts, len(crowd))[0])
    assert 10 <= len(search.candidates(parts, 10, len(crowd))) < matching / 20


def test_batches_make_no_difference(crowd, tmp_path, monkeypatch):
    documents = [(f"{number:02}", f"w{number % 7} w{number % 3} common") for number in range(50)]
    whole = Index.build(documents, tmp_path / "whole")
    monkeypatch.setattr(postings, "BATCH", 8)
    parts = Index.build(iter(documents), tmp_path / "parts")
    for name in ("documents", "levels", "spans", "vocabulary", "docids", "saturation"):
        assert np.array_equal(np.load(tmp_path / "whole" / f"{name}.npy"), np.load(tmp_path / "parts" / f"{name}.npy")), name
    assert whole.top("common w1") == parts.top("common w1")


# Queries nobody expects


HOSTILE = ["", " ", "the of and", "qqqq zzzz", "[]{}()*?:\\", "\x00\x01", "\ud800", "𐍈" * 50, "a" * 100_000, "_" * 100_000]
HOSTILE += ["_\u0301" * 5_000, "a." * 50_000, "漢" * 20_000, " ".join(f"shirt{n} red" for n in range(9_000)), "\u200d" * 3_000]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries_find_nothing_or_something(crowd, query):
    assert crowd.top(query) == ()
    assert len(crowd.top(query + " w1")) == 50


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_searched_for(crowd, query):
    assert len(crowd.top(query)) <= 50


# Folders


def test_an_interrupted_build_leaves_what_was_there(tmp_path):
    def interrupted(pairs):
        yield from pairs
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Index.build(interrupted([("a", "red")]), tmp_path / "index")
    with pytest.raises(KeyboardInterrupt):
        CatalogueStore.build(interrupted([product("B1")]), tmp_path / "store")
    assert not list(tmp_path.iterdir())
    Index.build([("a", "red"), ("b", "blue")], tmp_path / "index")
    with pytest.raises(KeyboardInterrupt):
        Index.build(interrupted([("a", "blue")]), tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    assert Index.load(tmp_path / "index").top("blue") == ("b",)


def test_a_new_build_takes_the_place_of_the_old_and_reports_progress(tmp_path):
    seen = []
    Index.build([("a", "red")], tmp_path / "index")
    index = Index.build([("a", "blue"), ("b", "red"), ("c", "")], tmp_path / "index", seen.append)
    assert (index.top("red"), len(index), seen) == (("b",), 3, [3])
    assert sorted(path.suffix for path in (tmp_path / "index").iterdir()) == [".json"] + [".npy"] * 7


def test_an_index_of_nothing_finds_nothing(tmp_path):
    assert Index.build([], tmp_path / "none").top("red") == ()
    assert Index.build([("a", ""), ("b", "the")], tmp_path / "empty").top("the red") == ()


def test_folders_that_hold_something_else_are_refused(tmp_path):
    for opened in (Index.load, CatalogueStore.load):
        with pytest.raises(BadInput, match="holds no"):
            opened(tmp_path)
    Index.build([("a", "red")], tmp_path / "index")
    with pytest.raises(BadInput, match="holds a search index"):
        CatalogueStore.load(tmp_path / "index")
    head = tmp_path / "index" / "head.json"
    whole = head.read_text()
    head.write_text(whole.replace('"format": 1', '"format": 0'))
    with pytest.raises(BadInput, match=r"format 0.*build it again"):
        Index.load(tmp_path / "index")
    head.write_text("[1]")
    with pytest.raises(BadInput, match="holds no search index"):
        Index.load(tmp_path / "index")
    head.write_text(whole)
    array = tmp_path / "index" / "documents.npy"
    array.write_bytes(array.read_bytes()[:-1])
    with pytest.raises(BadInput, match="damaged"):
        Index.load(tmp_path / "index")


def test_a_document_that_comes_twice_is_refused(tmp_path):
    with pytest.raises(BadInput, match="'a' comes twice"):
        Index.build([("a", "red"), ("b", "red"), ("a", "blue")], tmp_path / "index")
    with pytest.raises(BadInput, match="'B1' comes twice"):
        CatalogueStore.build([product("B1"), product("B1")], tmp_path / "store")


# Products on disk


def product(asin, title="A ★ title \ud83d"):
    options = (("color", ("red", "blue")), ("size", ()))
    return Product(asin, title, "text\n", ("one", "two"), (1.5, 2.25), options, ("soft",), "a › b", "q", "find", ("x", "y"))


def test_products_come_back_as_they_were(tmp_path):
    written = [product(asin) for asin in ("B2", "B1", "0123456789", "b1")]
    store = CatalogueStore.build(iter(written), tmp_path / "store")
    assert list(store) == list(CatalogueStore.load(tmp_path / "store")) == written
    assert [store.product(entry.asin) for entry in written] == written
    assert (len(store), "B1" in store, len(CatalogueStore.build([], tmp_path / "none"))) == (4, True, 0)
    for absent in ("B3", "", "B1\0", "é", "01234567890", "zzzz", "0"):
        assert absent not in store
        with pytest.raises(KeyError):
            store.product(absent)


@pytest.mark.parametrize("asin", ["", "01234567890", "É1", "B1\0"])
def test_asins_that_are_none_are_refused(tmp_path, asin):
    with pytest.raises(BadInput, match="1 to 10 ASCII characters"):
        CatalogueStore.build([product(asin)], tmp_path / "store")


@real
def test_the_real_products_come_back_as_they_were(products, tmp_path):
    store = CatalogueStore.build(products, tmp_path / "store")
    assert len(store) == 1_000
    assert list(store) == products


# The files users have


def entry(asin, **changes):
    raw = {"asin": asin, "name": f"Title {asin}", "full_description": "d", "small_description": ["b"], "pricing": "$2.50"}
    raw |= {
        "product_category": "a › b",
        "query": "Q ",
        "customization_options": {"Color": [{"value": "Red/Blue"}], "Fit": None},
    }
    return raw | changes


ENTRIES = [entry("B1"), entry("nan"), entry("B2"), entry("B1", name="again"), entry("01234567890")]
ATTRIBUTES = {"B2": {"attributes": ["soft"], "instruction": "find it", "instruction_attributes": ["soft"]}}


@pytest.mark.parametrize(("size", "suffix"), [("small", "_1000"), ("full", "")])
def test_the_original_files(tmp_path, size, suffix):
    (tmp_path / f"items_shuffle{suffix}.json").write_text(json.dumps(ENTRIES))
    (tmp_path / f"items_ins_v2{suffix}.json").write_text(json.dumps(ATTRIBUTES))
    first, second = files.read_products(tmp_path, size)
    assert (first.asin, first.title, first.prices, first.attributes) == ("B1", "Title B1", (2.5,), ("DUMMY_ATTR",))
    assert (second.asin, second.attributes, second.instruction) == ("B2", ("soft",), "find it")
    assert second.options == (("color", ("red | blue",)),)
    assert list(files.describe(tmp_path)) == [size]
    before = files.identity(tmp_path, size)
    assert files.noun_lists(tmp_path) is None
    with pytest.raises(BadInput, match="no goals written by people"):
        files.human_goals(tmp_path)
    goals = {"B1": [{"instruction": "x", "instruction_attributes": ["soft"], "instruction_options": []}]}
    (tmp_path / "items_human_ins.json").write_text(json.dumps(goals))
    assert files.human_goals(tmp_path) == goals
    assert len(files.identity(tmp_path, size)) == len(before) + 1


@real
def test_the_compact_files(products):
    assert (len(products), len({product.asin for product in products})) == (1_000, 1_000)
    assert sum(product.instruction != "" for product in products) == 415
    assert len(files.human_goals(DATA)) == 13
    assert files.noun_lists(DATA)["B06Y3VLDFB"][:2] == ["vhomes", "lights"]
    with pytest.raises(BadInput, match=r"no full WebShop catalogue \(it has the small one\)"):
        files.read_products(DATA, "full")


def test_a_folder_without_products_is_refused_before_the_first_one(tmp_path):
    for size in files.SIZES:
        with pytest.raises(BadInput, match=r"looked for items_shuffle.*setup\.sh of https://github.com/princeton-nlp/WebShop"):
            files.read_products(tmp_path / "absent", size)
    with pytest.raises(BadInput, match="unknown size 'big'"):
        files.read_products(tmp_path, "big")


@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize("damage", ["", "[{", '[{"asin": "B1"}]', "[3]", '[{"asin": 7}]', b"\xff\xfe[", "[" * 5_000])
def test_damaged_product_files_are_named(tmp_path, size, damage):
    suffix = "_1000" if size == "small" else ""
    path = tmp_path / f"items_shuffle{suffix}.json"
    path.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    (tmp_path / f"items_ins_v2{suffix}.json").write_text("{}")
    with pytest.raises(BadInput, match=re.escape(str(path))):
        list(files.read_products(tmp_path, size))


@pytest.mark.parametrize("damage", [b"", b"nonsense", gzip.compress(b"[]" * 500)[:-9], gzip.compress(b"{")])
def test_damaged_gzip_files_are_named(tmp_path, damage):
    (tmp_path / "products_1000.compact.json.gz").write_bytes(gzip.compress(b"[]"))
    path = tmp_path / "attributes_1000.json.gz"
    path.write_bytes(damage)
    with pytest.raises(BadInput, match=re.escape(str(path))):
        list(files.read_products(tmp_path))
