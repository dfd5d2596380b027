"""What a shop is made of: products and goals, as small frozen records, and how the original files' entries become products."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from bpo.errors import BadInput, shown
from bpo.reading import STRICT, typed

# What WebShop shows for a product whose file entry has no price.
NO_PRICE = 100.0
# The attribute of a product that the attribute file does not know.
NO_ATTRIBUTE = "DUMMY_ATTR"


@dataclass(frozen=True, slots=True)
class Product:
    """One product of a catalogue.

    asin         its identifier, upper case; unique in the catalogue
    bullets      the feature list
    prices       one price in dollars, or the two ends of a range
    options      (group, values) pairs in file order, lower case; groups are distinct, values may repeat across groups
    attributes   what the reward compares with a goal's attributes
    category     "›"-separated path of the product tree; query: the search that found the product when it was collected
    instruction  the sentence goals are made of, "" where the product is no goal; instruction_attributes belong to it
    price        dollars a purchase costs: `prices[0]`, or a draw from the range (see `goals.priced`)
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    prices: tuple[float, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: tuple[str, ...]
    category: str
    query: str
    instruction: str = ""
    instruction_attributes: tuple[str, ...] = ()
    price: float = NO_PRICE

    @property
    def price_tag(self) -> str:
        """The price as pages show it: "$a" or "$a to $b"."""
        return " to ".join(f"${price}" for price in self.prices)

    @property
    def document(self) -> str:
        """The text that search looks in: title, description, first bullet, options, lower case."""
        options = ", and ".join(f"{group}: {', '.join(values)}" for group, values in self.options)
        first = self.bullets[0] if self.bullets else ""
        return " ".join((self.title, self.description, first, options)).lower()


@dataclass(frozen=True, slots=True)
class Goal:
    """What a shopper is asked to buy.

    text           the instruction that the pages show
    attributes     wanted attributes
    options        wanted options: (group, value) pairs of a synthetic goal, plain values of a human one
    price_upper    most dollars the purchase may cost
    weight         how likely it is when goals are drawn instead of numbered
    """

    asin: str
    text: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...] | tuple[str, ...]
    price_upper: float
    weight: float = 1.0


@dataclass(frozen=True)
class _Option:
    value: str


@dataclass(frozen=True)
class _Entry:
    """The fields of an entry of WebShop's item file that products are made of."""

    __pydantic_config__: ClassVar = {**STRICT, "extra": "ignore"}

    asin: str
    name: str
    full_description: str
    product_category: str
    query: str
    small_description: list[str] | str
    pricing: str | None = None
    customization_options: dict[str, list[_Option | str] | None] | Literal[""] | None = None


@dataclass(frozen=True)
class _Attributes:
    """The fields of an entry of the attribute file."""

    __pydantic_config__: ClassVar = {**STRICT, "extra": "ignore"}

    attributes: tuple[str, ...] = (NO_ATTRIBUTE,)
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class HumanGoal:
    """The fields of an entry of the file of goals that people wrote."""

    __pydantic_config__: ClassVar = {**STRICT, "extra": "ignore"}

    instruction: str
    instruction_attributes: list[str]
    instruction_options: list[str]


def asin_of(raw: Any, where: str) -> str:
    """The identifier of an entry of the item file; BadInput where it has none."""
    asin = raw.get("asin") if isinstance(raw, Mapping) else None
    if not isinstance(asin, str):
        raise BadInput(f"{where} is {shown(raw)}; it must be an object with an asin, which is text")
    return asin


def product_of(raw: Any, attributes: Any, where: str = "the entry", about: str = "its attributes") -> Product:
    """The product of one entry of WebShop's item file and its entry of the attribute file ({} where there is none).

    BadInput names the place of the one, `where`, or of the other, `about`, and the field that cannot be used.
    """
    entry, known = typed(_Entry, raw, where), typed(_Attributes, attributes, about)
    prices = prices_of(entry.pricing or "", where)
    bullets = entry.small_description
    return Product(
        asin=entry.asin,
        title=entry.name,
        description=entry.full_description,
        bullets=tuple(bullets) if isinstance(bullets, list) else (bullets,),
        prices=prices,
        options=tuple(
            (group.lower(), tuple(option_value(option) for option in options))
            for group, options in (entry.customization_options or {}).items()
            if options is not None
        ),
        attributes=known.attributes,
        category=entry.product_category,
        query=entry.query.lower().strip(),
        instruction=known.instruction or "",
        instruction_attributes=known.instruction_attributes or (),
        price=prices[0],
    )


def prices_of(text: str, where: str = "the product") -> tuple[float, ...]:
    """The first one or two dollar amounts in a price text; a product without one costs 100 dollars."""
    found = [re.sub(r"[^\d.]", "", part) for part in text.split("$")[1:3]]
    try:
        prices = tuple(float(amount) for amount in found if amount)
    except ValueError:
        raise BadInput(f"{where}: pricing is {shown(text)}; it must hold amounts like $12.50") from None
    if not all(map(math.isfinite, prices)):
        raise BadInput(f"{where}: pricing is {shown(text)}; it must hold finite amounts")
    return prices or (NO_PRICE,)


def option_value(option: _Option | str) -> str:
    """An option as pages show it; the compact layout lists the value alone."""
    value = option if isinstance(option, str) else option.value
    return value.strip().replace("/", " | ").lower()
