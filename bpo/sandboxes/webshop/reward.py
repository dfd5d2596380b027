"""WebShop's reward, term by term (web_agent_site/engine/goal.py): how well a purchase fits a goal, in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from thefuzz import fuzz

from bpo.sandboxes.webshop.colors import COLORS
from bpo.sandboxes.webshop.records import Goal, Product

# Two texts count as the same above this similarity (of 100).
SIMILAR = 85
# Title scores: above the first the kind of product is right; below the second it is nearly wrong, at 0 wrong.
TITLE_RIGHT, TITLE_POOR = 0.2, 0.1


@dataclass(frozen=True)
class Reward:
    """The terms of a reward.

    kind         r_type: 1.0, 0.5, 0.1 or 0.0
    attributes   wanted attributes that the purchase has, of `wanted_attributes`
    options      wanted options that were chosen, of `wanted_options`
    price        whether the price is within the limit
    title_score  share of the goal's title nouns in the purchase's title; query_match, category_match: the two ways in
                 which a product can be of the right kind without it
    """

    kind: float
    attributes: int
    wanted_attributes: int
    options: int
    wanted_options: int
    price: bool
    title_score: float
    query_match: bool
    category_match: bool

    @property
    def total(self) -> float:
        """R = kind * (attributes + options + [price]) / (wanted attributes + wanted options + 1)."""
        hits = self.attributes + self.options + self.price
        return self.kind * (hits / (self.wanted_attributes + self.wanted_options + 1))


def reward(
    goal: Goal,
    wanted: Product,
    wanted_nouns: Sequence[str],
    bought: Product,
    bought_nouns: Sequence[str],
    options: Sequence[str],
) -> Reward:
    """The reward of buying `bought` with these option values where `goal`, made of the product `wanted`, was asked for.

    The nouns are those of the two titles, lower case, with repetitions.
    """
    score = len(set(bought_nouns) & set(wanted_nouns)) / len(wanted_nouns) if wanted_nouns else TITLE_RIGHT
    query = bought.query == wanted.query
    category = len(_path(bought.category) & _path(wanted.category)) >= 2
    return Reward(
        kind=_kind(score, query or category),
        attributes=sum(_has(bought, attribute) for attribute in goal.attributes),
        wanted_attributes=len(goal.attributes),
        options=_options(goal.options, options),
        wanted_options=len(goal.options),
        price=bought.price <= goal.price_upper,
        title_score=score,
        query_match=query,
        category_match=category,
    )


def _kind(title_score: float, matched: bool) -> float:
    if title_score == 0:
        return 0.0
    if title_score < TITLE_POOR:
        return 0.1
    return 1.0 if matched or title_score > TITLE_RIGHT else 0.5


def _path(category: str) -> set[str]:
    return {part.strip() for part in category.split("›")}


def _has(product: Product, attribute: str) -> bool:
    if any(similar(own, attribute) for own in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(attribute in text.lower() for text in texts)


def _options(wanted: Sequence[str | tuple[str, str]], chosen: Sequence[str]) -> int:
    chosen = [color(value) for value in chosen]
    return sum(any(similar(value, _wanted(option)) for value in chosen) for option in wanted)


def _wanted(option: str | tuple[str, str]) -> str:
    """What a wanted option is compared as.

    A synthetic goal's option is a (group, value) pair in the original, so that "the colour occurs in it" means "is one of the
    two", and other pairs are compared in their printed form. This is why the very product with the very options can miss 1.0.
    """
    if isinstance(option, str):
        return color(option)
    return next((name for name in COLORS if name in option), str(option))


def color(value: str) -> str:
    """The first colour word that is part of the value, or the value itself."""
    return next((name for name in COLORS if name in value), value)


@lru_cache(maxsize=100_000)
def similar(a: str, b: str) -> bool:
    """Whether two texts are the same for the reward: token-set similarity above 85."""
    return fuzz.token_set_ratio(a, b) > SIMILAR
