"""Demonstrations: winning sessions for imitation, by a shopper who knows the product but shops like one who has to look."""

from __future__ import annotations

import random

from bpo.sandboxes.webshop import pages
from bpo.sandboxes.webshop.pages import State
from bpo.sandboxes.webshop.phrases import queries
from bpo.sandboxes.webshop.rules import oracle
from bpo.sandboxes.webshop.sandbox import Errand

# Chances per session: to search a part of the instruction, to open another product of the page first, to read a sub-page.
PART, DETOUR, READ = 0.5, 0.25, 0.15


def demonstration(errand: Errand, seed: int) -> list[str]:
    """A session that buys what fits entirely (R = 1) within the step limit; [] where the shopper does not manage that.

    Variety comes from `seed`: which part of the instruction is searched, whether another product is looked at first, and
    whether the description or the features are read.
    """
    rng = random.Random(f"webshop/{errand.task}/demonstration/{seed}")
    found = queries(errand.goal.text)
    query = rng.choice(found[1:]) if len(found) > 1 and rng.random() < PART else found[0]
    for attempt in ((query, True), (query, False), (found[0], False)):
        actions = _shop(errand, *attempt, rng)
        if actions:
            return actions
    return []


def _shop(errand: Errand, query: str, wander: bool, rng: random.Random) -> list[str]:
    """The actions of one session, [] if it does not win in time."""
    shop, goal = errand.shop, errand.goal
    state, actions = State(), []

    def do(action: str) -> None:
        nonlocal state
        state = shop.advance(state, action)
        actions.append(action)

    do(f"search[{query}]")
    while state.page != pages.DONE:
        if len(actions) >= errand.max_steps or (state.page == pages.RESULTS and not shop.shown(state)):
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
    won = len(actions) <= errand.max_steps and shop.reward(state, goal).total == 1.0
    return actions if won else []
