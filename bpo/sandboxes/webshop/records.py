"""What a shop is made of: products and goals, as small frozen records, and how the original files' entries become products."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


def product_of(raw: Mapping[str, Any], attributes: Mapping[str, Any]) -> Product:
    """The product of one entry of WebShop's item file and its entry of the attribute file ({} where there is none)."""
    bullets = raw["small_description"]
    options = raw.get("customization_options") or {}
    prices = prices_of(raw.get("pricing") or "")
    return Product(
        asin=raw["asin"],
        title=raw["name"],
        description=raw["full_description"],
        bullets=tuple(bullets) if isinstance(bullets, list) else (bullets,),
        prices=prices,
        options=tuple(
            (group.lower(), tuple(option_value(entry) for entry in entries))
            for group, entries in options.items()
            if entries is not None
        ),
        attributes=tuple(attributes.get("attributes", (NO_ATTRIBUTE,))),
        category=raw["product_category"],
        query=raw["query"].lower().strip(),
        instruction=attributes.get("instruction") or "",
        instruction_attributes=tuple(attributes.get("instruction_attributes") or ()),
        price=prices[0],
    )


def prices_of(text: str) -> tuple[float, ...]:
    """The first one or two dollar amounts in a price text; a product without one costs 100 dollars."""
    found = [re.sub(r"[^\d.]", "", part) for part in text.split("$")[1:3]]
    return tuple(float(amount) for amount in found if amount) or (NO_PRICE,)


def option_value(entry: Any) -> str:
    """An option as pages show it; the compact layout lists the value alone."""
    value = entry["value"] if isinstance(entry, Mapping) else entry
    return value.strip().replace("/", " | ").lower()
