"""Goals: what shoppers are asked for, in one order for everybody, with one set of prices, and splits whose leaks are named."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bpo.sandboxes.webshop.records import Goal, Product

# Seeds of the field: prices and limits are drawn with the first, goals shuffled with the second.
PRICE_SEED, ORDER_SEED = 42, 233
PRICE_STEPS = tuple(range(10, 1000, 10))
# The limit of a product that is dearer than all but one price step: none, and the instruction says nothing of a price.
NO_LIMIT = 1_000_000.0

# Index ranges of the field's splits on the 1,000 products (WebShop, baseline_models/env.py).
FIELD_SPLITS = {"test": (0, 500), "eval": (500, 1500), "train": (1500, None)}
# Of the goal products, the share that is kept from training; of the other goals, how many are for evaluation and tuning.
HELD_OUT, SEEN, PANEL = 0.2, 300, 200


def priced(products: Iterable[Product], rng: random.Random) -> Iterator[Product]:
    """The products with the price that a purchase costs: a uniform draw where the file gives a range."""
    for product in products:
        if len(product.prices) > 1:
            product = replace(product, price=rng.uniform(*product.prices))
        yield product


def limit(price: float, rng: random.Random) -> float:
    """Most dollars a goal allows: the larger of two draws from the next four price steps above the price."""
    steps = [step for step in PRICE_STEPS if step > price][:4]
    return float(max(rng.sample(steps, 2))) if len(steps) >= 2 else NO_LIMIT


def price_text(upper: float) -> str:
    """How an instruction names its limit."""
    return f", and price lower than {upper:.2f} dollars" if upper < NO_LIMIT else ""


def synthetic_goals(products: Iterable[Product], rng: random.Random) -> list[Goal]:
    """One goal for every combination of option values of every product with an instruction, in file order.

    A goal's weight is the mean of 1 / (number of goals that want the attribute) over its attributes.
    """
    goals = []
    for product in products:
        if not product.instruction:
            continue
        upper = limit(product.price, rng)
        names = sorted(group for group, _ in product.options)
        values = dict(product.options)
        for combination in itertools.product(*(values[name] for name in names)):
            options = tuple(zip(names, combination, strict=True))
            named = ", and ".join(f"{group}: {value}" for group, value in options)
            text = product.instruction + (f" with {named}" if named else "") + price_text(upper)
            goals.append(Goal(product.asin, text, product.instruction_attributes, options, upper))
    common = Counter(attribute for goal in goals for attribute in goal.attributes)
    return [
        replace(goal, weight=sum(1 / common[attribute] for attribute in goal.attributes) / len(goal.attributes))
        for goal in goals
    ]


def human_goals(
    products: Iterable[Product], written: Mapping[str, Sequence[Mapping[str, Any]]], rng: random.Random
) -> list[Goal]:
    """The goals that people wrote (by asin), in file order; those without attributes are left out, as in the original."""
    goals = []
    for product in products:
        for entry in written.get(product.asin, ()):
            attributes = tuple(entry["instruction_attributes"])
            if attributes:
                upper = limit(product.price, rng)
                text = entry["instruction"].strip(".") + price_text(upper)
                goals.append(Goal(product.asin, text, attributes, tuple(entry["instruction_options"]), upper))
    return goals


def ordered(goals: Sequence[Goal]) -> tuple[Goal, ...]:
    """The one order of goals that all splits and all workers share."""
    goals = list(goals)
    random.Random(ORDER_SEED).shuffle(goals)
    return tuple(goals)


def field_splits(goals: Sequence[Goal]) -> dict[str, tuple[int, ...]]:
    """The field's splits by position. On the 1,000 products most test products occur in train too: see `leaks`."""
    return {name: tuple(range(len(goals)))[start:stop] for name, (start, stop) in FIELD_SPLITS.items()}


def product_splits(goals: Sequence[Goal]) -> dict[str, tuple[int, ...]]:
    """Splits without leaks of products (new here): `valid_unseen` has the goals of products that occur nowhere else.

    `valid_seen` and `panel` hold other goals (options) of products that may occur in `train`.
    """
    products = sorted({goal.asin for goal in goals})
    random.Random(ORDER_SEED).shuffle(products)
    held_out = set(products[: round(HELD_OUT * len(products))])
    unseen = tuple(i for i, goal in enumerate(goals) if goal.asin in held_out)
    rest = tuple(i for i, goal in enumerate(goals) if goal.asin not in held_out)
    return {
        "train": rest[SEEN + PANEL :],
        "panel": rest[SEEN : SEEN + PANEL],
        "valid_seen": rest[:SEEN],
        "valid_unseen": unseen,
    }


SPLITS = {"field": field_splits, "products": product_splits}


@dataclass(frozen=True)
class Leaks:
    """What two splits share: `shared_products` of the first's `products`, the texts of `shared_texts` of its `goals`."""

    products: int
    shared_products: int
    goals: int
    shared_texts: int

    def __str__(self) -> str:
        return (
            f"{self.shared_products} of {self.products} products and {self.shared_texts} of {self.goals} instructions "
            "occur in both"
        )


def leaks(goals: Sequence[Goal], held: Sequence[int], train: Sequence[int]) -> Leaks:
    """How much of the goals `held` (positions) has been seen by who trains on the goals `train`."""
    products, texts = {goals[i].asin for i in held}, [goals[i].text for i in held]
    trained, read = {goals[i].asin for i in train}, {goals[i].text for i in train}
    return Leaks(len(products), len(products & trained), len(texts), sum(text in read for text in texts))
