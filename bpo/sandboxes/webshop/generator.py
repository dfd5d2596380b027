"""Makes the embedded catalogue: a shop of any size without a download, with the schema and the mechanisms of the original.

A family (all table lamps) has about 26 members per 1,000 products. They differ in brand, price, options and in which of the
family's traits they have, so that a search for a goal finds near misses. A trait is an attribute of the product, and every one
of them can be read somewhere: in the title, which the results show, or only in the description or the features, which have to
be opened. Search reads the description but no more than the first feature. No product says a trait that it does not have; but
the description names a companion of another family with traits of its own, which leads the search astray and no reader.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from bpo.errors import BadInput
from bpo.sandboxes.webshop.records import NO_PRICE, Product
from bpo.sandboxes.webshop.vocabulary import DEPARTMENTS, NOT_NOUNS, POOLS, Department, Family

# The numbers below are set so that searching alone wins about half of the goals and comparing the products found wins the rest.
# Shares of products: with an instruction, with a range of prices, without a price.
INSTRUCTED, RANGED, UNPRICED = 0.65, 0.09, 0.07
# How often a product has an option group of its family.
OFFERED = 0.66
# How many traits of a kind a product has: at least, at most.
COUNTS = {"": (2, 3), "with": (2, 2), "for": (1, 2)}
# How often an instruction wants, and a description says, so many traits.
WANTED = {2: 0.45, 3: 0.4, 4: 0.15}
DESCRIBED = {0: 0.3, 1: 0.4, 2: 0.3}
# How often the features repeat a trait of the title.
REPEATED = 0.4
# An instruction prefers traits of the title: the ranks of these, drawn from [0, 1), are so much lower.
TITLED = 0.65
# Most words of a title, the brand included.
TITLE_WORDS = 9

OPENINGS = {"": "In short:", "with": "Comes", "for": "Made"}
FEATURES = {
    "": ("Key feature: {}", "Good to know: {}"),
    "with": ("Features {}", "Now with {}"),
    "for": ("Great for {}", "Made for {}"),
}
# Prices end in .99, .95 or .5.
CENTS = (0.01, 0.05, 0.5)


@dataclass(frozen=True)
class Trait:
    """Something a product has. `link` joins it to a noun: "with", "for", or "" for what is said before the noun."""

    link: str
    text: str

    @property
    def attribute(self) -> str:
        """The text without its article."""
        return re.sub("^(a|an|the) ", "", self.text)


def generate(size: int = 1000, seed: int = 0) -> tuple[Product, ...]:
    """A catalogue of `size` products, in an order that tells nothing; the same in every process.

    An identifier is "B", more constant letters and a number: a small model reads one token and a few digits, which look the
    same in the lower case of actions.
    """
    if size < 1:
        raise BadInput(f"a catalogue needs at least 1 product, not {size}")
    rng = random.Random(f"webshop/{seed}")
    products: dict[Product, None] = {}
    for department, family, count in _shares(rng, size):
        goal = len(products) + count
        while len(products) < goal:  # one that equals an earlier one in everything is drawn again
            products[_product(rng, department, family)] = None
    shuffled = rng.sample(list(products), size)
    digits = max(3, len(str(size - 1)))
    letters = "BPOSHOPPER"[: 10 - digits]
    numbers = rng.sample(range(10**digits), size)
    return tuple(
        replace(product, asin=f"{letters}{number:0{digits}d}") for product, number in zip(shuffled, numbers, strict=True)
    )


def title_nouns(product: Product) -> list[str]:
    """The nouns of a generated product's title, lower case, in order, with repetitions (the original asks a tagger)."""
    return [word for word in _words(product.title) if word in _NOUNS]


def _words(text: str) -> list[str]:
    return re.findall("[a-z]{2,}", text.lower())


def _nouns() -> Iterator[str]:
    for department in DEPARTMENTS:
        yield from department.brands
        for family in department.families:
            for slot in (family.nouns, *family.parts, *family.uses):
                yield from slot


_NOUNS = frozenset(word for text in _nouns() for word in _words(text)) - NOT_NOUNS


def _shares(rng: random.Random, size: int) -> Iterator[tuple[Department, Family, int]]:
    """How many products each family has: in proportion to weights between 0.7 and 1.3, `size` in all."""
    pairs = [(department, family) for department in DEPARTMENTS for family in department.families]
    passed = list(accumulate(rng.uniform(0.7, 1.3) for _ in pairs))
    ends = [round(size * weight / passed[-1]) for weight in passed]
    for pair, start, end in zip(pairs, [0, *ends[:-1]], ends, strict=True):
        yield *pair, end - start


def _product(rng: random.Random, department: Department, family: Family) -> Product:
    """A product without an identifier."""
    noun = rng.choice(family.nouns)
    traits = _traits(rng, family)
    titled = _titled(rng, traits, noun)
    described = rng.sample(traits, _draw(rng, DESCRIBED))
    listed = [trait for trait in traits if trait not in titled and trait not in described]
    if rng.random() < REPEATED:
        listed.append(rng.choice(titled))
    wanted = _wanted(rng, traits, titled) if rng.random() < INSTRUCTED else []
    prices = _prices(rng, family)
    return Product(
        asin="",
        title=f"{rng.choice(department.brands)} {_phrase(noun, titled)}",
        description=_description(rng, department, family, described),
        bullets=_bullets(rng, department, listed),
        prices=prices,
        options=_options(rng, family),
        attributes=tuple(trait.attribute for trait in traits),
        category=f"{department.root} › {family.category}",
        query=family.query,
        instruction=f"Find me {_phrase(family.query, wanted, ', ', ', ')}" if wanted else "",
        instruction_attributes=tuple(trait.text for trait in wanted),
        price=prices[0],
    )


