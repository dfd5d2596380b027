"""Demonstrations: winning sessions for imitation, by a shopper who knows the product but shops like one who has to look."""

from __future__ import annotations

import math
import random

from bpo.sandboxes.webshop import pages
from bpo.sandboxes.webshop.pages import ShopState
from bpo.sandboxes.webshop.phrases import queries
from bpo.sandboxes.webshop.rules import oracle
from bpo.sandboxes.webshop.sandbox import ShoppingTask

# Chances per session: to open another product of the page first, and to read a sub-page.
DETOUR, READ = 0.1, 0.1


def demonstration(task: ShoppingTask, seed: int) -> list[str]:
    """A session that buys what fits entirely (R = 1) within the step limit; [] where the shopper does not manage that.

    The search is one of those, by chance, that list the product soonest. Variety comes from `seed` too: whether another
    product is looked at first, and whether the description or the features are read.
    """
    rng = random.Random(f"webshop/{task.task}/demonstration/{seed}")
    pages_to = {query: _page_of(task, query) for query in queries(task.goal.text)}
    soonest = min(pages_to.values())
    query = rng.choice([query for query, page in pages_to.items() if page == soonest])
    return _shop(task, query, True, rng) or _shop(task, query, False, rng)


def _page_of(task: ShoppingTask, query: str) -> float:
    """The page of results that lists the product, infinite where none does."""
    found = task.shop.catalogue.search(query.lower())
    return found.index(task.goal.asin) // task.shop.page_size if task.goal.asin in found else math.inf


def _shop(task: ShoppingTask, query: str, wander: bool, rng: random.Random) -> list[str]:
    """The actions of one session, [] if it does not win in time."""
    shop, goal = task.shop, task.goal
    state, actions = ShopState(), []

    def do(action: str) -> None:
        nonlocal state
        state = shop.advance(state, action)
        actions.append(action)

    do(f"search[{query}]")
    while state.page != pages.DONE:
        if len(actions) >= task.max_steps or (state.page == pages.RESULTS and not shop.shown(state)):
            return []
        if wander and state.page == pages.RESULTS and not state.opened and rng.random() < DETOUR:
            do(f"click[{rng.choice(shop.shown(state)).lower()}]")
            if state.asin != goal.asin:
                do("click[< prev]")
            continue
        if wander and state.page == pages.ITEM and not state.options and rng.random() < READ:
            do(f"click[{rng.choice(('description', 'features'))}]")
            do("click[< prev]")
        do(oracle(shop, state, goal, rng))
    won = len(actions) <= task.max_steps and shop.reward(state, goal).total == 1.0
    return actions if won else []
