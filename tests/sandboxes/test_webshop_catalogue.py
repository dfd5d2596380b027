"""The embedded catalogue: fixed, well formed, honest in its texts, and neither trivial nor hopeless to shop in."""

import hashlib
import re
from collections import Counter
from dataclasses import replace
from itertools import permutations

import pytest

from bpo.errors import BadInput

pytest.importorskip("thefuzz", reason="the webshop extra is not installed")
pytest.importorskip("nltk", reason="the webshop extra is not installed")
pytest.importorskip("regex", reason="the webshop extra is not installed")
pytest.importorskip("ijson", reason="the webshop extra is not installed")

from bpo.sandboxes.webshop import WebShop, rules
from bpo.sandboxes.webshop.generator import generate, title_nouns
from bpo.sandboxes.webshop.records import NO_PRICE, option_value
from bpo.sandboxes.webshop.reward import reward, similar
from bpo.sandboxes.webshop.vocabulary import DEPARTMENTS, NOT_NOUNS, POOLS

FAMILIES = {family.query: family for department in DEPARTMENTS for family in department.families}


@pytest.fixture(scope="module")
def products():
    return generate()


def attributes_of(family) -> set[str]:
    """Every attribute that a member of the family may have."""
    return {re.sub("^(a|an|the) ", "", text) for slots in family.slots.values() for slot in slots for text in slot}


def texts(product) -> tuple[str, ...]:
    """What the reward looks for attributes in."""
    return product.title.lower(), product.description.lower(), " ".join(product.bullets).lower()


# --- fixed


def test_the_default_catalogue_never_changes(products):
    """Results and checkpoints name its goals by position: a change of this digest makes them incomparable."""
    digest = hashlib.sha256(repr(products).encode()).hexdigest()
    assert digest == "3548044349aea0d45531139e3453866660f6b682a50597d4d06637b7c2d45faf"


@pytest.mark.parametrize("size", [1, 7, 400, 1100])
def test_any_size_and_seed(size):
    first, again, other = generate(size, 1), generate(size, 1), generate(size, 2)
    assert first == again != other
    assert len(first) == len({product.asin for product in first}) == size


def test_a_catalogue_needs_a_product():
    with pytest.raises(BadInput, match="at least 1 product"):
        generate(0)


# --- well formed


def test_products_are_distinct_where_shoppers_look(products):
    assert len({product.asin for product in products}) == len(products) == 1000
    assert all(re.fullmatch("B[A-Z0-9]{9}", product.asin) for product in products)
    shown = {replace(product, asin="", instruction="", instruction_attributes=()) for product in products}
    assert len(shown) == len(products)


def test_texts_are_short(products):
    for product in products:
        assert 5 <= len(product.title.split()) <= 9, product.title
        assert 1 <= len(product.description.split()) <= 25, product.description
        assert 2 <= len(product.bullets) <= 4
        assert all(len(bullet.split()) <= 10 for bullet in product.bullets), product.bullets


def test_the_vocabulary_is_small(products):
    """A tokenizer with 1,024 pieces has room for it."""
    words = Counter()
    for product in products:
        options = [word for group, values in product.options for word in (group, *values)]
        words.update(re.findall("[a-z']+", " ".join((*texts(product), product.query, *options)).lower()))
    assert 450 <= len(words) <= 700
    assert min(words.values()) >= 3, [word for word, count in words.items() if count < 3]


def test_options_are_as_files_would_give_them(products):
    """Values are normalised, groups distinct, and no value stands in two groups, where a click would set only one."""
    for product in products:
        groups = [group for group, _ in product.options]
        values = [value for _, values in product.options for value in values]
        assert len(set(groups)) == len(groups) <= 3
        assert len(set(values)) == len(values)
        assert all(value == option_value(value) for value in values)
        assert all(len(values) >= 2 for _, values in product.options)
    counts = Counter(len(product.options) for product in products)
    assert counts[0] > 300
    assert min(counts[1], counts[2], counts[3]) >= 10
    everything = [value for product in products for _, values in product.options for value in values]
    assert any(" | " in value for value in everything)
    assert any('"' in value for value in everything)
    assert max(len(values) for product in products for _, values in product.options) >= 12


