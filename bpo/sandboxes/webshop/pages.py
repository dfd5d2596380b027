"""Pages: what a shopper sees and can click in a state, as the original renders it, in its two text formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bpo.sandboxes.webshop.records import Product

SEPARATOR = " [SEP] "
INDEX, RESULTS, ITEM, SUB, DONE = "index", "results", "item", "sub", "done"
# The pages below an item; no reviews ship with WebShop, so the last one is empty.
SUB_PAGES = ("Description", "Features", "Reviews")
TEXT, BUTTON, OPTION, PRODUCT = "text", "button", "option", "product"


@dataclass(frozen=True, slots=True)
class ShopState:
    """Where a session is: all that the original keeps in its session and browser.

    page      index, results, item, sub or done
    query     the search in force; number: the page of its results, from 1
    asin      the product looked at; options: (group, value) pairs chosen for it, in order of the first click on a group
    opened    products looked at since the last return to the search page
    sub       which of SUB_PAGES is open
    """

    page: str = INDEX
    query: str = ""
    number: int = 1
    asin: str = ""
    options: tuple[tuple[str, str], ...] = ()
    opened: frozenset[str] = frozenset()
    sub: str = ""


class PageNode(NamedTuple):
    """A piece of text on a page, with the spaces around it that the original's templates leave there."""

    kind: str
    text: str


def index_page() -> list[PageNode]:
    """The search page."""
    return [PageNode(TEXT, "WebShop"), PageNode(TEXT, "Instruction: "), PageNode(TEXT, ""), PageNode(BUTTON, "Search")]


def _head(*buttons: str) -> list[PageNode]:
    # The second node is the place of the instruction.
    return [
        PageNode(TEXT, "Instruction:"),
        PageNode(TEXT, ""),
        *(PageNode(BUTTON, name) for name in ("Back to Search", *buttons)),
    ]


def results_page(number: int, total: int, products: Sequence[Product]) -> list[PageNode]:
    """One page of search results; there is always a next page, empty ones included."""
    nodes = [*_head(), PageNode(TEXT, f"Page {number} (Total results: {total})")]
    nodes += [PageNode(BUTTON, name) for name in (("< Prev", "Next >") if number > 1 else ("Next >",))]
    for product in products:
        nodes += [PageNode(PRODUCT, product.asin), PageNode(TEXT, product.title), PageNode(TEXT, product.price_tag)]
    return nodes


def item_page(product: Product) -> list[PageNode]:
    """A product with its options and the buttons of its sub-pages."""
    nodes = _head("< Prev")
    for group, values in product.options:
        nodes += [PageNode(TEXT, group), *(PageNode(OPTION, value) for value in values)]
    nodes += [PageNode(TEXT, product.title), PageNode(TEXT, f"Price: {product.price_tag}"), PageNode(TEXT, "Rating: N.A.")]
    return nodes + [PageNode(BUTTON, name) for name in (*SUB_PAGES, "Buy Now")]


def sub_page(product: Product, name: str) -> list[PageNode]:
    """Description, features or (always empty) reviews of a product."""
    texts = {"Description": (product.description,), "Features": tuple(f" {bullet}" for bullet in product.bullets)}
    return [*_head("< Prev"), *(PageNode(TEXT, text) for text in texts.get(name, ()))]


def done_page(asin: str, options: Sequence[tuple[str, str]], reward: float) -> list[PageNode]:
    """The receipt; most of its fields are blank for a shopper who is not a person."""
    texts = ["Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)", "Purchased"]
    texts += ["asin", asin, "options", _shown(dict(options))]
    texts += ["attrs", "None", "category", "None", "query", "None", "product category", "None", "Target", "asin", "options"]
    texts += ["attrs", "price upper", "instuction text", "category", "product category", "query", "Goal ", "None", "Reward"]
    texts += ["Your score (min 0.0, max 1.0)", str(reward), "Reward Details ", "None"]
    return [PageNode(TEXT, text) for text in texts]


def with_instruction(nodes: Sequence[PageNode], instruction: str) -> list[PageNode]:
    """The page for one shopper: the instruction stands after the node that announces it."""
    place = next((i for i, node in enumerate(nodes) if node.text.startswith("Instruction:")), None)
    return list(nodes) if place is None else [*nodes[: place + 1], PageNode(TEXT, instruction), *nodes[place + 2 :]]


def plain(nodes: Sequence[PageNode]) -> str:
    """The observation of mode `text`: the same before and after the click on an option."""
    return SEPARATOR.join(node.text.strip() for node in _visible(nodes))


def brief(nodes: Sequence[PageNode]) -> str:
    """Mode `brief`: what follows the instruction in mode `text`, since an agent's prompt states its task already.

    The field's trainers show this too, with quotes around every part (verl-agent, env_manager).
    """
    place = next((i for i, node in enumerate(nodes) if node.text.startswith("Instruction:")), -2)
    return plain(nodes[place + 2 :])


def rich(nodes: Sequence[PageNode], state: ShopState) -> str:
    """The observation of mode `text_rich`: a line per node, buttons in brackets, what has been clicked marked."""
    lines, clicked = [], []
    chosen = json.dumps(dict(state.options))
    for node in _visible(nodes):
        if node.kind == BUTTON:
            lines.append(f"[button] {node.text} [button_]")
        elif node.kind == PRODUCT:
            mark = "clicked button" if node.text in state.opened else "button"
            lines.append(f"\n[{mark}] {node.text} [{mark}_]")
        elif node.kind == OPTION:
            mark = "clicked button" if f'"{node.text}"' in chosen else "button"
            lines.append(f"  [{mark}] {node.text} [{mark}_]")
            if mark == "clicked button":
                clicked.insert(0, f"You have clicked {node.text}.")
        else:
            lines.append(node.text)
    return "".join(f"{line}\n" for line in (*clicked, *lines))


def _shown(options: dict[str, str]) -> str:
    """JSON as the original's template engine prints it into a page: keys sorted, characters that HTML knows escaped."""
    text = json.dumps(options, sort_keys=True)
    for sign in "<>&'":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _visible(nodes: Sequence[PageNode]) -> list[PageNode]:
    # White space with a line break in it comes from the layout of the page; a lone space is a piece of text to the original.
    return [node for node in nodes if node.text and ("\n" not in node.text or node.text.strip())]
