"""The WebShop sandbox: the original's pages, search and rewards without Java or a browser, on its products or on ours.

What is named here is imported when it is asked for, after a missing package has been named.
"""

from importlib import import_module
from typing import Any

from bpo.errors import require

# What it needs beside the base install.
PACKAGES = ("nltk", "regex", "thefuzz", "ijson")
_HOME = {
    "RULES": "rules",
    "PortableShop": "sandbox",
    "WebShop": "sandbox",
    "WebShopSnapshot": "sandbox",
    "demonstration": "demos",
    "leaks": "goals",
    "open_catalogue": "catalogue",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for package in PACKAGES:
        require(package, "webshop")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