def _draw(rng: random.Random, shares: Mapping[int, float]) -> int:
    return rng.choices(list(shares), list(shares.values()))[0]


def _traits(rng: random.Random, family: Family) -> list[Trait]:
    """Some of the family's traits, one of a slot at most, in the family's order."""
    traits = []
    for link, slots in family.slots.items():
        places = sorted(rng.sample(range(len(slots)), rng.randint(*COUNTS[link])))
        traits += [Trait(link, rng.choice(slots[place])) for place in places]
    return traits


def _titled(rng: random.Random, traits: Sequence[Trait], noun: str) -> list[Trait]:
    """The traits of the title, in order: at most two before the noun and one behind it, as far as the words suffice."""
    titled: list[Trait] = []
    for trait in rng.sample(traits, len(traits)):
        beside = sum(bool(other.link) == bool(trait.link) for other in titled)
        words = 1 + len(_phrase(noun, [*titled, trait]).split())  # the brand is one
        if beside < (1 if trait.link else 2) and words <= TITLE_WORDS:
            titled.append(trait)
    return [trait for trait in traits if trait in titled]


def _wanted(rng: random.Random, traits: Sequence[Trait], titled: Sequence[Trait]) -> list[Trait]:
    """The traits an instruction asks for, in order and without articles, as the original puts them."""
    ranks = {trait: rng.random() * (TITLED if trait in titled else 1) for trait in traits}
    ranks[rng.choice(titled)] = 0.0  # or the search could hardly find the product
    chosen = sorted(traits, key=ranks.__getitem__)[: _draw(rng, WANTED)]
    return [replace(trait, text=trait.attribute) for trait in traits if trait in chosen]


def _phrase(noun: str, traits: Sequence[Trait], before: str = " ", after: str = " and ") -> str:
    """A noun with its traits: "light weight rain jacket with side pockets for daily wear"."""
    adjectives = before.join(trait.text for trait in traits if not trait.link)
    return " ".join(filter(None, (adjectives, noun, *_clauses(traits, after))))


def _clauses(traits: Sequence[Trait], joint: str = " and ") -> list[str]:
    """What is said behind a noun: "with side pockets", "for daily wear"."""
    said = {link: [trait.text for trait in traits if trait.link == link] for link in ("with", "for")}
    return [f"{link} {joint.join(texts)}" for link, texts in said.items() if texts]


def _description(rng: random.Random, department: Department, family: Family, traits: Sequence[Trait]) -> str:
    """What the product has and is for, without its noun, so that a companion's noun counts as much as the own."""
    links = [link for link in OPENINGS if any(trait.link == link for trait in traits)]
    said = ", ".join([trait.text for trait in traits if not trait.link] + _clauses(traits))
    own = f"{OPENINGS[links[0]]} {said}. " if links else ""
    return f"{own}Goes well with {_companion(rng, department, family)}."


def _companion(rng: random.Random, department: Department, family: Family) -> str:
    """Products of another family with two traits that the own family does not know."""
    known = {text for slots in family.slots.values() for slot in slots for text in slot}
    other = rng.choice([other for other in department.families if other is not family])
    foreign = {link: [text for slot in slots for text in slot if text not in known] for link, slots in other.slots.items()}
    traits = [Trait(link, rng.choice(foreign[link])) for link in ("", rng.choice(("with", "for"))) if foreign[link]]
    return _phrase(other.query, traits)


def _bullets(rng: random.Random, department: Department, traits: Sequence[Trait]) -> tuple[str, ...]:
    """A feature that says nothing, then one for each link; a second that says nothing where there would be only one."""
    said = {link: [trait.text for trait in traits if trait.link == link] for link in FEATURES}
    telling = [rng.choice(FEATURES[link]).format(_listed(texts)) for link, texts in said.items() if texts]
    rng.shuffle(telling)
    return (*rng.sample(department.facts, 1 if telling else 2), *telling)


def _listed(texts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _prices(rng: random.Random, family: Family) -> tuple[float, ...]:
    """One price, a range or NO_PRICE; cheap products are more frequent than dear ones."""
    kind = rng.random()
    if kind < UNPRICED:
        return (NO_PRICE,)
    amounts = [_amount(rng, *family.prices) for _ in range(2 if kind < UNPRICED + RANGED else 1)]
    return tuple(sorted(set(amounts)))


def _amount(rng: random.Random, least: int, most: int) -> float:
    dollars = least + int((most - least) * min(rng.random(), rng.random()))
    return round(dollars - rng.choice(CENTS), 2)


def _options(rng: random.Random, family: Family) -> tuple[tuple[str, tuple[str, ...]], ...]:
    groups = []
    for pool in (POOLS[name] for name in family.options):
        if rng.random() < OFFERED:
            places = sorted(rng.sample(range(len(pool.values)), rng.randint(pool.least, pool.most)))
            groups.append((pool.group, tuple(pool.values[place] for place in places)))
    return tuple(groups)