def test_prices(products):
    kinds = Counter("none" if product.prices == (NO_PRICE,) else len(product.prices) for product in products)
    assert kinds[1] > 750
    assert 40 <= kinds[2] <= 140
    assert 40 <= kinds["none"] <= 120
    for product in products:
        low, high = FAMILIES[product.query].prices
        assert list(product.prices) == sorted(set(product.prices))
        assert product.prices == (NO_PRICE,) or low - 1 <= product.prices[0] <= product.prices[-1] <= high
        assert product.price == product.prices[0]
        assert re.fullmatch(r"\$\d+\.\d{1,2}( to \$\d+\.\d{1,2})?", product.price_tag)


def test_families_have_members_and_places_of_their_own(products):
    sizes = Counter(product.query for product in products)
    assert set(sizes) == set(FAMILIES)
    assert len(FAMILIES) == 38
    assert min(sizes.values()) >= 15
    assert max(sizes.values()) <= 40
    assert len({product.category for product in products}) == len(FAMILIES)
    assert len({product.category.split(" › ")[0] for product in products}) == len(DEPARTMENTS) == 5
    assert {name for family in FAMILIES.values() for name in family.options} == set(POOLS)


def test_instructions_want_what_the_product_has(products):
    asked = [product for product in products if product.instruction]
    assert 0.5 <= len(asked) / len(products) <= 0.7
    for product in asked:
        assert re.match(f"Find me .*{re.escape(product.query)}( with | for |$)", product.instruction)
        assert 2 <= len(product.instruction_attributes) <= 4
        assert set(product.instruction_attributes) <= set(product.attributes)
        assert all(attribute in product.instruction for attribute in product.instruction_attributes)
        assert any(attribute in product.title for attribute in product.instruction_attributes)
    assert all(product.instruction_attributes == () for product in products if not product.instruction)


def test_titles_of_a_family_share_a_noun(products):
    """Otherwise the reward would call a near miss something else."""
    for product in products:
        noun = FAMILIES[product.query].nouns[0].split()[-1]
        assert noun == FAMILIES[product.query].nouns[1].split()[-1]
        assert noun in title_nouns(product)
    assert title_nouns(replace(products[0], title="Wendo space saving desk lamp with a usb port")) == (
        ["wendo", "desk", "lamp", "usb", "port"]
    )
    assert not NOT_NOUNS & {noun for product in products for noun in title_nouns(product)}


# --- honest


def test_products_say_what_they_have_and_nothing_else(products):
    """Each attribute can be read in the title, the description or the features; one that is missing is never mentioned."""
    for product in products:
        for attribute in attributes_of(FAMILIES[product.query]):
            said = any(attribute in text for text in texts(product))
            assert said == (attribute in product.attributes), (attribute, texts(product))


def test_attributes_of_a_family_are_told_apart_by_the_reward():
    for family in FAMILIES.values():
        for first, second in permutations(sorted(attributes_of(family)), 2):
            assert not similar(first, second), (family.query, first, second)


def test_wanted_attributes_are_often_in_the_title_and_sometimes_not_found_by_search(products):
    titled = hidden = count = 0
    for product in products:
        for attribute in product.instruction_attributes:
            count += 1
            titled += attribute in product.title
            hidden += attribute not in product.document
    assert 0.5 <= titled / count <= 0.65
    assert 0.3 <= hidden / count <= 0.45


# --- neither trivial nor hopeless


@pytest.fixture(scope="module")
def shop():
    with WebShop() as sandbox:
        yield sandbox


def test_every_goal_can_be_reached(shop):
    """Unlike in the original, the very product with the very options is always worth 1."""
    catalogue = shop.shop.catalogue
    for goal in catalogue.goals:
        product, nouns = catalogue.product(goal.asin), catalogue.nouns(goal.asin)
        assert reward(goal, product, nouns, product, nouns, [value for _, value in goal.options]).total == 1.0, goal


def test_searching_is_not_enough_and_knowing_is(shop):
    """On training goals: buying what is listed first, even with the named options, leaves room for whoever compares."""
    tasks = shop.tasks("train")[::3]
    scores = {name: rules.score(shop, tasks, name) for name in rules.RULES}
    assert scores["random"].score < 25
    assert scores["random"].success < 4
    assert 50 <= scores["first hit"].score <= 65
    assert 2 <= scores["first hit"].success <= 10
    assert 70 <= scores["first hit, named options"].score <= 85
    assert 45 <= scores["first hit, named options"].success <= 62
    assert scores["oracle"].success > 95
