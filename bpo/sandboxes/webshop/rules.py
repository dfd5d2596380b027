"""RulePolicy policies: reference rows for every table, and the demonstrations that a warm start imitates."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bpo.errors import choose
from bpo.sandboxes.webshop import pages
from bpo.sandboxes.webshop.pages import ShopState
from bpo.sandboxes.webshop.records import Goal
from bpo.sandboxes.webshop.sandbox import WebShop
from bpo.sandboxes.webshop.shop import Shop

# (shop, where the session is, what is wanted, the rule's own random numbers) -> action
RulePolicy = Callable[[Shop, ShopState, Goal, random.Random], str]


def at_random(shop: Shop, state: ShopState, goal: Goal, rng: random.Random) -> str:
    """Search the instruction on the search page, click anything elsewhere."""
    if state.page == pages.INDEX:
        return f"search[{goal.text}]"
    return f"click[{rng.choice(shop.clickables(state))}]"


def first_hit(shop: Shop, state: ShopState, goal: Goal, rng: random.Random) -> str:
    """Search the instruction, open the first result, buy it."""
    if state.page == pages.INDEX:
        return f"search[{goal.text}]"
    if state.page == pages.RESULTS:
        shown = shop.shown(state)
        return _open(shown[0]) if shown else "click[back to search]"
    return "click[buy now]"


def first_hit_named(shop: Shop, state: ShopState, goal: Goal, rng: random.Random) -> str:
    """First hit, with the options that the instruction names literally: the longest such value of every group."""
    if state.page == pages.ITEM:
        for value in named_options(shop, state.asin, goal.text):
            if value not in dict(state.options).values():
                return f"click[{value}]"
    return first_hit(shop, state, goal, rng)


def oracle(shop: Shop, state: ShopState, goal: Goal, rng: random.Random) -> str:
    """Knows the product: search the instruction, turn pages until it is listed, choose the wanted options, buy."""
    if state.page == pages.RESULTS:
        return _open(goal.asin) if goal.asin in shop.shown(state) else "click[next >]"
    if state.page == pages.ITEM:
        for option in goal.options:
            value = option if isinstance(option, str) else option[1]
            if value in shop.clickables(state) and value not in dict(state.options).values():
                return f"click[{value}]"
    return first_hit(shop, state, goal, rng)


RULES: dict[str, RulePolicy] = {
    "random": at_random,
    "first hit": first_hit,
    "first hit, named options": first_hit_named,
    "oracle": oracle,
}


@dataclass(frozen=True)
class Score:
    """What a rule reaches on a list of tasks: 100 x mean R (0 where nothing was bought), % with R = 1, mean steps."""

    score: float
    success: float
    steps: float


def named_options(shop: Shop, asin: str, instruction: str) -> list[str]:
    """Group by group in page order, the longest value v of the group g for which "g: v" stands in the instruction."""
    found = []
    for group, values in shop.catalogue.product(asin).options:
        named = [value for value in values if f"{group}: {value}" in instruction]
        if named:
            found.append(max(named, key=len))
    return found


def play(sandbox: WebShop, task: str, rule: RulePolicy, rng: random.Random) -> tuple[list[str], Mapping]:
    """Play a rule to the end of a session; the actions, and the facts of the last outcome."""
    sandbox.reset(task)
    actions, info = [], {}
    while not sandbox.done:
        actions.append(rule(sandbox.shop, sandbox.state, sandbox.goal, rng))
        info = sandbox.step(actions[-1]).info
    return actions, info


def score(sandbox: WebShop, tasks: Sequence[str], name: str, seed: int = 0) -> Score:
    """What the rule `name` reaches on these tasks; BadInput for an unknown rule."""
    rule = RULES[choose("rule", name, RULES)]
    ends = [play(sandbox, task, rule, random.Random(f"{seed}/{task}")) for task in tasks]
    return Score(
        100 * sum(info["score"] for _, info in ends) / len(ends),
        100 * sum(info["won"] for _, info in ends) / len(ends),
        sum(len(actions) for actions, _ in ends) / len(ends),
    )


def _open(asin: str) -> str:
    return f"click[{asin.lower()}]"
