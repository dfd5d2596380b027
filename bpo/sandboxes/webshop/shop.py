"""The shop as a pure function: a state and an action give the next state; pages and rewards follow from the state alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from bpo.sandboxes.webshop import pages
from bpo.sandboxes.webshop.catalogue import Catalogue
from bpo.sandboxes.webshop.pages import PageNode, ShopState
from bpo.sandboxes.webshop.phrases import queries
from bpo.sandboxes.webshop.records import Goal
from bpo.sandboxes.webshop.reward import Reward, reward

# A name and an argument in brackets; whatever follows the last bracket is ignored, and an argument is one line.
_ACTION = re.compile(r"(.+)\[(.+)\]")


@dataclass(frozen=True, slots=True)
class Page:
    """What a state looks like: its nodes, still without instruction, and the state that each click leads to."""

    nodes: tuple[PageNode, ...]
    clicks: Mapping[str, ShopState | None]  # None: the button does nothing (the search button, without a query)


def parse(action: str) -> tuple[str, str] | None:
    """(name, lower-case argument) of an action such as `click[buy now]`, None where it has not that form."""
    found = _ACTION.match(action)
    return (found[1], found[2].lower()) if found else None


class Shop:
    """The pages of a catalogue; immutable but for its memory of pages.

    page_size  products on a page of results; the original shows 10
    """

    def __init__(self, catalogue: Catalogue, page_size: int = 10):
        self.catalogue, self.page_size = catalogue, page_size
        self.page = lru_cache(maxsize=4_096)(self._page)

    def advance(self, state: ShopState, action: str) -> ShopState:
        """The state after an action; the same one where the action means nothing here."""
        parsed = parse(action)
        if parsed is None or state.page == pages.DONE:
            return state
        name, argument = parsed
        if name == "search":
            return ShopState(pages.RESULTS, query=argument, opened=state.opened)
        # The original never clicks the search button itself, whatever else is called "search".
        target = self.page(state).clicks.get(argument) if name == "click" and argument != "search" else None
        return state if target is None else target

    def view(self, state: ShopState, goal: Goal, mode: str) -> str:
        """The observation of a state: `text` or `text_rich` as the original prints them, or `brief`."""
        if state.page == pages.DONE:
            nodes = pages.done_page(state.asin, state.options, self.reward(state, goal).total)
        else:
            nodes = pages.with_instruction(self.page(state).nodes, goal.text)
        if mode == "text_rich":
            return pages.rich(nodes, state)
        return pages.plain(nodes) if mode == "text" else pages.brief(nodes)

    def clickables(self, state: ShopState) -> tuple[str, ...]:
        """What can be clicked, in the original's order: buttons, products, option values; the search button included."""
        return tuple(self.page(state).clicks)

    def clicks(self, state: ShopState) -> tuple[str, ...]:
        """The clicks that do something, as actions; a text that cannot be written in brackets has none."""
        actions = ((text, f"click[{text}]") for text, target in self.page(state).clicks.items() if target is not None)
        return tuple(action for text, action in actions if parse(action) == ("click", text))

    @staticmethod
    def searches(instruction: str) -> tuple[str, ...]:
        """Searches for the instruction and for runs of its phrases, as actions."""
        actions = ((query, f"search[{query}]") for query in queries(instruction))
        return tuple(action for query, action in actions if parse(action) == ("search", query.lower()))

    def reward(self, state: ShopState, goal: Goal) -> Reward:
        """What buying the product of this state with its options is worth for a goal."""
        catalogue = self.catalogue
        wanted, bought = catalogue.product(goal.asin), catalogue.product(state.asin)
        values = [value for _, value in state.options]
        return reward(goal, wanted, catalogue.nouns(goal.asin), bought, catalogue.nouns(state.asin), values)

    def _page(self, state: ShopState) -> Page:
        if state.page == pages.INDEX:
            return Page(tuple(pages.index_page()), {"search": None})
        if state.page == pages.RESULTS:
            return self._results(state)
        if state.page == pages.ITEM:
            return self._item(state)
        if state.page == pages.SUB:
            product = self.catalogue.product(state.asin)
            back = replace(state, page=pages.ITEM, sub="")
            return Page(tuple(pages.sub_page(product, state.sub)), {"back to search": ShopState(), "< prev": back})
        return Page((), {})

    def shown(self, state: ShopState) -> tuple[str, ...]:
        """Identifiers of the products on a page of results."""
        start = (state.number - 1) * self.page_size
        return self.catalogue.search(state.query)[start : start + self.page_size]

    def _results(self, state: ShopState) -> Page:
        total = len(self.catalogue.search(state.query))
        products = [self.catalogue.product(asin) for asin in self.shown(state)]
        clicks: dict[str, ShopState | None] = {"back to search": ShopState()}
        if state.number > 1:
            clicks["< prev"] = replace(state, number=state.number - 1)
        clicks["next >"] = replace(state, number=state.number + 1)
        for product in products:
            opened = state.opened | {product.asin}
            clicks[product.asin.lower()] = replace(state, page=pages.ITEM, asin=product.asin, opened=opened)
        return Page(tuple(pages.results_page(state.number, total, products)), clicks)

    def _item(self, state: ShopState) -> Page:
        product = self.catalogue.product(state.asin)
        clicks: dict[str, ShopState | None] = {
            "back to search": ShopState(),
            "< prev": replace(state, page=pages.RESULTS, asin="", options=()),
        }
        for name in pages.SUB_PAGES:
            clicks[name.lower()] = replace(state, page=pages.SUB, sub=name)
        clicks["buy now"] = replace(state, page=pages.DONE)
        # A text that occurs twice is one clickable: it keeps its place and means what it meant last.
        for group, values in product.options:
            for value in values:
                clicks[value] = replace(state, options=tuple({**dict(state.options), group: value}.items()))
        return Page(tuple(pages.item_page(product)), clicks)
